"""What `dsacc status` says of folders in any condition, read from files alone."""

import io
import json
import os
import socket
import time

import pytest
from rich.console import Console

from dsacc.cli import main
from dsacc.dsac import DSAC
from dsacc.experiments.plan import Plan, Run, write_plan
from dsacc.experiments.status import Standing, read_standings
from dsacc.experiments.status_table import as_table
from dsacc.runs.lock import STALE, RunLock
from dsacc.system.text import duration

RUN = Run("CartPole-v1", "dsac", 0, 1_000, "classic")
OTHER = Run("CartPole-v1", "dsac-m", 0, 1_000, "classic")


@pytest.fixture
def out(tmp_path):
    write_plan(Plan("x", (RUN, OTHER)), tmp_path)
    return tmp_path


def put(path, content) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))


def running(out, step=200):
    folder = out / "runs" / RUN.name
    put(folder / "status.json", {"state": "running", "step": step, "steps": 1_000, "pid": 1})
    put(folder / "timing.jsonl", '{"step": 100, "steps_per_second": 10}\n{"step": 200, "steps_per_second": 40.0}\n')
    put(folder / "metrics.jsonl", '{"step": 100, "return": 7.5}\n{"step": 200, "return": null}\n{"step": 3')
    return folder


def task(out, **said) -> None:
    here = {"state": "training", "host": socket.gethostname(), "pid": os.getpid(), "steps": 1_000}
    put(out / "tasks" / f"{RUN.name}.json", {**here, **said})


def test_a_run_that_has_not_begun_waits(out):
    assert [(s.run, s.state, s.step, s.steps) for s in read_standings(out)] == [
        (RUN.name, "waiting", 0, 1_000),
        (OTHER.name, "waiting", 0, 1_000),
    ]


def test_a_running_run_says_how_far_it_is(out):
    folder = running(out)
    task(out)
    with RunLock.acquire(folder):
        standing = read_standings(out)[0]
    assert (standing.state, standing.step, standing.steps_per_second) == ("training", 200, 40.0)
    assert (standing.seconds_left, standing.last_return) == (20.0, 7.5)
    assert standing.node == f"{socket.gethostname()}:{os.getpid()}"


def test_a_run_whose_process_is_gone_is_lost(out):
    folder = running(out)
    task(out, pid=2**30)
    assert read_standings(out)[0].state == "lost"
    holder = {"host": "far", "pid": 5, "pid_started": 1.0, "started": "2026-01-01T00:00:00Z"}
    put(folder / "lock", {**holder, "heartbeat": time.time() - 2 * STALE})
    assert read_standings(out)[0].state == "lost"
    put(folder / "lock", {**holder, "heartbeat": time.time()})
    assert (read_standings(out)[0].state, read_standings(out)[0].node) == ("training", "far:5")
    (standing,) = read_standings(folder)
    assert standing.state == "training"
    (folder / "lock").unlink()
    assert read_standings(folder)[0].state == "lost"


def test_a_test_on_another_host_lives_as_long_as_its_file_is_fresh(out):
    task(out, state="testing", host="far")
    path = out / "tasks" / f"{RUN.name}.json"
    assert read_standings(out)[0].state == "testing"
    os.utime(path, (time.time() - 2 * STALE,) * 2)
    assert read_standings(out)[0].state == "lost"


def test_failed_stopped_and_finished_runs_say_so(out):
    folder = running(out)
    task(out, state="failed", error="it [broke]")
    assert (read_standings(out)[0].state, read_standings(out)[0].error) == ("failed", "it [broke]")
    assert main(["status", str(out)]) == 0
    task(out, state="stopped")
    assert read_standings(out)[0].state == "stopped"
    task(out, state="done")
    put(folder / "status.json", {"state": "finished", "step": 1_000, "steps": 1_000})
    assert read_standings(out)[0].state == "finished"
    task(out, state="done", steps=500)
    assert read_standings(out)[0].state == "waiting"


@pytest.mark.parametrize(
    "damage", ["", "{", "[]", "null", "[1, 2]", '{"state": NaN, "step": "x", "pid": {}}', "\0\0\0"]
)
def test_damaged_files_never_stop_it(damage, out, capsys):
    running(out)
    for name in ("status.json", "timing.jsonl", "metrics.jsonl", "lock"):
        put(out / "runs" / RUN.name / name, damage)
    put(out / "tasks" / f"{RUN.name}.json", damage)
    assert main(["status", str(out)]) == 0
    assert main(["status", str(out), "--json"]) == 0
    capsys.readouterr()


def test_nan_in_a_log_is_unknown_and_json_stays_json(out, capsys):
    folder = running(out)
    put(folder / "metrics.jsonl", '{"return": NaN}\n')
    put(folder / "timing.jsonl", '{"steps_per_second": 0}\n')
    assert main(["status", str(out), "--json"]) == 0
    first, second = json.loads(capsys.readouterr().out)
    assert (first["last_return"], first["seconds_left"]) == (None, None)
    assert second["state"] == "waiting"


def test_only_the_end_of_a_log_is_read(out):
    folder = running(out)
    put(folder / "metrics.jsonl", '{"return": 1}\n' + "x" * 100_000 + '\n{"return": 2}\n')
    assert read_standings(out)[0].last_return == 2
    put(folder / "metrics.jsonl", '{"return": 1}\n' + "x" * 100_000 + "\n")
    assert read_standings(out)[0].last_return is None


def test_one_run_and_a_folder_of_runs(tmp_path, capsys):
    model = DSAC("CartPole-v1", hidden=8, random_steps=10, batch_size=4)
    model.learn(30, out=tmp_path / "runs" / "a")
    for folder in (tmp_path, tmp_path / "runs", tmp_path / "runs" / "a"):
        (standing,) = read_standings(folder)
        assert (standing.run, standing.state, standing.step, standing.steps) == ("a", "finished", 30, 30)
    assert main(["status", str(tmp_path / "nothing")]) == 2
    assert main(["status", str(tmp_path / "runs" / "a" / "checkpoints")]) == 2
    (tmp_path / "plan.json").write_text("{")
    assert main(["status", str(tmp_path)]) == 2
    assert capsys.readouterr().err.count("\n") == 3


@pytest.mark.parametrize(
    ("seconds", "text"), [(45.2, "45 s"), (750, "12 min"), (12_240, "3.4 h"), (440_000, "5.1 days")]
)
def test_a_duration_has_the_unit_that_fits(seconds, text):
    assert duration(seconds) == text


def shown(*standings: Standing, width: int = 80) -> list[str]:
    console = Console(file=io.StringIO(), width=width)
    console.print(as_table(standings, "x"))
    return [line.strip() for line in console.file.getvalue().splitlines() if line.strip()]


def standing(run: str, steps: int = 100_000, last_return: float = 10_463.0) -> Standing:
    return Standing(run, "training", 26_000, steps, 34.0, 2_160.0, last_return, "vm:3613", None)


def test_a_line_a_run_in_eighty_columns_with_as_much_of_an_id_as_is_needed():
    names = ["Breakout-dsac-s0-759fadb6", "Breakout-dsac-m-s0-ce0cd971", "Breakout-dsac-m-s0-48c54552"]
    lines = shown(*map(standing, names))
    assert [line.split()[0] for line in lines[-3:]] == [
        "Breakout-dsac-s0",
        "Breakout-dsac-m-s0-ce0",
        "Breakout-dsac-m-s0-48c",
    ]
    assert len(lines) == 8  # two of title, two of the heading, its rule, three runs
    assert "step of" in lines[2]
    assert "100,000" in lines[3]
    assert lines[-1].split()[1:] == ["26,000", "34", "36", "min", "10,463", "vm:3613", "training"]


def test_ids_alike_in_their_first_digits_stay_whole_and_different_lengths_are_shown_per_run():
    lines = shown(standing("A-dsac-s0-ce0cd971"), standing("A-dsac-s0-ce054552", steps=50_000), width=120)
    assert [line.split()[:2] for line in lines[-2:]] == [
        ["A-dsac-s0-ce0cd971", "26,000/100,000"],
        ["A-dsac-s0-ce054552", "26,000/50,000"],
    ]
