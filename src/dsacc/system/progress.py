"""Progress of a run: a live bar on a terminal, plain lines elsewhere."""

import re
import sys
import time
from collections.abc import Iterable, Mapping
from typing import Any

from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.text import Text

from dsacc.system.text import readable

SHOWN = re.compile(r"return|entropy|alpha|lambda(_\d)?|agreement|states")  # the figures worth watching


def describe(row: Mapping[str, Any]) -> str:
    """`return 132.4  alpha 0.12  entropy 0.41  lambda 0.30`: the figures worth watching that the row has."""
    return "  ".join(f"{k} {readable(v)}" for k, v in row.items() if v is not None and SHOWN.fullmatch(k))


class Watcher:
    """Is called for every step and for every row of metrics. This one shows nothing."""

    def step(self, step: int) -> None: ...
    def row(self, row: Mapping[str, Any]) -> None: ...
    def close(self) -> None: ...


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
            line = f"{where}  {speed:,.{_digits(speed)}f} {self.unit}/s  {left}  {describe(self.latest)}"
            print(line.rstrip(), file=sys.stderr, flush=True)
        if self.mark[0] < self.fast <= step:
            self.mark = (step, time.monotonic())

    def row(self, row: Mapping[str, Any]) -> None:
        self.latest |= {k: v for k, v in row.items() if v is not None}


def _digits(speed: float) -> int:
    return 0 if speed >= 10 else 1


class _Speed(ProgressColumn):
    def __init__(self, unit: str) -> None:
        super().__init__()
        self.unit = unit

    def render(self, task: Task) -> Text:
        speed = task.speed or 0
        return Text(f"{speed:,.{_digits(speed)}f} {self.unit}/s")


class _TimeLeft(TimeRemainingColumn):
    """Time left, or a word where nothing can be said about it yet."""

    def __init__(self, fast: int) -> None:
        super().__init__()
        self.fast = fast

    def render(self, task: Task) -> Text:
        random = task.completed <= self.fast and not task.finished
        return Text("random play") if random and self.fast else super().render(task)


class _WithFigures(Progress):
    """A bar with figures on the line below, so that both fit a narrow terminal."""

    figures = ""

    def get_renderables(self) -> Iterable[RenderableType]:
        yield self.make_tasks_table(self.tasks)
        if self.figures:
            yield Text(self.figures)


class Bar(Watcher):
    """A live bar: step, steps/s and time left, with the latest figures below."""

    def __init__(self, total: int, start: int = 0, label: str = "", unit: str = "steps", fast: int = 0) -> None:
        name, count = TextColumn("{task.description}"), TextColumn("{task.completed:,.0f}/{task.total:,.0f}")
        columns = (name, BarColumn(bar_width=24), count, _Speed(unit), _TimeLeft(fast))
        self.progress = _WithFigures(*columns, console=Console(stderr=True))
        self.progress.start()
        self.task = self.progress.add_task(label, total=total, completed=start)
        self.label, self.total, self.fast, self.last = label, total, fast, start
        self.latest: dict[str, Any] = {}
        self.every = max(total // 1000, 1)

    def step(self, step: int) -> None:
        if self.last <= self.fast < step:  # what is known of the speed so far does not count any more
            self.progress.remove_task(self.task)
            self.task = self.progress.add_task(self.label, total=self.total, completed=step)
        self.last = step
        if step % self.every == 0:
            self.progress.update(self.task, completed=step)

    def row(self, row: Mapping[str, Any]) -> None:
        self.latest |= {k: v for k, v in row.items() if v is not None}
        self.progress.figures = describe(self.latest)
        self.progress.update(self.task, completed=row["step"])

    def close(self) -> None:
        self.progress.stop()


def watcher(total: int, start: int = 0, label: str = "", unit: str = "steps", fast: int = 0) -> Watcher:
    """A bar on a terminal, lines elsewhere. The first `fast` steps say nothing about the speed of the others."""
    return Bar(total, start, label, unit, fast) if sys.stderr.isatty() else Lines(total, start, unit, fast)
