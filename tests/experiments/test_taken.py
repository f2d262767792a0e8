"""Runs that are preempted, out of time or lost with their node: counted, continued, and given up if stuck."""

import json
import os
import signal
from pathlib import Path

import pytest
from helpers.experiments import contents, plan_of
from helpers.grids import tiny_grid

from dsacc.experiments import taken
from dsacc.experiments.backends.base import Backend, Ending
from dsacc.experiments.backends.local import Local
from dsacc.experiments.driver import run_experiment
from dsacc.experiments.plan import Plan, Run
from dsacc.experiments.scheduler import execute
from dsacc.experiments.task import TaskFile, perform

PLAN = Plan("x", (Run("CartPole-v1", "dsac", 0, 100, "classic"),))
(NAME,) = PLAN.names


class Taking(Backend):
    """Ends each attempt as the next of `endings` says: a reason to take it away, an error, or None for well. What was
    taken away has got further by then, if `further`."""

    pause = 0.0

    def __init__(self, endings, further=False, again=False):
        super().__init__()
        self.endings, self.further, self.again = list(endings), further, again
        self.submitted, self.cancelled, self.polls = 0, [], 0

    def submit(self, attempt):
        self.submitted += 1
        return self.submitted

    def poll(self, running):
        ((handle, attempt),) = running.items()
        self.polls += 1
        end = self.endings.pop(0)
        if end not in taken.REASONS:
            return {handle: Ending(end, "there", 1.0)}
        if self.further:
            (attempt.out / "runs" / NAME / "checkpoints" / f"step-{self.polls}").mkdir(parents=True)
        TaskFile(attempt.out, attempt.name).take_away(end)
        return {handle: Ending(None, "there", 1.0, end, again=self.again)}

    def cancel(self, running):
        self.cancelled += running


def outcome_of(out: Path, backend: Taking, retries: int = 0):
    told, said = [], []
    execute(PLAN, out, [NAME], backend, told.append, retries, tell_taken=lambda *words: said.append(words[1:]))
    (outcome,) = told
    return outcome, said


def test_what_is_taken_away_costs_no_retry_and_is_counted(tmp_path):
    backend = Taking(["preempted", "out of time", "preempted", "its own fault", "preempted", None], further=True)
    outcome, said = outcome_of(tmp_path, backend, retries=1)
    assert (outcome.ok, outcome.attempts, outcome.seconds) == (True, 2, 6.0)
    assert outcome.taken == "preempted 3 times, out of time once"
    assert backend.submitted == 6
    assert said[:2] == [("preempted", "preempted once"), ("out of time", "preempted once, out of time once")]
    log = (tmp_path / "tasks" / f"{NAME}.log").read_text().splitlines()
    assert log[0] == "dsacc: preempted once; kept so far: step 1 and 0 rows of tests"
    assert len(log) == 4


def test_without_retries_a_failure_ends_it_however_often_it_was_taken_away(tmp_path):
    outcome, _ = outcome_of(tmp_path, Taking(["preempted", "preempted", "its own fault"]))
    assert (outcome.ok, outcome.error, outcome.attempts) == (False, "its own fault", 1)


def test_what_the_backend_started_again_itself_is_not_submitted_again(tmp_path):
    backend = Taking(["preempted", "lost with its node", None], again=True)
    outcome, _ = outcome_of(tmp_path, backend)
    assert (outcome.ok, outcome.taken) == (True, "preempted once, lost with its node once")
    assert backend.submitted == 1


@pytest.mark.parametrize("again", [True, False])
def test_a_run_that_is_taken_away_without_getting_further_is_given_up_in_a_sentence(again, tmp_path):
    backend = Taking(["preempted"] * 50, again=again)
    outcome, _ = outcome_of(tmp_path, backend, retries=3)
    assert not outcome.ok
    assert outcome.error == (
        "it was taken away 10 times in a row without getting any further (in all: preempted 10 times); give it more "
        "time at once, or save more often (checkpoint_every), and use the same command again"
    )
    assert backend.polls == taken.PATIENCE
    assert backend.cancelled == ([1] if again else [])
    assert TaskFile(tmp_path, NAME).read()["state"] == "failed"
    outcome, _ = outcome_of(tmp_path, Taking(["preempted"] * 9 + [None]))  # the same command has the same patience
    assert (outcome.ok, outcome.taken) == (True, "preempted 19 times")


def test_a_run_that_gets_further_each_time_is_never_given_up(tmp_path):
    outcome, _ = outcome_of(tmp_path, Taking(["preempted"] * 40 + [None], further=True))
    assert (outcome.ok, outcome.taken) == (True, "preempted 40 times")


def test_a_checkpoint_of_a_student_and_a_row_of_a_test_are_getting_further(tmp_path):
    seen = {taken.kept(tmp_path, "a")}
    for path in ("a/checkpoints/step-5", "a/checkpoints/step-12", "a/evaluations/x.json", "a-h1/checkpoints/step-1"):
        (tmp_path / path).mkdir(parents=True)
        seen.add(taken.kept(tmp_path, "a"))
    assert len(seen) == 5
    (tmp_path / "a" / "checkpoints" / ".step-99.7.tmp").mkdir()  # half-written: a next attempt does it again
    assert taken.kept(tmp_path, "a") in seen


@pytest.mark.parametrize("odd", [None, [], {"preempted": "x"}, {"preempted": True}, {"eaten": 2}, {"preempted": -1}])
def test_a_task_file_with_odd_counts_counts_from_zero(odd, tmp_path):
    file = TaskFile(tmp_path, NAME)
    file.path.parent.mkdir()
    file.path.write_text(json.dumps({"taken": odd, "idle": odd, "reached": odd}))
    assert taken.times(file.read()) == {}
    file.take_away("preempted")
    assert taken.times(file.read()) == {"preempted": 1}
    assert file.why_given_up() is None


def test_a_run_that_somebody_stops_continues_at_no_cost_and_ends_as_a_plain_one(tmp_path):
    """On this machine: SIGUSR2, which Slurm sends to every process of a job, is not for the run; SIGTERM stops it."""
    plan, out = plan_of(tiny_grid(["dsac"], 400), tmp_path), tmp_path / "out"
    (run,) = plan.runs

    signals = [signal.SIGUSR2, signal.SIGTERM]

    class Disturbed(Local):
        def poll(self, running):
            said = TaskFile(out, run.name).read()
            if signals and any((out / "runs" / run.name / "checkpoints").glob("step-*")):
                os.kill(said["pid"], signals.pop(0))
            return super().poll(running)

    lines = []
    run_experiment(plan, out, Disturbed(1), lines.append, retries=0)
    assert f"[0/1] {run.name} was stopped from outside and will continue (so far: stopped from outside once)" in lines
    assert TaskFile(out, run.name).read()["attempts"] == 2
    perform(run, plan.tests, tmp_path / "plain")
    folders = (tmp_path / "plain" / "runs", out / "runs")
    plain, found = (contents(folder, but=("timing.jsonl", "lock", "status.json")) for folder in folders)
    assert found == plain
