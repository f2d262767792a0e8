"""What every way of showing progress shares."""

import re
from collections.abc import Mapping
from typing import Any

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


def digits(speed: float) -> int:
    """Decimals that a speed is shown with."""
    return 0 if speed >= 10 else 1
