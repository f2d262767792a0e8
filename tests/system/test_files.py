"""Atomic files, and what a killed process leaves of them."""

import os
import subprocess
import sys

import pytest

from dsacc.system.files import is_temporary, write_atomically

DIES = """
import os, sys
from pathlib import Path
from dsacc.system import files
files.os.replace = lambda *_: os.kill(os.getpid(), 9)  # right before the file would take its name
files.write_atomically(Path(sys.argv[1]), b"half")
"""


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_what_a_killed_process_left_is_removed_when_the_file_is_written_again(tmp_path):
    path = tmp_path / "rows[1].json"
    killed = subprocess.run([sys.executable, "-c", DIES, str(path)])
    assert killed.returncode == -9
    (left,) = names(tmp_path)
    assert is_temporary(tmp_path / left, path.name)
    write_atomically(path, b"whole")
    assert names(tmp_path) == [path.name]
    assert path.read_bytes() == b"whole"


@pytest.mark.parametrize("pid", [os.getppid(), "x"])
def test_what_a_living_process_writes_or_nobody_knows_is_left_alone(pid, tmp_path):
    path = tmp_path / "rows.json"
    write_atomically(path, b"1")
    from dsacc.system.files import _HOST

    others = [f".rows.json.{_HOST}.{pid}.tmp", ".rows.json.ffffffff.999999.tmp", f".other.json.{_HOST}.999999.tmp"]
    for name in others:
        (tmp_path / name).write_bytes(b"half")
    write_atomically(path, b"2")
    assert names(tmp_path) == sorted([*others, "rows.json"])
