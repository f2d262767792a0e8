"""One attempt at a run, for backends whose processes are started by another's scheduler (Ray, Slurm).

The run is a child of the scheduler's process: the same fresh `dsacc.experiments.task` that the local pool starts. The
kernel kills it when that process ends, however it ends, so a lost worker leaves no orphan that goes on training.
"""

import os
import socket
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from dsacc.experiments.backends.child import start_task
from dsacc.experiments.backends.local import PATIENCE, POLL, ending
from dsacc.runs.lock import STALE, holder_of

MARGIN = 60.0  # seconds; a process that lost its parent is gone by then, and clocks of two hosts differ by less


@dataclass(frozen=True)
class Report:
    """What a worker says of an attempt; plain data that any backend can carry."""

    error: str | None
    stopped: bool  # asked to, and saved
    seconds: float
    node: str  # host:pid


class Attempt:
    """A run's child process. `stop` may be called from a signal's handler."""

    def __init__(self, out: Path, name: str, device: str) -> None:
        self.out, self.name, self.device = out, name, device
        self.stopped = False
        self._process: subprocess.Popen[bytes] | None = None

    def perform(self) -> Report:
        """Wait for a lost worker's lock, then train and test. A KeyboardInterrupt has the run save first."""
        began = time.monotonic()
        try:
            wait_for_lost(self.out / "runs" / self.name, lambda: self.stopped)
            if not self.stopped:
                self._process = start_task(self.out, self.name, self.device)
                while self._process.poll() is None:
                    time.sleep(POLL)  # never long inside the kernel, where Ray's interrupt would not be heard
        except KeyboardInterrupt:
            self.stop()
        finally:
            self._end()
        seconds, process = time.monotonic() - began, self._process
        node = f"{socket.gethostname()}:{process.pid if process else os.getpid()}"
        if process is None or self.stopped:
            return Report("stopped before its end", True, seconds, node)
        return Report(ending(self.out, self.name, process.pid, process.returncode), False, seconds, node)

    def stop(self) -> None:
        """Ask the child to save, and give it the time."""
        self.stopped = True
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            until = time.monotonic() + PATIENCE
            while _runs(self._process.pid) and time.monotonic() < until:
                time.sleep(POLL)  # Popen.wait is not for handlers: the interrupted code may be inside it

    def _end(self) -> None:
        if self._process is not None:
            if self._process.poll() is None:
                self._process.kill()
            self._process.wait()


def _runs(pid: int) -> bool:
    with suppress(psutil.NoSuchProcess):
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    return False


def wait_for_lost(
    folder: Path,
    given_up: Callable[[], bool] = lambda: False,
    clock: Callable[[], float] = time.time,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Wait while the folder's lock may be that of a lost worker: on this host until the kernel has ended it, on another
    until its silence is long enough. A holder that shows life in that time is none of ours: the run then says so."""
    holder = holder_of(folder)
    if holder is None:
        return
    here = holder.host == socket.gethostname()
    until = clock() + MARGIN if here else holder.heartbeat + STALE + MARGIN
    while clock() < until and not given_up():
        if (now := holder_of(folder)) is None or not now.may_live():
            return
        if not here and now.heartbeat > holder.heartbeat + 2 * MARGIN:
            return
        sleep(0.5)
