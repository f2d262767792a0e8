"""An experiment from outside: its command, what that says, and the files and processes of its runs."""

import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil

from dsacc.experiments.taken import times
from dsacc.experiments.task import TaskFile

PATIENCE = 180.0  # seconds for anything that should happen


def say(line: str) -> None:
    print(line, flush=True)


def wait_until(fact: Callable[[], object], seconds: float, what: str) -> None:
    until = time.monotonic() + seconds
    while not fact():
        if time.monotonic() > until:
            raise TimeoutError(f"waited {seconds:.0f} s in vain for {what}")
        time.sleep(0.05)


class Command:
    """`dsacc experiment` in the background; its lines are printed with a name in front."""

    def __init__(self, title: str, grid: Path, out: Path, *options: str) -> None:
        line = [sys.executable, "-m", "dsacc", "experiment", str(grid), "--out", str(out), *options]
        self.title, self.out, self.lines = title, out, list[str]()
        self.process = subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(line.rstrip())
            say(f"  {self.title:8}| {line.rstrip()}")

    def said(self, text: str) -> bool:
        return any(text in line for line in self.lines)

    def wait(self) -> int:
        code = self.process.wait(timeout=PATIENCE)
        self._reader.join()
        return code

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


class Watched:
    """A run of an experiment, from outside: its files and its process."""

    def __init__(self, out: Path, name: str) -> None:
        self.out, self.name, self.file = out, name, TaskFile(out, name)

    def process(self) -> psutil.Process | None:
        with suppress(psutil.Error, KeyError, ValueError):
            process = psutil.Process(int(self.file.read()["pid"]))
            return process if "dsacc.experiments.task" in process.cmdline() else None
        return None

    def trains(self) -> bool:
        return self.file.read().get("state") == "training" and any(self._checkpoints("step-*"))

    def saves(self) -> bool:
        return any(self._checkpoints(".step-*.tmp"))

    def tests(self) -> bool:
        return self.file.read().get("state") == "testing"

    def _checkpoints(self, pattern: str) -> list[Path]:
        return list((self.out / "runs" / self.name / "checkpoints").glob(pattern))

    def freeze(self, moment: Callable[[], bool], what: str) -> None:
        """Stop its process (SIGSTOP) in that moment. Slurm wakes processes (SIGCONT) when it signals them."""
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            if (process := self.process()) is not None and moment():
                process.suspend()
                if moment() and process.is_running():
                    return
                process.resume()
            time.sleep(0.002)
        raise TimeoutError(f"{self.name} was not seen {what}")

    def taken(self) -> dict[str, int]:
        return times(self.file.read())

    def wait_taken(self, why: str, count: int) -> None:
        wait_until(lambda: self.taken().get(why, 0) >= count, PATIENCE, f"{self.name} {why} {count} times")
