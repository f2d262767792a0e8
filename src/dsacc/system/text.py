"""Numbers, sizes, durations and names as text for people."""

import difflib
from collections.abc import Iterable, Sequence
from typing import Any


def nearest(name: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """The known name most similar to `name`; None if none is similar enough."""
    return next(iter(difflib.get_close_matches(name, list(known), n=1, cutoff=cutoff)), None)


def readable(x: float, digits: int = 3) -> str:
    """`0.0123`, `132`, `10,463`: a few digits, and no exponent from 1,000 to 1e9."""
    return f"{x:,.0f}" if 999.5 <= abs(x) < 1e9 else f"{x:.{digits}g}"


def size(count: int) -> str:
    """`7.07 GB`, `1.5 MB`, `12 KB`."""
    unit, digits, name = (1e9, 2, "GB") if count >= 1e8 else (1e6, 1, "MB") if count >= 1e5 else (1e3, 0, "KB")
    return f"{count / unit:.{digits}f} {name}"


def duration(seconds: float) -> str:
    """`45 s`, `12 min`, `3.4 h`, `5.1 days`."""
    for limit, unit, name in ((100, 1, "s"), (6_000, 60, "min")):
        if seconds < limit:
            return f"{seconds / unit:.0f} {name}"
    return f"{seconds / 3600:.1f} h" if seconds < 48 * 3600 else f"{seconds / 86_400:.1f} days"


def listed(names: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def harmless(text: str) -> str:
    """Text for a terminal or a table: what is neither printable nor a line break or tab becomes �, so that no name in a
    file can move the cursor or set the window's title."""
    return "".join(c if c.isprintable() or c in "\n\t" else "\ufffd" for c in text)


def printable(value: Any, most: int = 2_000) -> str:
    """Text without control characters, lone surrogates and marks that change its direction; at most `most` long."""
    text = "".join(c if c.isprintable() else " " for c in str(value)[:most]).strip()
    return text + ("…" if len(str(value)) > most else "")
