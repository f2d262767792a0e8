"""Rows of results in a folder: a second evaluation adds to the first and does not repeat what is there."""

import hashlib
import json
import re
import warnings
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from dsacc.system.files import write_atomically

Row = dict[str, Any]


@dataclass(frozen=True)
class Trial:
    """One line of an evaluation: what an agent is shown and how it plays; "id" has neither severity nor mode."""

    shift: str
    severity: str | int | None
    mode: str | None
    policy: str
    where: str | None = None  # only where it was asked for

    def row(self) -> Row:
        return {name: value for name, value in asdict(self).items() if name != "where" or value is not None}


class Results:
    """The rows in `folder`/evaluations, one file a row; a folder of None keeps nothing.

    A file's name says what was tested. It ends with a hash of `source`, which tells two agents of one name apart, and
    of dsacc's version, as another one's weather may have been another: only a file of that very name is taken for
    known. A source of None means that nobody can tell whether it is the same agent: its rows are kept, and played anew.
    """

    def __init__(self, folder: str | Path | None, source: str | None) -> None:
        self.folder = None if folder is None else Path(folder) / "evaluations"
        self.source = source

    def find(self, about: Row, trial: Trial) -> Row:
        """The row as far as it is known, else one without episodes."""
        row = {**about, **trial.row()}
        known = self._known(row)
        return {**row, "returns": list(known["returns"]), "lengths": list(known["lengths"])}

    def _known(self, row: Row) -> Row:
        if self.folder is not None and self.source is not None:
            for known in _read(self.folder / self._file_name(row)):
                if all(known.get(name) == value for name, value in row.items()):
                    return known
        return {"returns": [], "lengths": []}

    def save(self, row: Row) -> None:
        if self.folder is not None:
            write_atomically(self.folder / self._file_name(row), (json.dumps([row], indent=2) + "\n").encode())

    def _file_name(self, row: Row) -> str:
        """`Breakout-dsac-m-s0-step100000-snow-paper-independent-greedy-seed0-1f09a3c2.json`."""
        parts = [row["env"], row["agent"]]
        parts += [f"s{row['train_seed']}"] if row["train_seed"] is not None else []
        parts += [f"step{row['step']}"] if row["step"] is not None else []
        parts += [row[name] for name in ("shift", "severity", "mode", "where") if row.get(name) is not None]
        parts += [row["policy"], f"seed{row['eval_seed']}"]
        text = re.sub(r"[^\w.+-]+", "-", "-".join(map(str, parts)))[:200]
        if self.source is not None:
            text += "-" + hashlib.sha256(f"{self.source} {version()}".encode()).hexdigest()[:8]
        return text + ".json"


def read_rows(folder: Path) -> list[Row]:
    """All rows in a folder such as RUN/evaluations, in the order of their files' names."""
    return [row for path in sorted(folder.glob("*.json")) for row in _read(path)]


def version() -> str:
    return metadata.version("dsacc")


def _read(path: Path) -> list[Row]:
    """The rows of a file, if there is one. A file that holds something else is passed over with a warning."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(content, list) or not all(_is_row(row) for row in content):
            raise ValueError("not a list of rows")
    except FileNotFoundError:
        return []
    except (OSError, ValueError) as error:
        warnings.warn(f"{path} is passed over: {error}", stacklevel=3)
        return []
    return content


def _is_row(row: Any) -> bool:
    return (
        isinstance(row, dict)
        and all(name in row for name in ("env", "agent", "shift", "policy"))
        and all(isinstance(row.get(name), list) for name in ("returns", "lengths"))
        and len(row["returns"]) == len(row["lengths"])
        and all(isinstance(x, int | float) and not isinstance(x, bool) for x in row["returns"] + row["lengths"])
    )
