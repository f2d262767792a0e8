"""The short form of `make crash-test`: a dozen kills, every ending compared by hash."""

import subprocess
import sys
from pathlib import Path

import pytest

CRASH = Path(__file__).with_name("crash.py")


@pytest.mark.parametrize("part", ["train", "harden", "evaluate"])
def test_a_killed_command_ends_with_the_same_bytes(part, tmp_path):
    words = ["--kills", "4", "--only", part, "--seed", "0", "--keep", str(tmp_path / "kept")]
    ended = subprocess.run([sys.executable, str(CRASH), *words], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert ended.stdout.splitlines()[-1].startswith("4 of 4 kills ended in the same bytes")
    assert not (tmp_path / "kept").exists()
