"""A grid with a stage: each run is trained, tested, hardened and tested again, once, whatever happens in between."""

import dataclasses
import json
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from helpers.experiments import Here, contents, plan_of, times, wait_until

from dsacc.cli import main
from dsacc.errors import ConfigError, RunError
from dsacc.experiments.backends.supervised import SupervisedTask
from dsacc.experiments.driver import check_folder, run_experiment
from dsacc.experiments.estimate import kind_of
from dsacc.experiments.facts import memory_of
from dsacc.experiments.grids import Overrides, load_plan
from dsacc.experiments.plan import Plan, Run, Stage, read_plan, why_not_grown, write_plan
from dsacc.experiments.status import read_standings
from dsacc.experiments.task import TaskFile, is_done, perform
from dsacc.views.report.study import read_study

GRID = """
envs = ["dsacc/Catch-v0"]
agents = ["dsac", "dsac-m"]
steps = 100
[settings]
random_steps = 60
replay_size = 1_000
encoder = "small"
hidden = 16
batch_size = 8
log_every = 50
checkpoint_every = 50
[tests]
shifts = ["id", "fog"]
episodes = 2
"""
HARDEN = '[harden]\nagents = ["dsac-m"]\nupdates = 8\nstates = 64\nrounds = 1\n'
RUN = Run("dsacc/Catch-v0", "dsac-m", 0, 100, "efficient")
STAGE = Stage(("generic",), 8, 64, 1)


@pytest.fixture(autouse=True)
def _wide_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "140")


def quiet(line: str) -> None:
    pass


# --- reading grids ----------------------------------------------------------------------------------------------------


def test_a_stage_is_read_with_its_defaults_and_for_its_agents(tmp_path):
    dsac, dsac_m = plan_of(GRID + '[harden]\nagents = "dsac-m"\n', tmp_path).runs
    assert dsac.harden == ()
    assert dsac_m.harden == (Stage(("generic",), 12_000, 20_000, 2, fresh=True),)
    (student,) = dsac_m.students
    assert (student.agent, student.title) == ("dsac-m, hardened", "dsac-m, hardened")
    assert student.name.startswith(f"{dsac_m.name}-hardened-")
    one_line = (
        'harden = {augment = ["near", "fog"], updates = 9, states = 99, rounds = 0, picture_filter = "high-pass"}'
    )
    run = plan_of(one_line + GRID, tmp_path).runs[0]
    assert run.harden == (Stage(("near", "fog"), 9, 99, 0, "high-pass", "near fog", fresh=True),)
    assert run.students[0].agent == "dsac, hardened (near fog)"
    copied = plan_of(GRID + "[harden]\nfresh = false\n", tmp_path).runs[1]
    assert [run.harden[0].recipe["fresh"] for run in (dsac_m, copied)] == [True, False]  # as `harden` gets it
    assert copied.students[0].name != student.name
    assert "fresh" not in copied.harden[0].identity  # its name is the hash of it, as before there was the key


def test_several_stages_and_variants_give_students_with_names_of_their_own(tmp_path):
    text = GRID + (
        '[[harden]]\nupdates = 8\n[[harden]]\naugment = "near"\n[[harden]]\nupdates = 9\nlabel = "long"\n'
        'agents = ["dsac-m"]\n[[variants]]\n[[variants]]\nlabel = "no noise"\nagents = ["dsac-m"]\n'
        'settings = { perturbation = "none" }\n'
    )
    plan = plan_of(text, tmp_path)
    assert [what.title for run in plan.runs for what in run.family] == [
        "dsac", "dsac, hardened", "dsac, hardened (near)",
        "dsac-m", "dsac-m, hardened", "dsac-m, hardened (near)", "dsac-m, hardened (long)",
        "dsac-m, no noise", "dsac-m, no noise, hardened", "dsac-m, no noise, hardened (near)",
        "dsac-m, no noise, hardened (long)",
    ]  # fmt: skip
    names = [what.name for run in plan.runs for what in run.family]
    assert len(set(names)) == len(names)
    write_plan(plan, tmp_path / "out")
    assert read_plan(tmp_path / "out") == plan


def test_a_plan_without_a_stage_is_written_as_before(tmp_path):
    write_plan(plan_of(GRID, tmp_path), tmp_path)
    assert '"harden"' not in (tmp_path / "plan.json").read_text()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[harden]\nupdate = 8", "unknown key harden.update; did you mean 'updates'?"),
        ("[[harden]]\nstats = 8", "unknown key harden[1].stats; did you mean 'states'?"),
        ("[harden]\nupdates = 0", "harden: updates must be a whole number of at least 1, not 0"),
        ("[harden]\nstates = 10", "harden: states must be a whole number of at least 64, not 10"),
        ("[harden]\nupdates = 1\nrounds = 5", "harden: 5 rounds are too many for 1 updates"),
        ('[harden]\naugment = "genric"', "harden: unknown augmentation 'genric'; did you mean 'generic'?"),
        ("[harden]\naugment = []", "harden.augment must be a list of texts, not []"),
        ('[harden]\npicture_filter = "low"', "harden.picture_filter must be one of none, high-pass, detail, not 'low'"),
        ('[[variants]]\nlabel = "a"\nharden = 0', "variants[1].harden must be true or false, not 0"),
        ("[harden]\nfresh = 1", "harden.fresh must be true or false, not 1"),
        ('[harden]\nagents = ["dqn"]', "harden.agents must be one of dsac, dsac-m, dsac-v, dsac-mv, not 'dqn'"),
        ('[harden]\nlabel = " "', "harden.label must be a text without brackets, not ' '"),
        ("[[harden]]\n[[harden]]\nupdates = 9", "harden makes two students of dsac with the same name"),
        ('[[harden]]\n[[harden]]\nlabel = "again"', "harden makes the same student of dsac twice"),
    ],
)  # fmt: skip
def test_a_mistake_in_a_stage_is_one_sentence_with_file_and_key(text, message, tmp_path):
    with pytest.raises(ConfigError) as caught:
        plan_of(GRID + text, tmp_path)
    assert message in str(caught.value)
    assert "grid.toml" in str(caught.value)


def test_a_stage_that_is_no_table_or_has_no_pictures_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"grid\.toml: harden must be written as \[harden\]"):
        plan_of("harden = true\n" + GRID, tmp_path)
    with pytest.raises(ConfigError, match=r"grid\.toml: harden needs pictures, and CartPole-v1 shows none"):
        plan_of(GRID.replace("dsacc/Catch-v0", "CartPole-v1").replace(', "fog"', "") + "[harden]", tmp_path)


def test_a_stage_for_none_of_the_agents_is_told(tmp_path):
    plan_of(GRID + HARDEN, tmp_path)
    plan = load_plan(tmp_path / "grid.toml", Overrides(agents=["dsac"]))
    assert plan.notes == ("no run is hardened, because harden is not for dsac",)


def test_a_variant_may_be_left_as_it_is(tmp_path):
    variants = '[[variants]]\n[[variants]]\nlabel = "no noise"\nsettings = { noise_std = 0.0 }\nharden = false\n'
    plan = plan_of(GRID + "[harden]\n" + variants, tmp_path)
    assert {run.label: len(run.harden) for run in plan.runs} == {"": 1, "no noise": 0}
    alone = plan_of(GRID + "[harden]\n" + variants.removeprefix("[[variants]]\n"), tmp_path)
    assert alone.notes == ("no run is hardened, because every variant has harden = false",)


def test_a_plan_may_gain_a_student_and_not_lose_or_change_one():
    def plan(*stages: Stage, steps: int = 100) -> Plan:
        return Plan("x", (dataclasses.replace(RUN, harden=stages, steps=steps),))

    near = dataclasses.replace(STAGE, augment=("near",), label="near")
    assert why_not_grown(plan(), plan(STAGE)) is None
    assert why_not_grown(plan(STAGE), plan(near, STAGE)) is None
    assert why_not_grown(plan(STAGE), plan(STAGE, steps=200)) is None
    assert why_not_grown(plan(STAGE), plan(dataclasses.replace(STAGE, label="other"))) is None
    assert why_not_grown(plan(STAGE), plan()) == f"{RUN.name}, hardened is there and not here"
    assert why_not_grown(plan(STAGE), plan(near)) == f"{RUN.name}, hardened is there and not here"
    changed = dataclasses.replace(STAGE, updates=9)
    assert why_not_grown(plan(STAGE), plan(changed)) == "harden.updates 8 there, 9 here"


def test_memory_and_time_count_the_student():
    many = dataclasses.replace(RUN, harden=(dataclasses.replace(STAGE, states=1_000_000),))
    assert memory_of(many) - memory_of(RUN) > 1_000_000 * 84 * 84
    assert kind_of(dataclasses.replace(RUN, harden=(STAGE,))) != kind_of(RUN)


# --- performing -------------------------------------------------------------------------------------------------------


def test_the_command_trains_hardens_and_tests_and_repeats_nothing(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("dsacc.experiments.estimate.SECONDS", 0.05)
    (tmp_path / "grid.toml").write_text(GRID + HARDEN)
    assert main(["experiment", "grid.toml", "--dry-run"]) == 0
    shown = capsys.readouterr().out
    assert "dsac-m, then hardened" in " ".join(shown.split())
    assert "of training and hardening on one core" in shown

    assert main(["experiment", "grid.toml", "--workers", "2"]) == 0
    seen, out = capsys.readouterr(), tmp_path / "experiments" / "grid"
    assert "dsac-m, hardened" in seen.out
    plan = read_plan(out)
    (student,) = plan.runs[1].students
    rows = json.loads((out / "results.json").read_text())
    assert [(row["agent"], row["shift"], row["run"], row["step"], row.get("exposure")) for row in rows] == [
        ("dsac", "fog", plan.names[0], 100, None),
        ("dsac", "id", plan.names[0], 100, None),
        ("dsac-m", "fog", plan.names[1], 100, None),
        ("dsac-m", "id", plan.names[1], 100, None),
        ("dsac-m, hardened", "fog", student.name, 100, "unseen"),
        ("dsac-m, hardened", "id", student.name, 100, None),
    ]
    assert {row["variant"] for row in rows} == {""}
    folder = out / "runs" / student.name
    about = json.loads((folder / "config.json").read_text())["hardened"]
    assert (about["augment"], about["updates"], about["states"], about["seed"]) == (["generic"], 8, 64, 0)
    assert [(s.run, s.state, s.update, s.updates, s.teacher) for s in read_standings(out)] == [
        (plan.names[0], "finished", None, None, None),
        (plan.names[1], "finished", None, None, None),
        (student.name, "finished", 8, 8, plan.names[1]),
    ]
    before = times(out / "runs")
    assert main(["experiment", "grid.toml"]) == 0
    again = capsys.readouterr()
    assert ("2 runs, 2 done" in again.err, again.out) == (True, seen.out)
    assert times(out / "runs") == before
    assert main(["experiment", "grid.toml", "--dry-run"]) == 0
    assert "2 runs, 2 done, 0 to do" in capsys.readouterr().out
    with pytest.raises(RunError, match=r"\(harden.updates 8 there, 9 here\); it may only grow in runs,"):
        check_folder(plan_of(GRID + HARDEN.replace("= 8", "= 9"), tmp_path), out)


def test_a_stage_that_is_added_later_hardens_and_trains_nothing_again(tmp_path):
    out, plain = tmp_path / "out", plan_of(GRID, tmp_path)
    run_experiment(plain, out, Here(), quiet)
    before = {name: times(out / "runs" / name) for name in plain.names}
    plan = plan_of(GRID + HARDEN, tmp_path)
    assert [is_done(run, plan.tests, out) for run in plan.runs] == [True, False]
    rows = run_experiment(plan, out, Here(), quiet)
    assert {row.agent for row in rows} == {"dsac", "dsac-m", "dsac-m, hardened"}
    assert {name: times(out / "runs" / name) for name in plain.names} == before


def test_a_longer_run_gets_a_new_student_and_the_old_one_stays(tmp_path):
    out, plan = tmp_path / "out", plan_of(GRID + HARDEN, tmp_path)
    perform(plan.runs[1], plan.tests, out)
    old = out / "runs" / plan.runs[1].students[0].name
    before = times(old)
    longer = dataclasses.replace(plan.runs[1], steps=120)
    perform(longer, plan.tests, out)
    assert is_done(longer, plan.tests, out)
    assert len(list((out / "runs").iterdir())) == 3
    assert times(old) == before


def test_labels_and_variants_reach_the_rows_the_table_and_the_report(tmp_path, capsys):
    text = GRID.replace('"dsac", ', "") + HARDEN + 'label = "x"\n[[variants]]\nlabel = "quiet"\n'
    out, plan = tmp_path / "out", plan_of(text + 'settings = { perturbation = "none" }\n', tmp_path)
    rows = run_experiment(plan, out, Here(), quiet)
    assert {(row.agent, row.variant) for row in rows} == {
        ("dsac-m", "quiet"),
        ("dsac-m, hardened (x)", "quiet"),
    }
    assert "hardened (x)" in capsys.readouterr().out
    run, student = read_study(out).runs
    assert student.name == plan.runs[0].students[0].name
    assert (run.game, run.seed, run.steps) == (student.game, student.seed, student.steps) == ("dsacc/Catch-v0", 0, 100)
    assert student.agent.startswith("dsac-m, quiet")
    assert [len(x.rows) for x in (run, student)] == [2, 2]
    assert (student.update, student.updates, student.teacher) == (8, 8, run.name)
    other = plan_of((tmp_path / "grid.toml").read_text().replace('"x"', '"y"'), tmp_path)
    assert other.runs[0].students[0].name == student.name
    rows = run_experiment(other, out, Here(), quiet)
    assert {row.agent for row in rows} == {"dsac-m", "dsac-m, hardened (y)"}


def test_a_student_that_fails_is_named_and_its_run_stays_finished(tmp_path, capsys):
    out, plan = tmp_path / "out", plan_of(GRID + HARDEN, tmp_path)
    run, (student,) = plan.runs[1], plan.runs[1].students
    write_plan(plan, out)
    (out / "runs").mkdir(parents=True)
    (out / "runs" / student.name).write_text("in the way")
    with pytest.raises(RunError, match="is a file, not a run folder"):
        perform(run, plan.tests, out)
    assert [(s.run, s.state) for s in read_standings(out)[1:]] == [(run.name, "finished"), (student.name, "failed")]
    assert not is_done(run, plan.tests, out)
    (out / "runs" / student.name).unlink()
    perform(run, plan.tests, out)
    assert is_done(run, plan.tests, out)
    assert TaskFile(out, run.name).read()["attempts"] == 2


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_a_task_ended_while_it_hardens_continues_and_ends_with_the_same_bytes(how, tmp_path):
    plan = plan_of(GRID.replace('"dsac", ', "") + HARDEN.replace("= 8", "= 400"), tmp_path)
    whole, torn, run = tmp_path / "whole", tmp_path / "torn", plan.runs[0]
    (student,) = run.students
    for out in (whole, torn):
        write_plan(plan, out)
    perform(run, plan.tests, whole)
    command = [sys.executable, "-m", "dsacc.experiments.task", str(torn), run.name]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    wait_until(lambda: has_rows(torn / "runs" / student.name), process)
    seen = {s.run: s for s in read_standings(torn)}
    assert (seen[run.name].state, seen[student.name].state) == ("finished", "hardening")
    process.send_signal(how)
    assert process.wait(60) == (-9 if how == signal.SIGKILL else 143)
    states = {s.run: s.state for s in read_standings(torn)}
    assert states == {run.name: "finished", student.name: "lost" if how == signal.SIGKILL else "stopped"}
    trained = times(torn / "runs" / run.name)
    perform(run, plan.tests, torn)
    assert times(torn / "runs" / run.name) == trained
    assert contents(torn / "runs", but=("timing.jsonl", "lock", "status.json")) == contents(
        whole / "runs", but=("timing.jsonl", "lock", "status.json")
    )
    assert is_done(run, plan.tests, torn)


def has_rows(folder: Path) -> bool:
    """Whether metrics were logged: after 250 updates."""
    return (folder / "metrics.jsonl").exists() and (folder / "metrics.jsonl").stat().st_size > 0


def test_a_supervised_task_waits_for_the_lock_that_a_lost_worker_has_on_a_student(tmp_path):
    holder = {"host": "far", "pid": 5, "pid_started": 1.0, "started": "2026-01-01T00:00:00Z", "heartbeat": time.time()}
    lock = tmp_path / "runs" / f"{RUN.name}-hardened-12345678" / "lock"
    lock.parent.mkdir(parents=True)
    lock.write_text(json.dumps(holder))
    task = SupervisedTask(tmp_path, RUN.name, "cpu")
    threading.Timer(1.0, task.stop).start()
    assert task.perform().error == "stopped before its end"
    assert not (tmp_path / "tasks").exists()
