"""Rows of evaluations in a folder. A second evaluation adds to the first and does not repeat what is there."""

import hashlib
import json
import os
import re
import tempfile
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import Any

from dsacc.analysis.rows import ParsedRows, Row, parse_rows
from dsacc.errors import Damaged, RunError, Unchecked
from dsacc.system import plain
from dsacc.system.files import read_file, write_atomically


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

    A row carries the sha256 of its content. Where that does not hold, or the file cannot be read, a warning names the
    file, and the episodes are played again.
    """

    def __init__(self, folder: str | Path | None, source: str | None, again: bool = False) -> None:
        self.folder = None if folder is None else Path(folder) / "evaluations"
        self.source, self.again = source, again

    def find(self, rows: Sequence[Row]) -> list[Row]:
        """These rows, which have no episodes, with those that are known."""
        if self.folder is None or self.source is None or self.again:
            return list(rows)
        found, unchecked = [], 0
        for row in rows:
            path = self.folder / self._file_name(row)
            there = read_row_file(path)
            if there.problems:
                warnings.warn(f"{path} is passed over, and played again: {there.problems[0]}", stacklevel=3)
            same = (known for known in there.rows if replace(known, returns=[], lengths=[], top_action=None) == row)
            found.append(next(same, row))
            unchecked += found[-1] is not row and there.unchecked > 0
        if unchecked:
            warnings.warn(Unchecked(unchecked, self.folder), stacklevel=3)
        return found

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
            text = json.dumps([row.sealed()], indent=2) + "\n"
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


def read_rows(folder: Path, strict: bool = True) -> list[Row]:
    """All rows in a folder such as RUN/evaluations, in the order of the files' names.

    A file that is not as dsacc wrote it raises `Damaged`. Without `strict` it is passed over with a warning. Rows from
    before rows carried a sha256 count, and one warning (`Unchecked`) says how many they are.
    """
    rows, unchecked = list[Row](), 0
    for path in sorted(folder.glob("*.json")):
        found = read_row_file(path)
        if found.problems and strict:
            raise damaged_rows(path, found)
        if found.problems:
            warnings.warn(f"{path} is passed over: {found.problems[0]}", stacklevel=2)
        rows += found.rows
        unchecked += found.unchecked
    if unchecked:
        warnings.warn(Unchecked(unchecked, folder), stacklevel=2)
    return rows


def damaged_rows(path: Path, found: ParsedRows) -> Damaged:
    """The error for a file of rows that cannot be trusted."""
    what = "`dsacc evaluate` with the same options plays it again; or delete the file, to go on without it"
    return Damaged(f"{path} is damaged: {found.problems[0]}; {what}")


def read_row_file(path: Path) -> ParsedRows:
    """What a file of rows holds; nothing where there is no file."""
    try:
        if not os.path.lexists(path):
            return ParsedRows([], [])
        return parse_rows(plain.parse_json(read_file(path, plain.MAX_BYTES, links=True)))
    except RunError as error:
        return ParsedRows([], [f"it {str(error).removeprefix(f'{path} ')}"])
    except plain.NotPlain as error:
        return ParsedRows([], [str(error)])


def version() -> str:
    return metadata.version("dsacc")
