"""This machine: one process per core, one thread each, as far as memory goes."""

import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from dsacc.experiments.backends.base import Attempt, Backend, Ending
from dsacc.experiments.backends.process import LOOK, PATIENCE, Process, end, ending_of, start_task
from dsacc.system.memory import free_memory
from dsacc.system.processes import cores


class Local(Backend):
    """A pool of processes. `workers` of them run side by side (None: one per core)."""

    pause = LOOK

    def __init__(self, workers: int | None = None, device: str = "cpu") -> None:
        super().__init__(workers, device)
        self.cores = cores()
        self.workers = self.capacity = workers or len(self.cores)
        self._slots: dict[Process, int] = {}

    def core_for(self, slot: int) -> int | None:
        """A core of its own if the pool takes all of them; else any core, because others may be at work here: two
        experiments with one worker each must not share a core."""
        return self.cores[slot] if self.workers == len(self.cores) else None

    @contextmanager
    def open(self, out: Path) -> Iterator[None]:
        try:
            yield
        finally:
            for process in self._slots:
                end(process)
            self._slots.clear()

    def submit(self, attempt: Attempt) -> Process:
        slot = min(set(range(self.workers)) - set(self._slots.values()))
        process = start_task(attempt.out, attempt.name, self.device, self.core_for(slot), attempt.run.modules)
        self._slots[process] = slot
        return process

    def poll(self, running: Mapping[Process, Attempt]) -> dict[Process, Ending]:
        ended = {}
        for process, attempt in running.items():
            if process.poll() is not None:
                ended[process] = ending_of(attempt.out, attempt.name, process)
                del self._slots[process]
        return ended

    def cancel(self, running: Sequence[Process]) -> None:
        for process in running:
            process.terminate()
        until = time.monotonic() + PATIENCE
        for process in running:
            with suppress(subprocess.TimeoutExpired):
                process.wait(timeout=max(until - time.monotonic(), 0))

    def room(self, running: Mapping[Process, Attempt]) -> int:
        """What is free now, less what the running processes will still take."""
        return free_memory() - sum(_growth(process.pid, attempt.memory) for process, attempt in running.items())


def _growth(pid: int, memory: int) -> int:
    with suppress(psutil.Error):
        return max(memory - int(psutil.Process(pid).memory_info().rss), 0)
    return 0
