"""The logs of a run: JSON lines that are only added to, and the sha256 of what was written.

The rows themselves stay plain. A checkpoint records length and sha256 of the exact logs, for runs that continue, and
status.json those of all logs up to the latest row, for whoever reads them.
"""

import hashlib
import json
import math
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from dsacc.errors import Damaged
from dsacc.system.files import disk_error, not_a_link
from dsacc.system.seals import CHANGED

CHUNK = 2**20  # bytes that are read at once


class Log:
    """A log that is open for writing. What follows its first `keep` bytes is removed; None keeps all."""

    def __init__(self, path: Path, keep: int | None) -> None:
        self.path, self.bytes = path, 0
        try:
            self._file = open(path, "a+b", opener=not_a_link)  # noqa: SIM115 - held until close
            if keep is not None:
                self._file.truncate(keep)
            self._sha256 = hashlib.sha256()
            self._file.seek(0)
            while chunk := self._file.read(CHUNK):
                self._count(chunk)
        except OSError as error:
            raise disk_error(error, path, 0) from error

    def _count(self, data: bytes) -> None:
        self._sha256.update(data)
        self.bytes += len(data)

    def append(self, row: Mapping[str, Any]) -> None:
        """Add one JSON object as a line. NaN and infinity, which JSON does not have, become null."""
        clean = {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in row.items()}
        line = (json.dumps(clean, allow_nan=False) + "\n").encode()
        try:
            self._file.write(line)
            self._file.flush()
        except OSError as error:
            raise disk_error(error, self.path, len(line)) from error
        self._count(line)

    @property
    def sha256(self) -> str:
        """Of everything that was written."""
        return self._sha256.hexdigest()

    def sync(self) -> None:
        """Wait until it is on disk."""
        os.fsync(self._file.fileno())

    def close(self) -> None:
        with suppress(OSError):  # a full disk; what matters is in the checkpoint
            self._file.close()


def is_as_recorded(path: Path, length: int, sha256: str) -> bool:
    """Whether a log begins with so many bytes of that sha256. False where it is shorter, or where there is none."""
    found = hashlib.sha256()
    with suppress(OSError), open(path, "rb") as file:
        while length and (chunk := file.read(min(CHUNK, length))):
            found.update(chunk)
            length -= len(chunk)
        return length == 0 and found.hexdigest() == sha256
    return False


def check_log(run: Path, name: str, status: Mapping[str, Any]) -> bool:
    """Compare a log with what the run's status says about it. Raises `Damaged` where they differ.

    False means that nothing can be said: the status is from before it knew the logs, there is no log, or the run was
    being continued, which cuts its logs.
    """
    records = status.get("logs")
    record = records.get(name) if isinstance(records, dict) else None
    path = run / name
    if not isinstance(record, dict) or not path.is_file():
        return False
    length, sha256 = record.get("bytes"), record.get("sha256")
    if not isinstance(length, int) or not isinstance(sha256, str):
        return False
    if is_as_recorded(path, length, sha256):
        return True
    with suppress(OSError):
        if status.get("state") != "finished" and path.stat().st_size < length:
            return False
    raise Damaged(f"{path} {CHANGED}")
