"""Rows of evaluations in a folder. A second evaluation adds to the first and does not repeat what is there."""

import hashlib
import json
import re
import tempfile
import warnings
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import Any

from dsacc.analysis.rows import Row, parse_rows
from dsacc.errors import RunError
from dsacc.system.files import write_atomically


class NotKept(RunError):
    """Rows could not be written. `rows` holds them, as `evaluate` returns them, where they were played all the same."""

    def __init__(self, message: str, rows: list[dict[str, Any]] | None = None) -> None:
        super().__init__(message)
        self.rows = rows or []


@dataclass(frozen=True)
class Trial:
    """What an agent is shown and how it plays. "id" has neither severity nor mode."""

    shift: str
    severity: str | int | None
    mode: str | None
    policy: str
    where: str | None = None  # only where it was asked for


class RowStore:
    """The rows in `folder`/evaluations, one file per row. A folder of None keeps nothing.

    The name of a file says what was tested. It ends with a hash of `source` and of dsacc's version. `source` tells two
    agents of one name apart, and another version may draw its weather differently. Only a file of exactly that name is
    taken as known. A `source` of None means that nobody can tell whether it is the same agent: its rows are kept, but
    the episodes are played again. So are they with `again`.
    """

    def __init__(self, folder: str | Path | None, source: str | None, again: bool = False) -> None:
        self.folder = None if folder is None else Path(folder) / "evaluations"
        self.source, self.again = source, again

    def find(self, row: Row) -> Row:
        """This row with the episodes that are known."""
        if self.folder is not None and self.source is not None and not self.again:
            for known in _read(self.folder / self._file_name(row)):
                if replace(known, returns=row.returns, lengths=row.lengths) == row:
                    return known
        return row

    def check(self) -> None:
        """Raise NotKept where rows cannot be written. Afterwards the folder is there."""
        if self.folder is None:
            return
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=self.folder).close()  # it has no name, so that a kill leaves nothing
        except OSError as error:
            raise NotKept(f"{self.folder} cannot be written ({error.strerror or error})") from error

    def save(self, row: Row) -> None:
        if self.folder is not None:
            text = json.dumps([row.to_json()], indent=2) + "\n"
            try:
                write_atomically(self.folder / self._file_name(row), text.encode())
            except RunError as error:
                raise NotKept(str(error)) from error

    def _file_name(self, row: Row) -> str:
        """`Breakout-dsac-m-s0-step100000-snow-paper-independent-greedy-seed0-1f09a3c2.json`."""
        parts = [row.env, row.agent]
        parts += [f"s{row.train_seed}"] if row.train_seed is not None else []
        parts += [f"step{row.step}"] if row.step is not None else []
        parts += [str(part) for part in (row.shift, row.severity, row.mode, row.where) if part is not None]
        parts += [row.policy, f"seed{row.eval_seed}"]
        text = re.sub(r"[^\w.+-]+", "-", "-".join(parts))[:200]
        if self.source is not None:
            text += "-" + hashlib.sha256(f"{self.source} {version()}".encode()).hexdigest()[:8]
        return text + ".json"


def read_rows(folder: Path) -> list[Row]:
    """All rows in a folder such as RUN/evaluations, in the order of the files' names."""
    return [row for path in sorted(folder.glob("*.json")) for row in _read(path)]


def version() -> str:
    return metadata.version("dsacc")


def _read(path: Path) -> list[Row]:
    """The rows of a file, if there is one. What is not a row is passed over with a warning."""
    try:
        rows, problems = parse_rows(json.loads(path.read_text(encoding="utf-8")))
    except (FileNotFoundError, NotADirectoryError):
        return []
    except (OSError, ValueError, RecursionError) as error:
        rows, problems = [], [str(error)]
    if problems:
        warnings.warn(f"{path} is passed over{' in part' if rows else ''}: {problems[0]}", stacklevel=3)
    return rows
