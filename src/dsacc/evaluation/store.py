"""Rows of results in a folder: a second evaluation adds to the first and does not repeat what is there."""

import json
import re
import warnings
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from dsacc.runs import write_atomically

Row = dict[str, Any]


@dataclass(frozen=True)
class Condition:
    """What an agent is tested under, and how it plays. Severity and mode are None for the clean game ("id")."""

    shift: str
    severity: str | int | None
    mode: str | None
    policy: str
    where: str | None = None  # only where it was asked for

    def row(self) -> Row:
        return {name: value for name, value in asdict(self).items() if name != "where" or value is not None}


_IDENTITY = (
    "env",
    "agent",
    "train_seed",
    "eval_seed",
    "step",
    "shift",
    "severity",
    "mode",
    "where",
    "policy",
    "source",
)


class Results:
    """The rows in `folder`/evaluations, one file a row; a folder of None keeps nothing.

    `source` tells two agents of one name apart (the hash of a file); None means that this cannot be told, so that such
    rows are kept and never taken for known. Rows of another version of dsacc are not taken for known either: its
    weather may have been another.
    """

    def __init__(self, folder: str | Path | None, source: str | None) -> None:
        self.folder = None if folder is None else Path(folder) / "evaluations"
        self.source = source
        self._known: dict[tuple[str, ...], Row] = {}
        if self.folder is not None and source is not None:
            for row in read_rows(self.folder):
                if row.get("dsacc") == version() and len(row["returns"]) > len(self._get(row)["returns"]):
                    self._known[_identity(row)] = row

    def find(self, about: Row, condition: Condition, episodes: int) -> Row:
        """The row as far as it is known, else one without episodes."""
        row = {**about, **condition.row(), "source": self.source, "dsacc": version()}
        known = self._get(row)
        return {**row, "returns": list(known["returns"]), "lengths": list(known["lengths"])}

    def _get(self, row: Row) -> Row:
        return self._known.get(_identity(row), {"returns": [], "lengths": []})

    def save(self, row: Row) -> None:
        if self.folder is not None:
            write_atomically(self.folder / _file_name(row), (json.dumps([row], indent=2) + "\n").encode())


def read_rows(folder: Path) -> list[Row]:
    """All rows of a folder, in the order of their files' names. A file that holds something else is passed over."""
    rows: list[Row] = []
    for path in sorted(folder.glob("*.json")):
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            if not isinstance(content, list) or not all(_is_row(row) for row in content):
                raise ValueError("not a list of rows")
        except (OSError, ValueError) as error:
            warnings.warn(f"{path} is passed over: {error}", stacklevel=2)
            continue
        rows += content
    return rows


def version() -> str:
    return metadata.version("dsacc")


def _is_row(row: Any) -> bool:
    return (
        isinstance(row, dict)
        and all(name in row for name in ("env", "agent", "shift", "policy"))
        and all(isinstance(row.get(name), list) for name in ("returns", "lengths"))
        and len(row["returns"]) == len(row["lengths"])
        and all(isinstance(x, int | float) and not isinstance(x, bool) for x in row["returns"] + row["lengths"])
    )


def _identity(row: Row) -> tuple[str, ...]:
    return tuple(json.dumps(row.get(name)) for name in _IDENTITY)


def _file_name(row: Row) -> str:
    """`Breakout-dsac-m-s0-step100000-snow-paper-independent-greedy-seed0.json`."""
    parts = [row["env"], row["agent"]]
    parts += [f"s{row['train_seed']}"] if row["train_seed"] is not None else []
    parts += [f"step{row['step']}"] if row["step"] is not None else []
    parts += [row[name] for name in ("shift", "severity", "mode", "where") if row.get(name) is not None]
    parts += [row["policy"], f"seed{row['eval_seed']}"]
    return re.sub(r"[^\w.+-]+", "-", "-".join(map(str, parts)))[:200] + ".json"
