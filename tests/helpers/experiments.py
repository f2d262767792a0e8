"""Experiments in this process, and what their folders hold."""

import hashlib
import time
from pathlib import Path

from dsacc.experiments.backends.base import Backend, Ending
from dsacc.experiments.grids import load_plan
from dsacc.experiments.plan import Plan
from dsacc.experiments.task import perform


class Here(Backend):
    """A backend without processes."""

    pause = 0.0

    def submit(self, attempt):
        perform(attempt.run, attempt.tests, attempt.out)
        return attempt.name

    def poll(self, running):
        return {name: Ending(None, "here") for name in running}

    def cancel(self, running):
        pass


def plan_of(text: str, folder: Path) -> Plan:
    path = folder / "grid.toml"
    path.write_text(text)
    return load_plan(path)


def contents(folder: Path, *, but: tuple[str, ...] = ("timing.jsonl", "lock")) -> dict[str, str]:
    """Every file and its hash, but not files with wall-clock times or process ids."""
    files = (p for p in folder.rglob("*") if p.is_file() and p.name not in but)
    return {str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest() for p in sorted(files)}


def times(folder: Path) -> dict[str, int]:
    return {str(p): p.stat().st_mtime_ns for p in folder.rglob("*") if p.is_file()}


def wait_until(condition, process, seconds: float = 180) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None, "it ended too early"
        assert time.monotonic() < until
        time.sleep(0.02)
