"""The one loop that starts runs, waits for them, tries failed ones again and stops on a signal, on any backend."""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from dsacc.errors import Stopped
from dsacc.experiments.backends.base import Attempt, Backend, Ending, Handle
from dsacc.experiments.facts import memory_of
from dsacc.experiments.plan import Plan
from dsacc.system.signals import StopSignals


@dataclass(frozen=True)
class Outcome:
    """How a run ended, after its last attempt."""

    name: str
    ok: bool
    error: str | None
    seconds: float  # of wall-clock, all attempts
    attempts: int
    node: str  # host:pid, or what the backend calls it


def execute(
    plan: Plan,
    out: Path,
    names: Sequence[str],
    backend: Backend,
    tell: Callable[[Outcome], None],
    retries: int = 1,
    tick: Callable[[], None] = lambda: None,
) -> None:
    """Perform the named runs of `plan`, which is in OUT/plan.json, and tell how each ended, once.

    A run that fails does not stop the others. It is tried `retries` times more, then told. `tick` is called on every
    round of the loop. On SIGTERM or Ctrl-C all runs are asked to save, and `Stopped` or KeyboardInterrupt is raised.
    """
    attempts = [Attempt(plan[name], plan.tests, out, memory_of(plan[name])) for name in names]
    with backend.open(out), StopSignals() as signals:
        schedule = _Schedule(backend, tell, retries)
        try:
            schedule.begin(attempts)
            schedule.submit(signals)
            if not backend.stays(list(schedule.running)):
                return
            while schedule.waiting or schedule.running:
                signals.check()
                tick()
                schedule.poll()
                schedule.submit(signals)
                time.sleep(backend.pause)
        except Stopped:
            backend.cancel(list(schedule.running))
            raise


class _Schedule:
    """Which attempts wait and which run."""

    def __init__(self, backend: Backend, tell: Callable[[Outcome], None], retries: int) -> None:
        self.backend, self.tell, self.retries = backend, tell, retries
        self.waiting: list[Attempt] = []
        self.running: dict[Handle, Attempt] = {}
        self._began: dict[Handle, float] = {}
        self._attempts: Counter[str] = Counter()  # begun, by the run's name
        self._seconds: dict[str, float] = {}  # of a run's earlier attempts

    def begin(self, attempts: Sequence[Attempt]) -> None:
        """Adopt what an earlier command submitted, and refuse what can never run."""
        for handle, attempt in self.backend.adopt(attempts).items():
            self._note(handle, attempt)
        adopted = {attempt.name for attempt in self.running.values()}
        for attempt in attempts:
            if attempt.name in adopted:
                continue
            if (why := self.backend.refusal(attempt)) is not None:
                self.tell(Outcome(attempt.name, False, why.error, 0.0, 1, why.node))
            else:
                self.waiting.append(attempt)

    def submit(self, signals: StopSignals) -> None:
        """Submit attempts as far as capacity and memory go."""
        while self.waiting and (self.backend.capacity is None or len(self.running) < self.backend.capacity):
            signals.check()
            attempt = self._first_that_fits()
            if attempt is None:
                return
            self.waiting.remove(attempt)
            self._note(self.backend.submit(attempt), attempt)

    def _note(self, handle: Handle, attempt: Attempt) -> None:
        self.running[handle], self._began[handle] = attempt, time.monotonic()
        self._attempts[attempt.name] += 1

    def _first_that_fits(self) -> Attempt | None:
        """With nothing running, any run may start: if it is too large, it says so itself."""
        room = self.backend.room(self.running) if self.running else None
        return next((a for a in self.waiting if room is None or a.memory <= room), None)

    def poll(self) -> None:
        """Tell how runs ended; those that failed wait for another attempt if they have one left."""
        for handle, ending in (self.backend.poll(self.running) if self.running else {}).items():
            attempt = self.running.pop(handle)
            outcome = self._outcome(attempt.name, ending, time.monotonic() - self._began.pop(handle))
            if outcome.ok or outcome.attempts > self.retries:
                self.tell(outcome)
            else:
                self._seconds[attempt.name] = outcome.seconds
                self.waiting.append(attempt)

    def _outcome(self, name: str, ending: Ending, elapsed: float) -> Outcome:
        seconds = self._seconds.get(name, 0.0) + (elapsed if ending.seconds is None else ending.seconds)
        return Outcome(name, ending.error is None, ending.error, seconds, self._attempts[name], ending.node)
