"""Files that are written completely or not at all, and read only if they are regular files."""

import errno
import glob
import hashlib
import json
import os
import shutil
import socket
import stat
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from dsacc.errors import RunError
from dsacc.system.text import size

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
    with open(path, "wb") as file:
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
    return RunError(f"{path} cannot be written ({error.strerror or error})")


def read_file(path: Path) -> bytes:
    """The bytes of a regular file. A link, a device or anything else raises a RunError."""
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
        with os.fdopen(handle, "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise RunError(f"{path} is not a regular file")
            return file.read()
    except OSError as error:
        raise RunError(f"{path} cannot be read ({error.strerror or error})") from error


def read_json(path: Path) -> dict[str, Any]:
    """The JSON object in a file. Anything else raises a RunError."""
    return parse_json(read_file(path), path)


def json_or_empty(path: Path) -> dict[str, Any]:
    """The JSON object in a file; empty if there is none that can be read."""
    with suppress(RunError):
        return read_json(path)
    return {}


def parse_json(data: bytes, path: Path) -> dict[str, Any]:
    try:
        content = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise RunError(f"{path} cannot be read as JSON ({error})") from error
    if not isinstance(content, dict):
        raise RunError(f"{path} does not contain a JSON object")
    return content
