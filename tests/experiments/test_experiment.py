"""Experiments as a user runs them: nothing is repeated, one failure stops no other run, and a kill loses nothing."""

import dataclasses
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from helpers.experiments import Here, contents, plan_of, times, wait_until
from helpers.grids import tiny_grid

from dsacc.cli import main
from dsacc.errors import ConfigError, DsaccError
from dsacc.experiments.backends import local
from dsacc.experiments.driver import MOST_WARNED, check_folder, run_experiment, warned
from dsacc.experiments.estimate import kind_of
from dsacc.experiments.grids import Overrides, load_plan
from dsacc.experiments.plan import Run, Tests, read_plan, write_plan
from dsacc.experiments.task import MOST_WARNINGS, TaskFile, is_done, perform, warnings_of
from dsacc.play.store import read_rows

HERE = Path(__file__).parents[1]
GRID = tiny_grid(["dsac", "dsac-m"], 60)


@pytest.fixture(autouse=True)
def _probes_can_be_imported(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")]))


def test_a_task_performed_twice_does_nothing_the_second_time(tmp_path):
    plan, out = plan_of(GRID, tmp_path), tmp_path / "out"
    run = plan.runs[1]
    write_plan(plan, out)
    perform(run, plan.tests, out)
    assert is_done(run, plan.tests, out)
    assert TaskFile(out, run.name).read()["attempts"] == 1
    before = times(out)
    perform(run, plan.tests, out)
    assert times(out) == before


def test_a_longer_run_or_another_test_is_not_done(tmp_path):
    plan, out = plan_of(GRID, tmp_path), tmp_path / "out"
    run = plan.runs[0]
    perform(run, plan.tests, out)
    longer = dataclasses.replace(run, steps=80)
    assert longer.name == run.name
    assert not is_done(longer, plan.tests, out)
    assert not is_done(run, dataclasses.replace(plan.tests, episodes=3), out)
    perform(longer, plan.tests, out)
    assert is_done(longer, plan.tests, out)
    (out / "tasks" / f"{run.name}.json").write_text("{")
    assert not is_done(longer, plan.tests, out)


def test_a_run_is_tested_on_the_way_under_the_shifts_that_were_asked_for_there(tmp_path):
    run = plan_of(GRID, tmp_path).runs[0]
    tests = Tests(shifts=("id", "gaussian_noise"), episodes=1, every=30, every_shifts=("id",))
    perform(run, tests, tmp_path / "out")
    assert is_done(run, tests, tmp_path / "out")
    rows = read_rows(tmp_path / "out" / "runs" / run.name / "evaluations")
    assert sorted((row.step, row.shift) for row in rows) == [(30, "id"), (60, "gaussian_noise"), (60, "id")]


def test_an_error_before_the_run_folder_exists_is_written_down(tmp_path):
    plan = plan_of(GRID, tmp_path)
    run = dataclasses.replace(plan.runs[0], env="Nowhere-v0")
    with pytest.raises(DsaccError):
        perform(run, plan.tests, tmp_path)
    said = TaskFile(tmp_path, run.name).read()
    assert said["state"] == "failed"
    assert "there is no environment 'Nowhere-v0'" in said["error"]
    assert not (tmp_path / "runs").exists()


def test_a_run_whose_source_makes_another_environment_than_planned_is_refused(tmp_path):
    plan = plan_of(GRID, tmp_path)
    run = dataclasses.replace(plan.runs[0], source="Acrobot-v1")
    with pytest.raises(ConfigError, match="has other settings here than in its plan; use the dsacc that made the plan"):
        perform(run, plan.tests, tmp_path)
    assert TaskFile(tmp_path, run.name).read()["state"] == "failed"
    assert not (tmp_path / "runs").exists()


def test_the_command_runs_a_grid_prints_a_table_and_repeats_nothing(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "grid.toml").write_text(GRID)
    assert main(["experiment", "grid.toml", "--workers", "2"]) == 0
    seen = capsys.readouterr()
    out = tmp_path / "experiments" / "grid"
    assert "dsac-m" in seen.out
    assert "2 runs, 0 done" in seen.err
    assert seen.err.count(" done in ") == 2
    rows = json.loads((out / "results.json").read_text())
    assert [(row["agent"], row["shift"], len(row["returns"])) for row in rows] == [
        ("dsac", "id", 2),
        ("dsac-m", "id", 2),
    ]
    assert {row["run"] for row in rows} == set(read_plan(out).names)
    runs, before = out / "runs", times(out / "runs")
    assert main(["experiment", "grid.toml"]) == 0
    again = capsys.readouterr()
    assert "2 runs, 2 done" in again.err
    assert again.out == seen.out
    assert times(runs) == before
    assert main(["evaluate", str(runs / rows[0]["run"]), "--episodes", "5"]) == 0  # somebody plays more of one run
    capsys.readouterr()
    assert main(["experiment", "grid.toml"]) == 0
    assert capsys.readouterr().out == seen.out
    assert json.loads((out / "results.json").read_text()) == rows
    assert main(["experiment", "grid.toml", "--dry-run"]) == 0
    assert "2 runs, 2 done, 0 to do" in capsys.readouterr().out
    assert main(["experiment", "grid.toml", "--agents", "dsac"]) == 2
    assert "holds another experiment (agent dsac dsac-m there, dsac here)" in capsys.readouterr().err
    assert main(["experiment", "grid.toml", "--steps", "30"]) == 2
    assert "60 steps of" in capsys.readouterr().err


def test_only_the_runs_that_fit_a_pattern_are_performed_and_the_others_wait(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("dsacc.experiments.estimate.SECONDS", 0.05)
    (tmp_path / "grid.toml").write_text(GRID + '[[variants]]\nlabel = "n of 3"\nsettings = { n_step = 3 }\n')
    out, plan = tmp_path / "out", load_plan("grid.toml")
    first, second = ([run.name for run in plan.runs if run.agent == agent] for agent in ("dsac", "dsac-m"))
    call = ["experiment", "grid.toml", "--out", "out", "--only"]
    assert main([*call, "*-dsac-s*", "--dry-run"]) == 0
    assert "2 runs, 0 done, 1 to do, 1 left for another call" in capsys.readouterr().out
    assert main([*call, "*-dsac-s0-* n of 3"]) == 0
    assert "2 runs, 0 done, 1 left for another call" in capsys.readouterr().err
    assert [path.name for path in (out / "runs").iterdir()] == first
    assert read_plan(out).names == plan.names
    assert main([*call, "*-dsac-s*"]) == 0  # nothing is left of it
    assert "2 runs, 1 done, 1 left for another call" in capsys.readouterr().err
    assert main(["experiment", "grid.toml", "--out", "out"]) == 0
    assert {path.name for path in (out / "runs").iterdir()} == {*first, *second}
    capsys.readouterr()
    assert main([*call, "*-dsac-x-*"]) == 2
    assert "--only '*-dsac-x-*' fits no run; a run is written like" in capsys.readouterr().err


def test_an_experiment_grows_in_steps_and_seeds(tmp_path):
    plan, out = plan_of(GRID, tmp_path), tmp_path / "out"
    small = run_experiment(plan, out, Here(), print)
    larger = load_plan(tmp_path / "grid.toml", Overrides(steps=80, seeds=2))
    rows = run_experiment(larger, out, Here(), print)
    assert [(len(small), row.step, row.train_seed) for row in rows] == [(2, 80, s) for s in (0, 1, 0, 1)]


def test_what_a_run_warns_of_is_kept_and_said_until_the_run_grows(tmp_path):
    plan, out = plan_of(GRID.replace("random_steps = 20", "random_steps = 70"), tmp_path), tmp_path / "out"
    sentence = "all 60 steps are random play"
    for _ in range(2):  # the second call does nothing, and says it all the same
        said: list[str] = []
        run_experiment(plan, out, Here(), said.append)
        assert [line.split(" warned: ")[0] for line in said if f" warned: {sentence}" in line] == plan.names
    (kept,) = warnings_of(TaskFile(out, plan.names[0]).read())
    assert kept.startswith(sentence)
    grown, said = load_plan(tmp_path / "grid.toml", Overrides(steps=80)), []
    run_experiment(grown, out, Here(), said.append)
    assert not [line for line in said if "warned" in line]


def test_many_runs_that_warn_are_counted_and_a_warning_is_kept_once(tmp_path):
    plan = plan_of(f"seeds = {MOST_WARNED + 2}{tiny_grid(['dsac'], 60)}", tmp_path)
    assert warned(plan, tmp_path) == []
    for i, name in enumerate(plan.names):
        for sentence in ["alpha ran away", "alpha ran away", *(f"more {n}" for n in range(MOST_WARNINGS if i else 0))]:
            TaskFile(tmp_path, name).warn(sentence)
    lines = warned(plan, tmp_path)
    assert lines[0] == f"{plan.names[0]} warned: alpha ran away"
    assert lines[1].count("more ") == MOST_WARNINGS - 1
    assert (len(lines), lines[-1]) == (MOST_WARNED + 1, f"and 2 more runs warned: `dsacc status {tmp_path}` shows them")


def test_a_failing_run_is_tried_again_and_named_and_the_others_finish(tmp_path, capsys):
    grid, out = tmp_path / "grid.toml", tmp_path / "out"
    grid.write_text(GRID.replace('"CartPole-v1"', '"probes:Broken-v0", "CartPole-v1"'))
    assert main(["experiment", str(grid), "--out", str(out), "--agents", "dsac"]) == 1
    lines = capsys.readouterr().err.strip().splitlines()
    assert lines[-1] == "dsacc: 1 of 2 runs failed; the same command tries them again"
    assert lines[-2].startswith("failed (tried 2 times): Broken-v0-dsac-s0-")
    assert lines[-2].endswith(": step 51 of Broken-v0 failed: OSError: the joystick is gone")
    rows = json.loads((out / "results.json").read_text())
    assert {row["env"] for row in rows} == {"CartPole-v1"}
    said = {p.name.split("-")[0]: json.loads(p.read_text()) for p in (out / "tasks").glob("*.json")}
    assert (said["CartPole"]["state"], said["Broken"]["state"], said["Broken"]["attempts"]) == ("done", "failed", 2)
    assert main(["status", str(out)]) == 0
    shown = capsys.readouterr().out
    assert "1 finished, 1 failed" in shown
    assert "OSError: the joystick is gone" in " ".join(shown.split())


def test_an_experiment_killed_while_it_wrote_its_plan_begins_again(tmp_path):
    plan, out = plan_of(GRID, tmp_path), tmp_path / "out"
    out.mkdir()
    (out / ".plan.json.0a1b2c3d.999999.tmp").write_bytes(b"{")
    check_folder(plan, out)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="children die with their parent on Linux")
def test_a_killed_driver_leaves_no_process_and_the_next_one_ends_like_an_undisturbed_one(tmp_path):
    text = GRID.replace("= 60", "= 300").replace("checkpoint_every = 20", "checkpoint_every = 50")
    plan, whole, torn = plan_of(text, tmp_path), tmp_path / "whole", tmp_path / "torn"
    run_experiment(plan, whole, Here(), lambda line: None)
    command = [sys.executable, "-m", "dsacc", "experiment", str(tmp_path / "grid.toml"), "--out", str(torn)]
    first, second = plan.names
    driver = subprocess.Popen([*command, "--workers", "1"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_until(lambda: (torn / "runs" / second / "checkpoints" / "newest.json").exists(), driver)
    children = psutil.Process(driver.pid).children()
    driver.kill()
    driver.wait()
    assert children
    psutil.wait_procs(children, timeout=30)
    assert not any(child.is_running() and child.status() != psutil.STATUS_ZOMBIE for child in children)
    assert json.loads((torn / "runs" / second / "status.json").read_text())["state"] == "running"
    before = times(torn / "runs" / first)
    said: list[str] = []
    rows = run_experiment(plan, torn, Here(), said.append)
    assert "2 runs, 1 done" in said[0]
    assert times(torn / "runs" / first) == before
    for name in plan.names:
        a, b = (contents(out / "runs" / name, but=("timing.jsonl", "lock", "status.json")) for out in (whole, torn))
        assert a == b
    assert (torn / "results.json").read_bytes() == (whole / "results.json").read_bytes()
    assert rows


def test_a_stopped_driver_saves_its_runs_and_says_so(tmp_path):
    plan_of(GRID.replace("= 60", "= 100_000"), tmp_path)
    out = tmp_path / "out"
    command = [sys.executable, "-m", "dsacc", "experiment", str(tmp_path / "grid.toml"), "--out", str(out)]
    driver = subprocess.Popen([*command, "--workers", "1"], stderr=subprocess.PIPE, text=True)
    wait_until(lambda: any(out.glob("runs/*/checkpoints/newest.json")), driver)
    driver.send_signal(signal.SIGTERM)
    _, words = driver.communicate(timeout=120)
    assert driver.returncode == 143
    assert words.strip().splitlines()[-1] == "dsacc: stopped and saved; run the same command to continue"
    (task,) = (json.loads(p.read_text()) for p in (out / "tasks").glob("*.json"))
    (status,) = (json.loads(p.read_text()) for p in (out / "runs").glob("*/status.json"))
    assert (task["state"], status["state"]) == ("stopped", "stopped")
    assert not (out / "lock").exists()


def test_a_second_driver_on_one_folder_is_refused(tmp_path):
    plan, out = plan_of(GRID, tmp_path), tmp_path / "out"

    class Nested(Here):
        def submit(self, attempt):
            with pytest.raises(DsaccError, match="is in use by pid"):
                run_experiment(plan, out, self, lambda line: None)
            return attempt.name

    run_experiment(plan, out, Nested(), lambda line: None)


def test_a_folder_with_other_things_is_refused(tmp_path, capsys):
    (tmp_path / "grid.toml").write_text(GRID)
    assert main(["experiment", str(tmp_path / "grid.toml"), "--out", str(tmp_path)]) == 2
    assert "holds files but no experiment; choose another --out" in capsys.readouterr().err
    assert main(["experiment", str(tmp_path / "grid.toml"), "--workers", "0"]) == 2
    assert "--workers must be at least 1" in capsys.readouterr().err
    assert [p.name for p in tmp_path.iterdir()] == ["grid.toml"]


def test_runs_are_pinned_to_cores_only_if_the_pool_takes_all_cores(monkeypatch):
    """Two experiments with one worker each must not share a core of two."""
    monkeypatch.setattr(local, "cores", lambda: [3, 5])
    assert [local.Local().core_for(slot) for slot in (0, 1)] == [3, 5]
    assert local.Local(1).core_for(0) is None
    assert local.Local(3).core_for(2) is None


def test_a_run_that_never_fits_fails_with_its_sentence(tmp_path, monkeypatch):
    plan = plan_of(GRID, tmp_path)
    monkeypatch.setattr("dsacc.dsac.free_memory", lambda: 1_000)
    with pytest.raises(ConfigError, match="the replay memory of 60 steps needs"):
        perform(plan.runs[0], plan.tests, tmp_path)
    assert "replay memory" in TaskFile(tmp_path, plan.runs[0].name).read()["error"]


def test_every_setting_makes_a_kind_of_its_own_in_an_estimate_unless_it_is_known_to_be_free():
    run = Run("CartPole-v1", "dsac", 0, 100, "classic")

    def same_kind(**changes) -> bool:
        return kind_of(dataclasses.replace(run, **changes)) == kind_of(run)

    assert same_kind(seed=1, steps=200, agent="dsac-m", settings={"learning_rate": 1e-3, "gamma": 0.9})
    for name, value in {"q_clip": 0.5, "surrogate_kl": 1.0, "augment_shift": 4, "average_policy": True}.items():
        assert not same_kind(settings={name: value}), name
    assert not same_kind(env="Acrobot-v1")


def test_dry_run_says_what_it_takes_and_writes_nothing(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("dsacc.experiments.estimate.SECONDS", 0.05)
    (tmp_path / "grid.toml").write_text(GRID)
    assert main(["experiment", "grid.toml", "--dry-run"]) == 0
    shown = capsys.readouterr().out
    assert "2 runs, 0 done, 2 to do" in shown
    assert all(word in shown for word in ("time: ", "memory: ", "disk: ", "estimate"))
    assert main(["experiment", "grid.toml", "--dry-run", "--seeds", "20"]) == 0
    assert "0/20" in capsys.readouterr().out
    assert [p.name for p in tmp_path.iterdir()] == ["grid.toml"]
