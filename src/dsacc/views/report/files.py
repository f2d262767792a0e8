"""Reading what may be missing, half-written, damaged or hostile."""

import json
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from dsacc.system.text import printable

Row = dict[str, Any]


def sound_rows(rows: Sequence[Row], notes: list[str]) -> list[Row]:
    """Rows that a table can be made of, their texts printable."""
    good = [row for row in ({"severity": None, "mode": None, **row} for row in rows) if _is_sound(row)]
    if len(good) < len(rows):
        notes.append(f"{len(rows) - len(good)} rows of tests were left out: something in them is missing or no number.")
    return [{k: printable(v, 80) if isinstance(v, str) else v for k, v in row.items()} for row in good]


def _is_sound(row: Row) -> bool:
    returns = row.get("returns")
    return (
        all(isinstance(row.get(key), str) for key in ("env", "agent", "shift", "policy"))
        and all(row.get(key) is None or is_whole(row[key]) for key in ("train_seed", "eval_seed", "step"))
        and all(key in row for key in ("train_seed", "eval_seed", "step"))
        and isinstance(row["severity"], str | int | None)
        and all(isinstance(row.get(key), str | None) for key in ("mode", "where", "variant"))
        and isinstance(returns, list)
        and len(returns) > 0
        and all(_finite(x) for x in returns)
    )


def read_numbers(path: Path) -> tuple[list[dict[str, float]], int]:
    """The numbers of a file of JSON lines, by rising step, and how many lines were damaged. A last line without its end
    is one that is being written."""
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
            numbers = {str(k): float(v) for k, v in row.items() if _finite(v)}
            found[numbers["step"]] = numbers
            order.append(numbers)
        except (ValueError, KeyError, AttributeError, RecursionError):
            damaged += 1
    if path.name == "timing.jsonl":  # as it was written: a continued run appends, and its clock begins anew
        return order, damaged
    return [found[step] for step in sorted(found)], damaged


def total_seconds(timing: Iterable[dict[str, float]]) -> float | None:
    """The clock begins anew when a run goes on: its last readings are added."""
    total = last = 0.0
    known = False
    for row in timing:
        now = row.get("seconds", 0.0)
        total, last, known = total + (last if now < last else 0.0), now, True
    return total + last if known else None


def as_dict(value: Any) -> dict[str, Any]:
    return {printable(k, 60): v for k, v in value.items()} if isinstance(value, dict) else {}


def is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _finite(value: Any) -> bool:
    return (
        isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e300 and math.isfinite(value)
    )
