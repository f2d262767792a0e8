"""How the runs of a folder stand. It reads files only, so it works on any machine that sees the folder."""

import os
import socket
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psutil

from dsacc.analysis.rows import is_finite, is_whole
from dsacc.errors import Damaged, RunError
from dsacc.experiments.plan import read_plan_content
from dsacc.experiments.taken import in_words, times
from dsacc.experiments.task import warnings_of
from dsacc.runs.folder import read_status
from dsacc.runs.lock import STALE, holder_of
from dsacc.runs.logs import check_log
from dsacc.system.files import json_or_empty
from dsacc.system.plain import NotPlain, parse_json
from dsacc.system.seals import sealed_or_empty

TAIL = 8_192  # bytes that are read from the end of a log
STATES = ("waiting", "training", "hardening", "testing", "finished", "failed", "stopped", "lost")
BUSY = ("training", "hardening", "testing")


@dataclass(frozen=True)
class Standing:
    """How one run stands, or one student. None stands for what is not known."""

    run: str  # the name of its folder
    state: str  # one of STATES; a lost run is marked as running, but no process runs it any more
    step: int  # agent steps; of a student those of its teacher
    steps: int | None
    steps_per_second: float | None  # of a student: updates per second
    seconds_left: float | None
    last_return: float | None
    node: str | None  # host:pid
    error: str | None
    update: int | None = None  # of a student
    updates: int | None = None
    teacher: str | None = None  # the run that it is a student of, as far as a plan tells
    title: str = ""  # of such a student: `hardened`, or `hardened (near)`
    taken: str = ""  # how often it was taken away: `preempted 3 times, out of time once`
    warnings: tuple[str, ...] = ()  # of its task, which belong to the run and its students together


def read_standings(folder: Path) -> list[Standing]:
    """How each run stands, in an experiment, in a folder of runs, or in the folder of one run. The students of a run
    come right after it."""
    if not folder.is_dir():
        raise RunError(f"there is no folder {folder}")
    if (folder / "plan.json").is_file():
        runs = read_plan_content(folder).get("runs")
        if not isinstance(runs, list):
            raise RunError(f"{folder / 'plan.json'} is not a plan, or is damaged")
        return [standing for entry in _named(runs) for standing in _planned(entry, folder)]
    if _is_run(folder):
        return [_standing(folder.name or str(folder), folder)]
    below = folder / "runs" if (folder / "runs").is_dir() else folder
    found = sorted(path for path in below.iterdir() if _is_run(path))
    if not found:
        raise RunError(f"{folder} holds no experiment and no runs; `dsacc experiment` and `dsacc train` create them")
    return [_standing(path.name, path) for path in found]


def _is_run(path: Path) -> bool:
    return (path / "config.json").is_file() or (path / "status.json").is_file()


def _named(entries: Any) -> list[dict[str, Any]]:
    """The entries of a list that are objects with a name, which leads to no other folder."""
    found = [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []
    return [e for e in found if isinstance(e.get("name"), str) and Path(e["name"]).name == e["name"] != ".."]


def _planned(entry: dict[str, Any], out: Path) -> list[Standing]:
    """A run of a plan and its students. One task does them in turn, so its state is that of the one whose turn it is:
    those before are done, and those after wait."""
    task = _Task(out / "tasks" / f"{entry['name']}.json")
    steps, students = _count(entry.get("steps")), _named(entry.get("harden"))
    names = [entry["name"], *(student["name"] for student in students)]
    turn = names.index(task.said["student"]) if task.said.get("student") in names else 0
    states = [_said(task.said.get("state"), i, turn) for i in range(len(names))]
    runs = out / "runs"
    first = _standing(names[0], runs / names[0], steps, task.part(states[0]))
    standings = [replace(first, taken=in_words(times(task.said)), warnings=tuple(warnings_of(task.said)))]
    for student, state in zip(students, states[1:], strict=True):
        label, updates = student.get("label"), _count(student.get("updates"))
        found = _standing(student["name"], runs / student["name"], updates, task.part(state, steps=None), hardened=True)
        title = f"hardened ({label})" if isinstance(label, str) and label else "hardened"
        begun = steps if found.update and steps else 0
        standings.append(replace(found, step=begun, steps=steps, teacher=names[0], title=title))
    return standings


def _said(state: Any, part: int, turn: int) -> Any:
    if state is None or state == "done" or part == turn:
        return state
    return "done" if part < turn else "waiting"


class _Task:
    """What the file of a task says, or an empty one where there is none."""

    def __init__(self, path: Path | None, said: dict[str, Any] | None = None) -> None:
        self.path = path
        self.said: dict[str, Any] = said if said is not None else {} if path is None else json_or_empty(path)

    def part(self, state: Any, **changes: Any) -> "_Task":
        """The same for one of the task's parts."""
        return _Task(self.path, {**self.said, "state": state, **changes} if self.said else {})

    @property
    def node(self) -> str | None:
        return f"{self.said['host']}:{self.said['pid']}" if "host" in self.said and "pid" in self.said else None

    def lives(self) -> bool:
        """On this host we look for its process; on another host its file must be fresh."""
        pid = _count(self.said.get("pid"))
        if self.said.get("host") == socket.gethostname():
            return pid is not None and psutil.pid_exists(pid)
        with suppress(OSError):
            return self.path is not None and time.time() - self.path.stat().st_mtime < STALE
        return False


def _standing(
    name: str, run: Path, steps: int | None = None, task: _Task | None = None, hardened: bool | None = None
) -> Standing:
    """How a folder stands. `steps` are those asked for: of a student its updates. Whether it is a student, its settings
    say where `hardened` does not."""
    problems: list[str] = []
    status, task = _status(run, problems), task or _Task(None)
    if hardened is None:
        hardened = isinstance(sealed_or_empty(run / "config.json").get("hardened"), dict)
    step, steps = _count(status.get("step")) or 0, steps or _count(status.get("steps"))
    state, node = _state(run, status, task, steps, "hardening" if hardened else "training")
    works = state in ("training", "hardening")
    speed = _newest(run / "timing.jsonl", "steps_per_second", status, problems) if works else None
    left = (steps - step) / speed if speed and steps is not None else None
    last_return = _newest(run / "metrics.jsonl", "return", status, problems)
    error = task.said.get("error") or status.get("error") if state in ("failed", "stopped", "lost") else None
    return Standing(
        run=name,
        state=state,
        step=0 if hardened else step,
        steps=None if hardened else steps,
        steps_per_second=speed,
        seconds_left=left,
        last_return=last_return,
        node=node if state in (*BUSY, "lost") else None,
        error="; ".join([*([str(error)] if error else []), *problems]) or None,
        update=step if hardened else None,
        updates=steps if hardened else None,
    )


def _state(run: Path, status: dict[str, Any], task: _Task, steps: int | None, working: str) -> tuple[str, str | None]:
    """The state that the task's file gives, else the folder's, checked against whether the process is alive. `working`
    is what it is called while it makes steps."""
    said, trained, node = task.said.get("state"), status.get("state"), task.node
    finished = trained == "finished" and (_count(status.get("step")) or 0) >= (steps or 0)
    if said in ("failed", "stopped", "waiting"):
        return said, node
    if said == "done" and finished and (steps is None or task.said.get("steps") in (steps, None)):
        return "finished", node
    holder = holder_of(run)
    if holder is not None and (holder.may_live() or not finished):
        return (working if holder.may_live() else "lost"), f"{holder.host}:{holder.pid}"
    if said in BUSY and task.path is not None:
        return (said if task.lives() else "lost"), node
    if task.path is not None and trained in (None, "finished"):
        return "waiting", node  # or trained but not tested yet, or due to grow
    if trained == "running":
        return "lost", node  # its lock is gone, and it did not say how it ended
    return (trained if trained in STATES else "waiting"), node


# --- reading what may be missing, half-written or damaged ------------------------------------------------------------


def _status(run: Path, problems: list[str]) -> dict[str, Any]:
    """The content of status.json; empty where there is none, or none that can be used, which is added to `problems`."""
    try:
        return read_status(run)
    except RunError as error:
        problems.append(str(error))
        return {}


def _newest(path: Path, key: str, status: dict[str, Any], problems: list[str]) -> float | None:
    """The newest number of a log. None where the log was changed since it was written, which is added to `problems`."""
    try:
        _check(path, status)
    except Damaged as error:
        problems.append(str(error))
        return None
    return _number(_last(path, key))


_known: dict[Path, Any] = {}  # logs that were checked, and how they were then: a live table asks every second


def _check(path: Path, status: dict[str, Any]) -> None:
    with suppress(OSError):
        found, logs = path.stat(), status.get("logs")
        now = (found.st_mtime_ns, found.st_size, found.st_ino, logs)
        if _known.get(path) != now:
            check_log(path.parent, path.name, status)
            if time.time_ns() - found.st_mtime_ns > 2e9:  # else it may change again within the same tick of its time
                _known[path] = now


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
        with suppress(NotPlain):
            row = parse_json(line)
            if isinstance(row, dict) and row.get(key) is not None:
                return row[key]
    return None


def _count(value: Any) -> int | None:
    return value if is_whole(value) else None


def _number(value: Any) -> float | None:
    return float(value) if is_finite(value) else None
