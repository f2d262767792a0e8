"""Numbers from a run's logs, which may be missing, half-written, damaged or hostile."""

import json
from collections.abc import Iterable
from pathlib import Path

from dsacc.analysis.rows import is_finite


def read_numbers(path: Path) -> tuple[list[dict[str, float]], int]:
    """The numbers of a file of JSON lines, by rising step, and how many lines were damaged. A last line without its end
    is still being written and is left out."""
    try:
        lines = path.read_bytes().split(b"\n")[:-1]
    except OSError:
        return [], 0
    found: dict[float, dict[str, float]] = {}
    order: list[dict[str, float]] = []
    damaged = 0
    for line in lines:
        try:
            row = json.loads(line)
            numbers = {str(k): float(v) for k, v in row.items() if is_finite(v)}
            found[numbers["step"]] = numbers
            order.append(numbers)
        except (ValueError, KeyError, AttributeError, RecursionError):
            damaged += 1
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
