"""The live bar of a run, on a terminal."""

from collections.abc import Iterable, Mapping
from typing import Any

from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.text import Text

from dsacc.system.watching import Watcher, describe, digits


class _Speed(ProgressColumn):
    def __init__(self, unit: str) -> None:
        super().__init__()
        self.unit = unit

    def render(self, task: Task) -> Text:
        speed = task.speed or 0
        return Text(f"{speed:,.{digits(speed)}f} {self.unit}/s")


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
