"""Numbers from a run's logs, which may be missing, half-written, damaged or hostile."""

import os
from collections.abc import Iterable
from pathlib import Path

from dsacc.analysis.rows import is_finite
from dsacc.errors import Damaged, RunError
from dsacc.runs.folder import read_status
from dsacc.runs.logs import check_log
from dsacc.system.files import MAX_LOG, json_lines, read_file

Numbers = list[dict[str, float]]


def read_logs(run: Path, name: str, notes: list[str], unsure: list[str]) -> tuple[Numbers, Numbers]:
    """The metrics and times of a run. Metrics that were changed since they were written raise `Damaged`; such times are
    left out. `notes` gets what was left out, and `unsure` the run where nothing tells whether they were changed."""
    try:
        status = read_status(run)
    except RunError as error:
        notes.append(f"{name}: {error}")
        status = {}
    try:
        known = check_log(run, "metrics.jsonl", status)
    except Damaged as error:
        first = "restore it" if status.get("state") == "finished" else "continue the run, or restore it"
        raise Damaged(f"{error}; {first}, or move it away to have the page without its curves") from error
    metrics, timing = (_numbers(run / log, name, notes) for log in ("metrics.jsonl", "timing.jsonl"))
    unsure += [name] if metrics and not known and status.get("state") != "running" else []
    try:
        check_log(run, "timing.jsonl", status)
    except Damaged as error:
        notes.append(f"{name}: {error}; its times are left out.")
        timing = []
    return metrics, timing


def _numbers(path: Path, name: str, notes: list[str]) -> Numbers:
    try:
        found, damaged = read_numbers(path)
    except RunError as error:
        notes.append(f"{name}: {error}; it is left out.")
        return []
    if damaged and path.name == "metrics.jsonl":
        notes.append(f"{name}: {damaged} damaged lines of metrics.jsonl were left out.")
    return found


def read_numbers(path: Path) -> tuple[list[dict[str, float]], int]:
    """The numbers of a file of JSON lines, by rising step, and how many lines were damaged. A last line without its end
    is still being written and is left out. A file that cannot be read, or is too large, raises a RunError."""
    if not os.path.lexists(path):
        return [], 0
    found: dict[float, dict[str, float]] = {}
    order: list[dict[str, float]] = []
    damaged = 0
    for row in json_lines(read_file(path, MAX_LOG, links=True)):
        numbers = {} if row is None else {k: float(v) for k, v in row.items() if is_finite(v)}
        if "step" not in numbers:
            damaged += 1
            continue
        found[numbers["step"]] = numbers
        order.append(numbers)
    if path.name == "timing.jsonl":  # in the order of writing: a continued run appends, and its clock starts again
        return order, damaged
    return [found[step] for step in sorted(found)], damaged


def total_seconds(timing: Iterable[dict[str, float]]) -> float | None:
    """The clock starts again at 0 when a run is continued, so the last readings of all parts are added."""
    total = last = 0.0
    known = False
    for row in timing:
        now = row.get("seconds", 0.0)
        total, last, known = total + (last if now < last else 0.0), now, True
    return total + last if known else None
