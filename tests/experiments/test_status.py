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
from dsacc.experiments.plan import Plan, Run, Stage, write_plan
from dsacc.experiments.status import Standing, read_standings
from dsacc.experiments.status_table import as_table, watch
from dsacc.runs.lock import STALE, RunLock
from dsacc.system.seals import sealed
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


# --- students ---

STAGES = (Stage(("generic",), 400, 64, 1), Stage(("near",), 500, 64, 1, label="near"))
TAUGHT = Run("dsacc/Catch-v0", "dsac", 0, 1_000, "efficient", harden=STAGES)
FIRST, SECOND = TAUGHT.students


@pytest.fixture
def hardening(tmp_path):
    """An experiment whose run is trained and whose first student is at update 100."""
    write_plan(Plan("x", (TAUGHT,)), tmp_path)
    runs = tmp_path / "runs"
    put(runs / TAUGHT.name / "status.json", {"state": "finished", "step": 1_000, "steps": 1_000})
    put(runs / FIRST.name / "status.json", {"state": "running", "step": 100, "steps": 400})
    put(runs / FIRST.name / "timing.jsonl", '{"step": 100, "steps_per_second": 30}\n')
    return tmp_path


def turn(out, state, student=None, **said) -> list[str]:
    """The states of the run and its students when the task says this."""
    here = {"state": state, "host": socket.gethostname(), "pid": os.getpid(), "steps": 1_000, "student": student}
    put(out / "tasks" / f"{TAUGHT.name}.json", {**here, **said})
    return [s.state for s in read_standings(out)]


def test_a_student_says_how_far_it_is_and_the_next_one_waits(hardening):
    with RunLock.acquire(hardening / "runs" / FIRST.name):
        assert turn(hardening, "hardening", FIRST.name) == ["finished", "hardening", "waiting"]
        run, first, second = read_standings(hardening)
    assert (run.step, run.steps, run.update, run.teacher) == (1_000, 1_000, None, None)
    assert (first.update, first.updates, first.steps_per_second, first.seconds_left) == (100, 400, 30.0, 10.0)
    assert (first.step, first.steps, first.teacher, first.title) == (1_000, 1_000, TAUGHT.name, "hardened")
    assert (second.update, second.updates, second.step, second.title) == (0, 500, 0, "hardened (near)")


def test_the_state_of_a_task_is_that_of_the_student_whose_turn_it_is(hardening):
    out = hardening
    assert turn(out, "testing") == ["testing", "waiting", "waiting"]
    assert turn(out, "hardening", FIRST.name, pid=2**30) == ["finished", "lost", "waiting"]
    assert turn(out, "stopped", FIRST.name) == ["finished", "stopped", "waiting"]
    put(out / "runs" / FIRST.name / "status.json", {"state": "finished", "step": 400, "steps": 400})
    assert turn(out, "testing", FIRST.name) == ["finished", "testing", "waiting"]
    assert turn(out, "hardening", SECOND.name) == ["finished", "finished", "hardening"]
    assert turn(out, "failed", SECOND.name, error="it broke") == ["finished", "finished", "failed"]
    assert [s.error for s in read_standings(out)] == [None, None, "it broke"]
    put(out / "runs" / SECOND.name / "status.json", {"state": "finished", "step": 500, "steps": 500})
    assert turn(out, "done", SECOND.name) == ["finished"] * 3


def test_the_table_has_students_beneath_their_run_and_fits_into_eighty_columns(hardening, capsys):
    with RunLock.acquire(hardening / "runs" / FIRST.name):
        turn(hardening, "hardening", FIRST.name)
        lines = shown(*read_standings(hardening))
    assert "1 waiting, 1 hardening, 1 finished" in lines[1]
    assert [line.split()[:3] for line in lines[-3:]] == [
        ["dsacc-Catch-v0-dsac-s0", "1,000", "finished"],
        ["hardened", "25", "%"],
        ["hardened", "(near)", "0"],
    ]
    assert main(["status", str(hardening), "--json"]) == 0
    assert [s["updates"] for s in json.loads(capsys.readouterr().out)] == [None, 400, 500]


def test_status_says_how_often_a_run_was_taken_away(hardening, capsys):
    turn(hardening, "waiting", taken={"preempted": 3, "out of time": 1})
    standings = read_standings(hardening)
    assert [s.taken for s in standings] == ["preempted 3 times, out of time once", "", ""]
    assert f"{TAUGHT.name}: preempted 3 times, out of time once" in " ".join(" ".join(shown(*standings)).split())


def test_status_says_what_a_run_warned_of(hardening, capsys):
    turn(hardening, "waiting", warnings=["alpha [red]ran away"])
    standings = read_standings(hardening)
    assert [s.warnings for s in standings] == [("alpha [red]ran away",), (), ()]
    assert f"{TAUGHT.name}: alpha [red]ran away" in " ".join(" ".join(shown(*standings)).split())
    assert main(["status", str(hardening), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["warnings"] == ["alpha [red]ran away"]


@pytest.mark.parametrize("damaged", ["alpha", [3, None], {"a": 1}, 5])
def test_damaged_warnings_are_none(damaged, hardening):
    turn(hardening, "waiting", warnings=damaged)
    assert read_standings(hardening)[0].warnings == ()


def test_a_live_table_ends_when_the_rest_of_a_task_will_not_be_done(hardening):
    assert turn(hardening, "failed", FIRST.name) == ["finished", "failed", "waiting"]
    watch(hardening, Console(file=io.StringIO(), force_terminal=True), once=False)  # or it would never return


@pytest.mark.parametrize("students", [3, [1, {}], [{"name": "x", "updates": "y", "label": 5}]])
def test_damaged_students_of_a_plan_never_stop_it(students, hardening):
    plan = json.loads((hardening / "plan.json").read_text())
    plan["runs"][0]["harden"] = students
    put(hardening / "plan.json", sealed(plan))
    assert turn(hardening, "hardening", {"no": "name"})[0] == "hardening"


def test_a_student_by_itself_says_that_it_is_hardened(tmp_path):
    put(tmp_path / "a" / "config.json", {"hardened": {"updates": 400}})
    put(tmp_path / "a" / "status.json", {"state": "running", "step": 100, "steps": 400})
    with RunLock.acquire(tmp_path / "a"):
        (standing,) = read_standings(tmp_path)
    assert (standing.state, standing.update, standing.updates, standing.steps) == ("hardening", 100, 400, None)


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


def test_neither_names_nor_errors_command_the_terminal(tmp_path):
    hostile = "\x1b]0;mine\x07[bold]"
    put(tmp_path / "plan.json", {"runs": [{"name": f"run{hostile}", "steps": 10}]})
    put(tmp_path / "tasks" / f"run{hostile}.json", {"state": "failed", "error": hostile, "host": hostile, "pid": 1})
    shown = io.StringIO()
    watch(tmp_path, Console(file=shown, width=200), once=True)
    assert shown.getvalue().count("]0;mine") >= 2
    assert not {"\x1b", "\x07"} & set(shown.getvalue())


def test_a_name_in_a_plan_leads_to_no_other_folder(tmp_path):
    put(tmp_path / "elsewhere" / "status.json", {"state": "finished", "step": 7, "steps": 7})
    names = ["../../elsewhere", "..", str(tmp_path / "elsewhere"), "mine"]
    put(tmp_path / "out" / "plan.json", {"runs": [{"name": name, "steps": 7} for name in names]})
    assert [standing.run for standing in read_standings(tmp_path / "out")] == ["mine"]


def test_a_number_that_was_changed_on_disk_is_not_shown_and_said(tmp_path, capsys):
    run = tmp_path / "a"
    DSAC("CartPole-v1", hidden=8, random_steps=10, batch_size=4, log_every=10).learn(60, out=run)
    (good,) = read_standings(run)
    assert (good.error, good.step) == (None, 60)
    assert good.last_return is not None
    whole = (run / "metrics.jsonl").read_bytes()
    (run / "metrics.jsonl").write_bytes(whole.replace(b'"step": 60', b'"step": 61'))
    assert main(["status", str(run), "--json"]) == 0
    (shown,) = json.loads(capsys.readouterr().out)
    assert shown["last_return"] is None
    assert shown["error"].endswith("metrics.jsonl does not match its sha256, so it was changed after it was written")
    (run / "metrics.jsonl").write_bytes(whole)
    status = run / "status.json"
    status.write_text(status.read_text().replace('"step": 60', '"step": 61'))
    (standing,) = read_standings(run)
    assert standing.step == 0
    assert "status.json does not match its sha256" in standing.error


def test_a_plan_that_was_changed_is_one_sentence(out, capsys):
    text = (out / "plan.json").read_text()
    put(out / "plan.json", text.replace('"steps": 1000', '"steps": 3000'))
    assert main(["status", str(out)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line == (
        f"dsacc: {out / 'plan.json'} does not match its sha256, so it was changed after it was written; delete it, and "
        "`dsacc experiment` with the same grid writes it again"
    )
