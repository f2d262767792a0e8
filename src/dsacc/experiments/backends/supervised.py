"""One attempt at a run, for backends whose processes are started by another scheduler (Ray, Slurm).

The run is a child of the scheduler's process: the same fresh `dsacc.experiments.task` that the local pool starts. The
kernel kills it when that process ends, however it ends. So a lost worker leaves no orphan that continues to train.
"""

import os
import socket
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from dsacc.experiments.backends.base import Ending
from dsacc.experiments.backends.process import LOOK, PATIENCE, Process, end, ending_of, start_task
from dsacc.runs.lock import STALE, holder_of
from dsacc.system.processes import is_alive

MARGIN = 60.0  # seconds; a process that lost its parent is gone by then, and the clocks of two hosts differ by less


class SupervisedTask:
    """A run's child process. `ask` and `stop` may be called from a signal handler."""

    def __init__(self, out: Path, name: str, device: str, modules: Sequence[str] = ()) -> None:
        self.out, self.name, self.device, self.modules = out, name, device, modules
        self.stopped = False
        self._process: Process | None = None
        self._asked = False

    def perform(self) -> Ending:
        """Wait for the locks of a lost worker, then perform the task. On KeyboardInterrupt the run saves first."""
        began = time.monotonic()
        try:
            for folder in sorted((self.out / "runs").glob(f"{self.name}*")):  # the run's, and those of its students
                wait_for_lost(folder, lambda: self.stopped)
            if not self.stopped:
                self._process = start_task(self.out, self.name, self.device, modules=self.modules)
                while self._process.poll() is None:
                    if self.stopped:
                        self.ask()  # a signal may have come before there was anybody to ask
                    time.sleep(LOOK)  # short: Ray's interrupt is not heard during a long wait inside the kernel
        except KeyboardInterrupt:
            self.stop()
        finally:
            if self._process is not None:
                end(self._process)
        seconds, process = time.monotonic() - began, self._process
        if process is None or (self.stopped and process.returncode != 0):
            return Ending("stopped before its end", f"{socket.gethostname()}:{os.getpid()}", seconds)
        return ending_of(self.out, self.name, process, seconds)

    def ask(self) -> None:
        """Ask the child to save and to end, and do not wait for it."""
        self.stopped = True
        if self._process is not None and not self._asked and is_alive(self._process.pid):
            self._asked = True
            self._process.terminate()

    def stop(self) -> None:
        """Ask the child to save, and give it the time to do it."""
        self.ask()
        until = time.monotonic() + PATIENCE
        while self._process is not None and is_alive(self._process.pid) and time.monotonic() < until:
            time.sleep(LOOK)  # Popen.wait is not for handlers: the interrupted code may be inside it


def wait_for_lost(
    folder: Path,
    given_up: Callable[[], bool] = lambda: False,
    clock: Callable[[], float] = time.time,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Wait while the folder's lock may belong to a lost worker.

    On this host that lasts until the kernel has ended the worker; on another host, until it has been silent for long
    enough. A holder that shows life in that time is not a lost one. The run then reports that its folder is in use.
    """
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
