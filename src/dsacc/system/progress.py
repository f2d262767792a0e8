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

    def __init__(self, total: int, start: int = 0, unit: str = "steps") -> None:
        self.total, self.start, self.unit = total, start, unit
        self.mark = (start, time.monotonic())  # speed is measured from here
        self.every = max((total - start) // (20 if unit == "steps" else 4), 1)
        self.latest: dict[str, Any] = {}

    def step(self, step: int) -> None:
        if (step - self.start) % self.every == 0 or step == self.total:
            (before, then), now = self.mark, time.monotonic()
            speed = (step - before) / max(now - then, 1e-9)
            if self.unit == "steps":  # the random steps at the start are much faster than steps that learn
                self.mark = (step, now)
            left = (self.total - step) / max(speed, 1e-9)
            where = f"{self.unit.removesuffix('s')} {step:,}/{self.total:,}"
            line = f"{where}  {speed:,.{digits(speed)}f} {self.unit}/s  {left:,.0f} s left  {describe(self.latest)}"
            print(line.rstrip(), file=sys.stderr, flush=True)

    def row(self, row: Mapping[str, Any]) -> None:
        self.latest |= {k: v for k, v in row.items() if v is not None}


def watcher(total: int, start: int = 0, label: str = "", unit: str = "steps") -> Watcher:
    """A bar on a terminal, lines elsewhere."""
    if not sys.stderr.isatty():
        return Lines(total, start, unit)
    from dsacc.system.bar import Bar  # rich takes a tenth of a second to import

    return Bar(total, start, label, unit)
