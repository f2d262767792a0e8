"""What a backend is: it submits attempts at runs, polls them and cancels them. `experiments.scheduler` does the rest.

A new backend is a subclass of `Backend` in a module of its own, and one line in `registry`.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dsacc.errors import ConfigError
from dsacc.experiments.plan import Run, Tests
from dsacc.experiments.taken import Why

Handle = Any  # what a backend knows an attempt by; it must be hashable


@dataclass(frozen=True)
class Attempt:
    """One attempt at a run. It is performed by `python -m dsacc.experiments.task OUT NAME`."""

    run: Run
    tests: Tests
    out: Path  # the experiment's folder, whose plan.json holds the run
    memory: int  # bytes that the run's process will take in the end

    @property
    def name(self) -> str:
        """The run's name."""
        return self.run.name


@dataclass(frozen=True)
class Ending:
    """How an attempt ended: well, with an error, or because something outside took it away.

    Workers on other machines send it back, so it holds plain values.
    """

    error: str | None  # None if all went well, or if it was taken away
    node: str  # host:pid, or what the backend calls it
    seconds: float | None = None  # that it took; None counts from its submission
    taken: Why | None = None  # why it was taken away before its end, which is noted in the task's file by then
    again: bool = False  # whether the backend has started it again itself, under the same handle


class Backend(ABC):
    """Starts attempts and says how each ended. `workers` limits how many run side by side; None leaves that to it."""

    pause = 1.0  # seconds between two polls

    def __init__(self, workers: int | None = None, device: str = "cpu") -> None:
        if workers is not None and workers < 1:
            raise ConfigError(f"--workers must be at least 1, not {workers}")
        self.capacity, self.device = workers, device

    @contextmanager
    def open(self, out: Path) -> Iterator[None]:
        """Connect, and close at the end. Whatever still runs then is ended, unless it may outlive this process."""
        yield

    @abstractmethod
    def submit(self, attempt: Attempt) -> Handle:
        """Start it, or queue it."""

    @abstractmethod
    def poll(self, running: Mapping[Handle, Attempt]) -> Mapping[Handle, Ending]:
        """Those that have ended, and why: finished, failed or taken away."""

    @abstractmethod
    def cancel(self, running: Sequence[Handle]) -> None:
        """Ask all of them to save, and give them the time to do it."""

    def adopt(self, attempts: Sequence[Attempt]) -> Mapping[Handle, Attempt]:
        """Those that an earlier command submitted and that are still queued or running."""
        return {}

    def refusal(self, attempt: Attempt) -> Ending | None:
        """Why it can never run here; None if it can."""
        return None

    def room(self, running: Mapping[Handle, Attempt]) -> int | None:
        """Bytes of memory for one more attempt; None if the backend sees to that itself."""
        return None

    def stays(self, submitted: Sequence[Handle]) -> bool:
        """Called once, after the first submissions. False leaves them to themselves."""
        return True
