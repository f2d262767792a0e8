"""How the runs of a folder stand. It reads files only, so it works on any machine that sees the folder."""

import dataclasses
import json
import os
import re
import socket
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.table import Table

from dsacc.analysis.rows import is_finite, is_whole
from dsacc.errors import RunError
from dsacc.runs.lock import STALE, holder_of
from dsacc.system.files import json_or_empty
from dsacc.system.text import duration, readable

TAIL = 8_192  # bytes that are read from the end of a log
REFRESH = 2.0  # seconds
STATES = ("waiting", "training", "testing", "finished", "failed", "stopped", "lost")
_STYLES = {"failed": "red", "lost": "red", "finished": "green", "training": "cyan", "testing": "cyan"}


@dataclass(frozen=True)
class Standing:
    """One row of the table. None stands for what is not known."""

    run: str
    state: str  # one of STATES; a lost run is marked as running, but no process runs it any more
    step: int
    steps: int | None
    steps_per_second: float | None
    seconds_left: float | None
    last_return: float | None
    node: str | None  # host:pid
    error: str | None


def read_standings(folder: Path) -> list[Standing]:
    """How each run stands, in an experiment, in a folder of runs, or in the folder of one run."""
    if not folder.is_dir():
        raise RunError(f"there is no folder {folder}")
    if (folder / "plan.json").is_file():
        runs = json_or_empty(folder / "plan.json").get("runs")
        if not isinstance(runs, list):
            raise RunError(f"{folder / 'plan.json'} is not a plan, or is damaged")
        known = [r for r in runs if isinstance(r, dict) and isinstance(r.get("name"), str)]
        return [_standing(r["name"], folder / "runs" / r["name"], _count(r.get("steps")), folder) for r in known]
    if _is_run(folder):
        return [_standing(folder.name or str(folder), folder, None, None)]
    below = folder / "runs" if (folder / "runs").is_dir() else folder
    found = sorted(path for path in below.iterdir() if _is_run(path))
    if not found:
        raise RunError(f"{folder} holds no experiment and no runs; `dsacc experiment` and `dsacc train` create them")
    return [_standing(path.name, path, None, None) for path in found]


def _is_run(path: Path) -> bool:
    return (path / "config.json").is_file() or (path / "status.json").is_file()


def _standing(name: str, run: Path, steps: int | None, out: Path | None) -> Standing:
    status = json_or_empty(run / "status.json")
    task_path = None if out is None else out / "tasks" / f"{name}.json"
    task = {} if task_path is None else json_or_empty(task_path)
    step, steps = _count(status.get("step")) or 0, steps or _count(status.get("steps"))
    state, node = _state(run, status, task, task_path, steps)
    speed = _number(_last(run / "timing.jsonl", "steps_per_second")) if state == "training" else None
    left = (steps - step) / speed if speed and steps is not None else None
    error = task.get("error") or status.get("error") if state in ("failed", "stopped", "lost") else None
    return Standing(
        run=name,
        state=state,
        step=step,
        steps=steps,
        steps_per_second=speed,
        seconds_left=left,
        last_return=_number(_last(run / "metrics.jsonl", "return")),
        node=node if state in ("training", "testing", "lost") else None,
        error=str(error) if error else None,
    )


def _state(
    run: Path, status: dict[str, Any], task: dict[str, Any], task_path: Path | None, steps: int | None
) -> tuple[str, str | None]:
    """The state that the task's file gives, else the run folder's, checked against whether the process is alive."""
    said, trained = task.get("state"), status.get("state")
    finished = trained == "finished" and (_count(status.get("step")) or 0) >= (steps or 0)
    node = f"{task['host']}:{task['pid']}" if "host" in task and "pid" in task else None
    if said in ("failed", "stopped", "waiting"):
        return said, node
    if said == "done" and finished and (steps is None or task.get("steps") in (steps, None)):
        return "finished", node
    holder = holder_of(run)
    if holder is not None and (holder.may_live() or not finished):
        return ("training" if holder.may_live() else "lost"), f"{holder.host}:{holder.pid}"
    if said in ("training", "testing") and task_path is not None:
        return (said if _lives(task, task_path) else "lost"), node
    if task_path is not None and trained in (None, "finished"):
        return "waiting", node  # or trained but not tested yet, or due to grow
    if trained == "running":
        return "lost", node  # its lock is gone, and it did not say how it ended
    return (trained if trained in STATES else "waiting"), node


def _lives(task: dict[str, Any], path: Path) -> bool:
    """On this host we look for its process; on another host its file must be fresh."""
    pid = _count(task.get("pid"))
    if task.get("host") == socket.gethostname():
        return pid is not None and psutil.pid_exists(pid)
    with suppress(OSError):
        return time.time() - path.stat().st_mtime < STALE
    return False


# --- reading what may be missing, half-written or damaged ------------------------------------------------------------


def _last(path: Path, key: str) -> Any:
    """The newest value of `key` that is not null, from the last few KB of a file of JSON lines."""
    try:
        with open(path, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(size - TAIL, 0))
            lines = file.read(TAIL).split(b"\n")
    except OSError:
        return None
    for line in reversed(lines):
        with suppress(ValueError, RecursionError):
            row = json.loads(line)
            if isinstance(row, dict) and row.get(key) is not None:
                return row[key]
    return None


def _count(value: Any) -> int | None:
    return value if is_whole(value) else None


def _number(value: Any) -> float | None:
    return float(value) if is_finite(value) else None


# --- showing ---------------------------------------------------------------------------------------------------------


def as_json(standings: Sequence[Standing]) -> str:
    return json.dumps([dataclasses.asdict(s) for s in standings], indent=2, allow_nan=False)


def as_table(standings: Sequence[Standing], title: str) -> Table:
    counts = Counter(s.state for s in standings)
    shown = ", ".join(f"{counts[state]} {state}" for state in STATES if counts[state])
    errors = escape("\n".join(f"{s.run}: {s.error}" for s in standings if s.error)) or None
    table = Table(title=f"{escape(title)}\n{shown}", caption=errors, title_justify="left", caption_justify="left")
    table.box, table.pad_edge, table.padding = SIMPLE_HEAD, False, (0, 1, 0, 0)
    totals = {s.steps for s in standings}
    shared = totals.pop() if len(totals) == 1 else None  # then only the heading shows it: eighty columns are few
    table.add_column("run", overflow="fold")
    for column in ("step" if shared is None else f"step of\n{shared:,}", "steps/s", "left", "return"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("node", overflow="fold")
    table.add_column("state", no_wrap=True)
    for name, s in zip(_short([s.run for s in standings]), standings, strict=True):
        steps = "" if s.steps is None or shared is not None else f"/{s.steps:,}"
        speed = "" if s.steps_per_second is None else f"{s.steps_per_second:,.0f}"
        left = "" if s.seconds_left is None else duration(s.seconds_left)
        score = "" if s.last_return is None else readable(s.last_return, 4)
        style = _STYLES.get(s.state, "")
        state = f"[{style}]{s.state}[/]" if style else s.state
        table.add_row(escape(name), f"{s.step:,}{steps}", speed, left, score, escape(s.node or ""), state)
    return table


def _short(names: Sequence[str]) -> list[str]:
    """Names without the id at their end, or with three digits of it, if that is enough to tell them apart."""
    without = [re.sub(r"-[0-9a-f]{8}$", "", name) for name in names]
    cut = [re.sub(r"(-[0-9a-f]{3})[0-9a-f]{5}$", r"\1", name) for name in names]
    counts = Counter(without) + Counter(cut)
    choices = zip(without, cut, names, strict=True)
    return [next((x for x in (brief, three) if counts[x] == 1), name) for brief, three, name in choices]


def watch(folder: Path, console: Console, once: bool) -> None:
    """Print the table: live until every run is over, or once if the output is not a terminal."""
    standings = read_standings(folder)
    if once or not console.is_terminal:
        console.print(as_table(standings, str(folder)))
        return
    table = as_table(standings, str(folder))
    with Live(table, console=console, auto_refresh=False) as live, suppress(KeyboardInterrupt):
        while any(s.state not in ("finished", "failed") for s in standings):
            time.sleep(REFRESH)
            standings = read_standings(folder)
            live.update(as_table(standings, str(folder)), refresh=True)
