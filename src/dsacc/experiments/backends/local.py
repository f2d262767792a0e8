"""This machine: as many processes as cores, one thread each, as far as memory goes."""

import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from dsacc.errors import ConfigError, DsaccError, Stopped
from dsacc.experiments.backends import Outcome
from dsacc.experiments.backends.child import start_task
from dsacc.experiments.facts import PROCESS_BYTES, find_place
from dsacc.experiments.plan import Plan, Run
from dsacc.experiments.task import TaskFile
from dsacc.system.memory import free_memory
from dsacc.system.processes import cores
from dsacc.system.signals import StopSignals

_Waiting = tuple[str, int, float]  # name, number of the attempt, seconds of earlier ones
POLL = 0.1  # seconds between two looks at the processes
PATIENCE = 120.0  # seconds that a process has to save when it is asked to stop


def memory_of(run: Run) -> int:
    """Bytes that the run's process will take in the end."""
    try:
        return find_place(run.source or run.env).memory(run.config, run.steps)
    except DsaccError:  # its own process will say why
        return PROCESS_BYTES


@dataclass
class _Attempt:
    name: str
    process: "subprocess.Popen[bytes]"
    slot: int
    memory: int
    began: float
    number: int
    before: float  # seconds of earlier attempts

    def growth(self) -> int:
        """Bytes that it will still take."""
        with suppress(psutil.Error):
            return max(self.memory - int(psutil.Process(self.process.pid).memory_info().rss), 0)
        return 0


class Local:
    """A pool of processes: `workers` side by side (None: one a core), `retries` more attempts for a run that fails."""

    def __init__(self, workers: int | None = None, retries: int = 1, device: str = "cpu") -> None:
        if workers is not None and workers < 1:
            raise ConfigError(f"--workers must be at least 1, not {workers}")
        if retries < 0:
            raise ConfigError(f"--retries must be at least 0, not {retries}")
        self.cores = cores()
        self.workers, self.retries, self.device = workers or len(self.cores), retries, device

    def core_for(self, slot: int) -> int | None:
        """A core of its own where the pool takes them all; else any, as others may be at work here: a second experiment
        of one worker must not sit on the first one's core."""
        return self.cores[slot] if self.workers == len(self.cores) else None

    def execute(self, plan: Plan, out: Path, names: Sequence[str], told: Callable[[Outcome], None]) -> None:
        waiting: list[_Waiting] = [(name, 1, 0.0) for name in names]
        memory = {name: memory_of(plan[name]) for name in names}
        running: list[_Attempt] = []
        with StopSignals(active=True) as signals:
            try:
                while waiting or running:
                    signals.check()
                    for attempt in [a for a in running if a.process.poll() is not None]:
                        running.remove(attempt)
                        outcome = _outcome(attempt, out)
                        if outcome.ok or attempt.number > self.retries:
                            told(outcome)
                        else:
                            waiting.append((attempt.name, attempt.number + 1, outcome.seconds))
                    while len(running) < self.workers and (chosen := _first_that_fits(waiting, memory, running)):
                        waiting.remove(chosen)
                        name, number, before = chosen
                        slot = min(set(range(self.workers)) - {a.slot for a in running})
                        process = start_task(out, name, self.device, self.core_for(slot))
                        running.append(_Attempt(name, process, slot, memory[name], time.monotonic(), number, before))
                    time.sleep(POLL)
            except Stopped as stopped:
                _stop(running)
                if stopped.signal == signal.SIGINT:
                    raise KeyboardInterrupt from stopped
                raise
            finally:
                for attempt in running:
                    if attempt.process.poll() is None:
                        attempt.process.kill()
                    attempt.process.wait()


def _first_that_fits(
    waiting: Sequence[_Waiting], memory: Mapping[str, int], running: Sequence[_Attempt]
) -> _Waiting | None:
    """Beside what runs and will still grow. With nothing beside it a run starts: it then says itself what is wrong."""
    if not running:
        return waiting[0] if waiting else None
    free = free_memory() - sum(a.growth() for a in running) if waiting else 0
    return next((item for item in waiting if memory[item[0]] <= free), None)


def _outcome(attempt: _Attempt, out: Path) -> Outcome:
    pid, seconds = attempt.process.pid, attempt.before + time.monotonic() - attempt.began
    error = ending(out, attempt.name, pid, attempt.process.returncode)
    return Outcome(attempt.name, error is None, error, seconds, attempt.number, f"{socket.gethostname()}:{pid}")


def ending(out: Path, name: str, pid: int, code: int) -> str | None:
    """How a task's process ended: None if well, else a sentence, from its exit code, or from the task's file where it
    could still write that; where it could not, it is written here."""
    if code == 0:
        return None
    task = TaskFile(out, name)
    said = task.read()
    if said.get("state") == "failed" and said.get("pid") == pid:
        return str(said.get("error"))
    error = _how_it_ended(code, out / "tasks" / f"{name}.log")
    task.set("failed", error)
    return error


def _how_it_ended(code: int, log: Path) -> str:
    if code == -signal.SIGKILL:
        return "its process was killed (signal 9), by somebody or because memory ran out"
    if code < 0:
        return f"its process was ended by signal {-code}"
    with suppress(OSError):
        with open(log, "rb") as file:
            file.seek(max(log.stat().st_size - 4000, 0))
            lines = file.read().decode(errors="replace").strip().splitlines()
        if lines:
            return lines[-1].removeprefix("dsacc: ")
    return f"its process ended with exit code {code}; see {log}"


def _stop(running: Sequence[_Attempt]) -> None:
    """Ask all to save, then wait for them; who takes too long is ended by the caller."""
    for attempt in running:
        attempt.process.terminate()
    until = time.monotonic() + PATIENCE
    for attempt in running:
        with suppress(subprocess.TimeoutExpired):
            attempt.process.wait(timeout=max(until - time.monotonic(), 0))
