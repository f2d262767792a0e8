"""A run while it is at work: what its folder says, and what happens where the folder cannot be had or is lost."""

import json
import time

import pytest

from dsacc import DSAC
from dsacc.errors import RunError
from dsacc.runs import lock
from dsacc.runs.session import Clock

TINY = {"random_steps": 20, "hidden": 16, "batch_size": 8, "log_every": 50}


def cartpole() -> DSAC:
    return DSAC("CartPole-v1", **TINY)


def status_of(run):
    return json.loads((run / "status.json").read_text())


def test_the_folder_says_how_far_a_run_is_while_it_runs(tmp_path):
    seen = []

    def look(_):
        seen.append((status_of(tmp_path)["state"], status_of(tmp_path)["step"]))

    cartpole().learn(120, out=tmp_path, callback=look, every={30: look})
    begun, *_ = seen
    assert begun == ("running", 0)
    assert ("running", 50) in seen
    assert ("running", 100) in seen
    assert {state for state, _ in seen} == {"running"}
    assert (status_of(tmp_path)["state"], status_of(tmp_path)["step"]) == ("finished", 120)


def test_a_run_whose_folder_another_process_took_over_stops_and_leaves_it_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(lock, "HEARTBEAT", -1)
    theirs = {"host": "elsewhere", "pid": 123, "pid_started": 1.7e9, "started": "2025-01-01T00:00:00Z"}

    def take_over(row):
        if row["step"] == 100:
            (tmp_path / "lock").write_text(json.dumps(theirs | {"heartbeat": time.time()}))
            (tmp_path / "status.json").write_text('{"state": "theirs"}')

    with pytest.raises(RunError, match="another process took over"):
        cartpole().learn(120, out=tmp_path, callback=take_over)
    assert status_of(tmp_path) == {"state": "theirs"}
    assert json.loads((tmp_path / "lock").read_text())["pid"] == 123


def test_a_run_that_cannot_write_its_status_lets_go_of_the_folder(tmp_path):
    cartpole().learn(60, out=tmp_path)
    (tmp_path / "status.json").unlink()
    (tmp_path / "status.json").mkdir()
    with pytest.raises(RunError, match=r"status\.json cannot be written"):
        cartpole().learn(120, out=tmp_path)
    assert not (tmp_path / "lock").exists()


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("precious")
    with pytest.raises(RunError, match=r"run cannot be written \(Not a directory\)"):
        cartpole().learn(60, out=tmp_path / "file" / "run")
    assert (tmp_path / "file").read_text() == "precious"


def test_timing_is_seconds_since_the_start_and_the_speed_since_the_last_row():
    began, clock = time.monotonic(), Clock(100)
    time.sleep(0.03)
    first = clock.row(140)
    middle = time.monotonic()
    time.sleep(0.03)
    second = clock.row(150)
    ended = time.monotonic()
    assert (first["step"], second["step"]) == (140, 150)
    assert 0.03 <= first["seconds"] + 0.001 <= middle - began + 0.002
    assert first["seconds"] + 0.03 <= second["seconds"] + 0.002 <= ended - began + 0.003
    assert 40 / (middle - began) - 1 <= first["steps_per_second"] <= 40 / 0.03
    assert 10 / (ended - middle + 0.005) - 1 <= second["steps_per_second"] <= 10 / 0.03
    assert first["resident_mb"] > 1
