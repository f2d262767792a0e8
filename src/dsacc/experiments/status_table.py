"""How the runs of a folder stand, as a table on the terminal and as JSON."""

import dataclasses
import json
import re
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.table import Table

from dsacc.experiments.status import BUSY, STATES, Standing, read_standings
from dsacc.system.text import duration, harmless, readable

REFRESH = 2.0  # seconds
_STYLES = {"failed": "red", "lost": "red", "finished": "green", **dict.fromkeys(BUSY, "cyan")}


def as_json(standings: Sequence[Standing]) -> str:
    return json.dumps([dataclasses.asdict(s) for s in standings], indent=2, allow_nan=False)


def as_table(standings: Sequence[Standing], title: str) -> Table:
    """One row per run, and beneath it one per student."""
    counts = Counter(s.state for s in standings)
    shown = ", ".join(f"{counts[state]} {state}" for state in STATES if counts[state])
    notes = [f"{s.run}: {note}" for s in standings for note in (s.taken, s.error, *s.warnings) if note]
    caption = _safe("\n".join(notes)) or None
    table = Table(title=f"{_safe(title)}\n{shown}", caption=caption, title_justify="left", caption_justify="left")
    table.box, table.pad_edge, table.padding = SIMPLE_HEAD, False, (0, 1, 0, 0)
    totals = {s.steps for s in standings if s.updates is None}
    shared = totals.pop() if len(totals) == 1 else None  # then only the heading shows it: eighty columns are few
    table.add_column("run", overflow="fold")
    for column in ("step" if shared is None else f"step of\n{shared:,}", "steps/s", "left", "return"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("node", overflow="fold")
    table.add_column("state", no_wrap=True)
    for name, s in zip(_short(standings), standings, strict=True):
        speed = "" if s.steps_per_second is None else f"{s.steps_per_second:,.0f}"
        left = "" if s.seconds_left is None else duration(s.seconds_left)
        score = "" if s.last_return is None else readable(s.last_return, 4)
        style = _STYLES.get(s.state, "")
        state = f"[{style}]{s.state}[/]" if style else s.state
        table.add_row(_safe(name), _progress(s, shared), speed, left, score, _safe(s.node or ""), state)
    return table


def _safe(text: str) -> str:
    """Text from files, as it is: neither rich's markup nor the terminal's."""
    return escape(harmless(text))


def _progress(s: Standing, shared: int | None) -> str:
    """Steps, and those asked for unless they are in the heading. Of a student the share of its updates: it has other
    units, and eighty columns are few."""
    if s.update is not None:
        return f"{100 * s.update // s.updates} %" if s.updates else ""
    return f"{s.step:,}" if s.steps is None or shared is not None else f"{s.step:,}/{s.steps:,}"


def _short(standings: Sequence[Standing]) -> list[str]:
    """Names without the id at their end, or with three digits of it, if that is enough to tell them apart. A student
    beneath its run has only what is added to the run's name."""
    names = [s.run for s in standings if s.teacher is None]
    without = [re.sub(r"-[0-9a-f]{8}$", "", name) for name in names]
    cut = [re.sub(r"(-[0-9a-f]{3})[0-9a-f]{5}$", r"\1", name) for name in names]
    counts = Counter(without) + Counter(cut)
    choices = zip(without, cut, names, strict=True)
    short = {name: next((x for x in (brief, three) if counts[x] == 1), name) for brief, three, name in choices}
    return [short[s.run] if s.teacher is None else f"  {s.title}" for s in standings]


def watch(folder: Path, console: Console, once: bool) -> None:
    """Print the table: live until every task is over, or once if the output is not a terminal."""
    standings = read_standings(folder)
    if once or not console.is_terminal:
        console.print(as_table(standings, str(folder)))
        return
    table = as_table(standings, str(folder))
    with Live(table, console=console, auto_refresh=False) as live, suppress(KeyboardInterrupt):
        while not _is_over(standings):
            time.sleep(REFRESH)
            standings = read_standings(folder)
            live.update(as_table(standings, str(folder)), refresh=True)


def _is_over(standings: Sequence[Standing]) -> bool:
    """Whether nothing is left to do: after a failure the rest of a task is not done either."""
    failed = {s.teacher or s.run for s in standings if s.state == "failed"}
    return all(s.state == "finished" or (s.teacher or s.run) in failed for s in standings)
