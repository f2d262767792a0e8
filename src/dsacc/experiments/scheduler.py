"""The one loop that starts runs, waits for them, tries failed ones again and stops on a signal, on any backend."""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from dsacc.errors import Stopped
from dsacc.experiments.backends.base import Attempt, Backend, Ending, Handle
from dsacc.experiments.facts import memory_of
from dsacc.experiments.plan import Plan
from dsacc.experiments.taken import in_words, times
from dsacc.experiments.task import TaskFile
from dsacc.system.signals import StopSignals


@dataclass(frozen=True)
class Outcome:
    """How a run ended, after its last attempt."""

    name: str
    ok: bool
    error: str | None
    seconds: float  # of wall-clock, all attempts
    attempts: int  # that finished or failed; those that were taken away do not count
    node: str  # host:pid, or what the backend calls it
    taken: str = ""  # how often it was taken away: `preempted 3 times`


def execute(
    plan: Plan,
    out: Path,
    names: Sequence[str],
    backend: Backend,
    tell: Callable[[Outcome], None],
    retries: int = 1,
    tick: Callable[[], None] = lambda: None,
    tell_taken: Callable[[str, str, str], None] = lambda name, why, so_far: None,
) -> None:
    """Perform the named runs of `plan`, which is in OUT/plan.json, and tell how each ended, once.

    A run that fails does not stop the others. It is tried `retries` times more, then told. A run that is taken away
    (preempted, out of time, lost with its node) continues at no cost, as long as it gets further; `tell_taken` gets its
    name, why, and how often so far. `tick` is called on every round of the loop. On SIGTERM or Ctrl-C all runs are
    asked to save, and `Stopped` or KeyboardInterrupt is raised.
    """
    attempts = [Attempt(plan[name], plan.tests, out, memory_of(plan[name])) for name in names]
    with backend.open(out), StopSignals() as signals:
        schedule = _Schedule(backend, tell, tell_taken, retries)
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

    def __init__(
        self,
        backend: Backend,
        tell: Callable[[Outcome], None],
        tell_taken: Callable[[str, str, str], None],
        retries: int,
    ) -> None:
        self.backend, self.tell, self.tell_taken, self.retries = backend, tell, tell_taken, retries
        self.waiting: list[Attempt] = []
        self.running: dict[Handle, Attempt] = {}
        self._began: dict[Handle, float] = {}
        self._attempts: Counter[str] = Counter()  # that finished or failed, by the run's name
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
                TaskFile(attempt.out, attempt.name).begin_anew()
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

    def _first_that_fits(self) -> Attempt | None:
        """With nothing running, any run may start: if it is too large, it says so itself."""
        room = self.backend.room(self.running) if self.running else None
        return next((a for a in self.waiting if room is None or a.memory <= room), None)

    def poll(self) -> None:
        """Tell how runs ended. Those that were taken away continue; those that failed wait for another attempt if they
        have one left."""
        for handle, ending in (self.backend.poll(self.running) if self.running else {}).items():
            attempt = self.running.pop(handle)
            elapsed = time.monotonic() - self._began.pop(handle) if ending.seconds is None else ending.seconds
            self._seconds[attempt.name] = self._seconds.get(attempt.name, 0.0) + elapsed
            if ending.taken is not None:
                self._continue(handle, attempt, ending)
                continue
            self._attempts[attempt.name] += 1
            if ending.error is None or self._attempts[attempt.name] > self.retries:
                self.tell(self._outcome(attempt, ending))
            else:
                self.waiting.append(attempt)

    def _continue(self, handle: Handle, attempt: Attempt, ending: Ending) -> None:
        """Let a run that was taken away go on, unless it was taken away too often at the same place."""
        file = TaskFile(attempt.out, attempt.name)
        if (why := file.why_given_up()) is not None:
            if ending.again:
                self.backend.cancel([handle])
            file.set("failed", why)
            self._attempts[attempt.name] += 1
            self.tell(self._outcome(attempt, replace(ending, error=why)))
            return
        self.tell_taken(attempt.name, ending.taken or "", in_words(times(file.read())))
        if ending.again:
            self._note(handle, attempt)
        else:
            self.waiting.append(attempt)

    def _outcome(self, attempt: Attempt, ending: Ending) -> Outcome:
        name, taken = attempt.name, in_words(times(TaskFile(attempt.out, attempt.name).read()))
        seconds, attempts = self._seconds[name], self._attempts[name]
        return Outcome(name, ending.error is None, ending.error, seconds, attempts, ending.node, taken)
