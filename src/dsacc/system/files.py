"""Files that are written completely or not at all, and read only if they are regular files."""

import errno
import glob
import hashlib
import os
import shutil
import socket
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from dsacc.errors import RunError
from dsacc.system import plain
from dsacc.system.memory import free_memory
from dsacc.system.text import size

LARGE = 2**26  # bytes from which on a file is compared with the free memory before it is read
MAX_LOG = 2**30  # bytes of a file of JSON lines: a million rows
_HOST = hashlib.sha256(socket.gethostname().encode()).hexdigest()[:8]  # short: a file's name has at most 255 bytes


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def write_atomically(path: Path, data: bytes) -> None:
    """Write all of the bytes or leave the file as it was. The data is on disk when this returns."""
    temporary = path.with_name(f".{path.name}.{_HOST}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _remove_abandoned(path)
        try:
            write_synced(temporary, data)
            os.replace(temporary, path)
            sync_folder(path.parent)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise disk_error(error, path, len(data)) from error


def not_a_link(path: str, flags: int) -> int:
    """For `open(..., opener=not_a_link)`: a link raises an OSError. It might lead to any file of the user's."""
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0), 0o666)


def is_temporary(path: Path, name: str) -> bool:
    """Whether it is, by its name, what a process left that was killed while it wrote the file `name` atomically."""
    return path.name.startswith(f".{name}.") and path.suffix == ".tmp"


def _remove_abandoned(path: Path) -> None:
    """Remove what processes of this host left that were killed while they wrote this file."""
    for old in path.parent.glob(f".{glob.escape(path.name)}.{_HOST}.*.tmp"):
        pid = old.name.split(".")[-2]
        if pid.isdecimal() and not psutil.pid_exists(int(pid)):
            old.unlink(missing_ok=True)


def write_synced(path: Path, data: bytes) -> None:
    with open(path, "wb", opener=not_a_link) as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def sync_folder(path: Path) -> None:
    """Write a folder to disk: a rename is only safe once its folder is."""
    if os.name != "posix":
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def disk_error(error: OSError, path: Path, needed: int) -> RunError:
    """The error for a write that failed. For a full disk it says how much space is needed."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        folder = next(p for p in path.parents if p.exists())
        free = shutil.disk_usage(folder).free
        return RunError(
            f"the disk of {path} is full: {size(needed)} are needed and {size(free)} are free; free some space and run "
            "the same command again, nothing that was saved is lost"
        )
    if error.errno == errno.ELOOP:
        return RunError(f"{path} is a link, and links in a run folder are not followed; choose another --out")
    return RunError(f"{path} cannot be written ({error.strerror or error})")


def read_file(path: Path, most: int | None = None, links: bool = False) -> bytes:
    """The bytes of a regular file. A device or anything else raises a RunError, and so does a file of more than `most`
    bytes, before it is read. A link is followed only with `links`."""
    flags = 0 if links else getattr(os, "O_NOFOLLOW", 0)
    try:
        handle = os.open(path, os.O_RDONLY | flags | getattr(os, "O_NONBLOCK", 0))  # a pipe must not keep us waiting
        with os.fdopen(handle, "rb") as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode):
                raise RunError(f"{path} is not a regular file")
            if most is not None and found.st_size > most:
                raise RunError(f"{path} has {size(found.st_size)}, and at most {size(most)} are read")
            if found.st_size > LARGE and found.st_size > free_memory():  # a file with holes takes no room on a disk
                raise RunError(f"{path} has {size(found.st_size)}, and only {size(free_memory())} of memory are free")
            return file.read()
    except OSError as error:
        raise RunError(f"{path} cannot be read ({error.strerror or error})") from error


def read_json(path: Path) -> dict[str, Any]:
    """The JSON object in a file. Anything else raises a RunError."""
    return parse_json(read_file(path, plain.MAX_BYTES), path)


def json_or_empty(path: Path) -> dict[str, Any]:
    """The JSON object in a file; empty if there is none that can be read."""
    with suppress(RunError):
        return read_json(path)
    return {}


def parse_json(data: bytes, path: Path) -> dict[str, Any]:
    """The JSON object in the bytes of a file."""
    try:
        content = plain.parse_json(data)
    except plain.NotPlain as error:
        raise RunError(f"{path} cannot be read as JSON ({error})") from error
    if not isinstance(content, dict):
        raise RunError(f"{path} does not contain a JSON object")
    return content


def json_lines(data: bytes) -> Iterator[dict[str, Any] | None]:
    """The objects in JSON lines, one after the other; None for a line that is not one. A last line without its end is
    still being written and is left out."""
    start = 0
    while (end := data.find(b"\n", start)) >= 0:
        line, start = data[start : min(end, start + plain.MAX_LINE + 1)], end + 1
        try:
            row = plain.parse_json(line) if len(line) <= plain.MAX_LINE else None
        except plain.NotPlain:
            row = None
        yield row if isinstance(row, dict) else None
