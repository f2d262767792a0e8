"""The loop that all backends share: capacity, memory, retries, outcomes, and the stop on a signal."""

import inspect
import os
import signal
from importlib import import_module
from pathlib import Path

import psutil
import pytest

from dsacc.errors import ConfigError, Stopped
from dsacc.experiments import scheduler
from dsacc.experiments.backends import local
from dsacc.experiments.backends.base import Attempt, Backend, Ending
from dsacc.experiments.backends.registry import BACKENDS, find_backend
from dsacc.experiments.driver import run_experiment
from dsacc.experiments.plan import Plan, Run, Tests
from dsacc.experiments.scheduler import execute

PLAN = Plan("x", tuple(Run("CartPole-v1", "dsac", seed, 100, "classic") for seed in range(4)))
NAMES = PLAN.names


class Scripted(Backend):
    """Ends each attempt at the next poll: with the errors given for its run, one per attempt, then well."""

    pause = 0.0

    def __init__(self, workers=None, errors=None, endless=False, left=None):
        super().__init__(workers)
        self.errors = {name: list(said) for name, said in (errors or {}).items()}
        self.endless, self.left, self.submitted, self.cancelled = endless, left, [], []
        self.most = 0  # attempts that were side by side

    def submit(self, attempt):
        self.submitted.append(attempt.name)
        return len(self.submitted)

    def poll(self, running):
        self.most = max(self.most, len(running))
        if self.endless:
            os.kill(os.getpid(), self.endless)
            return {}
        handle = min(running)
        errors = self.errors.get(running[handle].name)
        return {handle: Ending(errors.pop(0) if errors else None, "there", 2.0)}

    def cancel(self, running):
        self.cancelled += running

    def room(self, running):
        return self.left


def outcomes(backend: Backend, retries: int = 1) -> list[tuple]:
    told = []
    execute(PLAN, Path("nowhere"), NAMES, backend, told.append, retries)
    return [(o.name, o.ok, o.error, o.attempts, o.seconds, o.node) for o in told]


def test_a_failed_run_is_tried_again_after_the_others_and_told_once_with_all_its_seconds():
    first, second, third, fourth = NAMES
    backend = Scripted(workers=1, errors={first: ["a"], second: ["b", "c", "d"]})
    assert outcomes(backend) == [
        (third, True, None, 1, 2.0, "there"),
        (fourth, True, None, 1, 2.0, "there"),
        (first, True, None, 2, 4.0, "there"),
        (second, False, "c", 2, 4.0, "there"),
    ]
    assert backend.submitted == [*NAMES, first, second]
    assert backend.most == 1


def test_without_retries_a_failed_run_is_told_at_once():
    assert outcomes(Scripted(errors={NAMES[0]: ["a"]}), retries=0)[0] == (NAMES[0], False, "a", 1, 2.0, "there")


def test_capacity_limits_how_many_run_side_by_side():
    for workers, most in ((None, 4), (3, 3)):
        backend = Scripted(workers)
        assert len(outcomes(backend)) == 4
        assert backend.most == most


def test_a_run_that_does_not_fit_beside_others_waits_and_a_smaller_one_goes_first(monkeypatch):
    large, small, *_ = NAMES
    monkeypatch.setattr(scheduler, "memory_of", lambda run: 40 if run.name == small else 50)
    backend = Scripted(left=45)
    assert [name for name, *_ in outcomes(backend)] == [large, small, *NAMES[2:]]
    assert backend.submitted == [large, small, *NAMES[2:]]
    assert backend.most == 2  # the small one beside a large one, never two large ones


@pytest.mark.parametrize(("number", "error"), [(signal.SIGTERM, Stopped), (signal.SIGINT, KeyboardInterrupt)])
def test_a_signal_cancels_all_that_runs_and_says_which_it_was(number, error):
    before = signal.getsignal(number)
    backend = Scripted(workers=2, endless=number)
    with pytest.raises(error):
        outcomes(backend)
    assert backend.cancelled == [1, 2]
    assert signal.getsignal(number) == before


def test_what_can_never_run_is_told_and_what_an_earlier_command_submitted_is_not_submitted_again():
    class Picky(Scripted):
        def adopt(self, attempts):
            return {0: attempts[1]}

        def refusal(self, attempt):
            return Ending("too large", "there") if attempt.name == NAMES[0] else None

    backend = Picky()
    assert outcomes(backend)[0] == (NAMES[0], False, "too large", 1, 0.0, "there")
    assert backend.submitted == NAMES[2:]


def test_a_backend_may_leave_its_attempts_to_themselves():
    class Leaving(Scripted):
        def stays(self, submitted):
            return False

    backend = Leaving()
    assert outcomes(backend) == []
    assert backend.submitted == NAMES


def test_the_local_pool_has_room_for_what_is_free_less_what_its_runs_will_still_take(monkeypatch):
    class Process:
        pid = os.getpid()

    monkeypatch.setattr(local, "free_memory", lambda: 10**12)
    attempt = Attempt(PLAN.runs[0], Tests(), Path("nowhere"), 10**11)
    room = local.Local().room({Process(): attempt})
    assert room == pytest.approx(10**12 - 10**11 + psutil.Process().memory_info().rss, abs=10**8)


@pytest.mark.parametrize("name", BACKENDS)
def test_a_backend_of_the_registry_exists_and_takes_its_options(name):
    module, _, kind = BACKENDS[name].home.partition(":")
    backend = getattr(import_module(module), kind)
    assert issubclass(backend, Backend)
    keywords = {"workers", "device"} | {option.keyword for option in BACKENDS[name].options}
    assert keywords <= inspect.signature(backend).parameters.keys()


def test_an_unknown_backend_and_odd_numbers_are_refused_before_anything_is_written(tmp_path):
    with pytest.raises(ConfigError, match="there is no backend 'cloud'; choose local, "):
        find_backend("cloud")
    with pytest.raises(ConfigError, match="--workers must be at least 1, not 0"):
        find_backend("local", workers=0)
    with pytest.raises(ConfigError, match="--retries must be at least 0, not -1"):
        run_experiment(PLAN, tmp_path / "out", Scripted(), print, retries=-1)
    assert not (tmp_path / "out").exists()
