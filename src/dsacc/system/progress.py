"""Progress of a run: a live bar on a terminal (`dsacc.system.bar`), plain lines elsewhere."""

import sys
import time
from collections.abc import Mapping
from typing import Any

from dsacc.system.watching import Watcher, describe, digits

__all__ = ["Lines", "Silent", "Watcher", "describe", "watcher"]

Silent = Watcher


class Lines(Watcher):
    """Plain lines for logs and pipes: twenty per run, four per evaluation."""

    def __init__(self, total: int, start: int = 0, unit: str = "steps", fast: int = 0) -> None:
        """The first `fast` steps are random play: much faster than steps that learn, so they tell nothing of these."""
        self.total, self.start, self.unit, self.fast = total, start, unit, fast
        self.mark = (start, time.monotonic())  # speed is measured from here
        self.every = max((total - start) // (20 if unit == "steps" else 4), 1)
        self.latest: dict[str, Any] = {}

    def step(self, step: int) -> None:
        if (step - self.start) % self.every == 0 or step == self.total:
            (before, then), now = self.mark, time.monotonic()
            speed = (step - before) / max(now - then, 1e-9)
            if self.unit == "steps":
                self.mark = (step, now)
            where = f"{self.unit.removesuffix('s')} {step:,}/{self.total:,}"
            left = f"{(self.total - step) / max(speed, 1e-9):,.0f} s left"
            if step <= self.fast and step < self.total:
                left = f"random play until step {min(self.fast, self.total):,}"
            line = f"{where}  {speed:,.{digits(speed)}f} {self.unit}/s  {left}  {describe(self.latest)}"
            print(line.rstrip(), file=sys.stderr, flush=True)
        if self.mark[0] < self.fast <= step:
            self.mark = (step, time.monotonic())

    def row(self, row: Mapping[str, Any]) -> None:
        self.latest |= {k: v for k, v in row.items() if v is not None}


def watcher(total: int, start: int = 0, label: str = "", unit: str = "steps", fast: int = 0) -> Watcher:
    """A bar on a terminal, lines elsewhere. The first `fast` steps say nothing about the speed of the others."""
    if not sys.stderr.isatty():
        return Lines(total, start, unit, fast)
    from dsacc.system.bar import Bar  # rich takes a tenth of a second to import

    return Bar(total, start, label, unit, fast)
