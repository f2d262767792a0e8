"""The short form of `make crash-test`: nine kills, every ending compared by hash."""

import subprocess

import pytest

from robustness.crash import HARDEN, command, disturbed_run, fingerprint


@pytest.mark.parametrize(
    ("env", "agent", "first"),
    [("Breakout", "dsac-m", 0), ("dsacc/Catch-v0", "dsac-v", 1), ("dsacc/Catch-v0", HARDEN, 1)],
)
def test_a_killed_run_ends_with_the_same_weights_replay_and_metrics(env, agent, first, tmp_path):
    subprocess.run(command(env, agent, tmp_path / "whole"), check=True, capture_output=True)
    kills = disturbed_run(env, agent, tmp_path / "killed", seed=first, wanted=3, first=first)
    assert kills
    assert fingerprint(tmp_path / "killed") == fingerprint(tmp_path / "whole")
    assert agent == HARDEN or any(name.startswith("replay/") for name in fingerprint(tmp_path / "whole"))
    assert not (tmp_path / "killed" / "lock").exists()
