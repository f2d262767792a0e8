"""How much memory is free, how much this process uses, and whether it keeps what it frees."""

import ctypes
import sys
from pathlib import Path

import psutil

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3  # malloc.h
_MB = 2**20


def keep_freed_memory() -> bool:
    """Keep freed blocks of up to 32 MB for the next update. It affects the whole process (`dsacc train`, a task).

    By default glibc returns large blocks to the system as soon as they are free, and each update asks for them again:
    more than a thousand page faults per agent step, an eighth of its time. The arrays of a replay exceed 32 MB, so they
    are still returned. The result is True if the C library has these settings; others (macOS, Windows, musl) are left
    as they are.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform.startswith("linux") else None
    if mallopt is None:
        return False
    settings = {_MMAP_THRESHOLD: 32 * _MB, _TRIM_THRESHOLD: 1024 * _MB, _TOP_PAD: 64 * _MB}
    done = [mallopt(name, value) for name, value in settings.items()]
    return all(done)


def free_memory() -> int:
    """Bytes that this process can still allocate: what the machine has free, or its container if that is less."""
    return min(int(psutil.virtual_memory().available), _container_memory())


def _container_memory() -> int:
    """What a control group (version 2 or 1) leaves free; a huge number if there is no limit."""
    root = Path("/sys/fs/cgroup")
    files = [("memory.max", "memory.current"), ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes")]
    for limit, used in files:
        try:
            return int((root / limit).read_text()) - int((root / used).read_text())
        except (OSError, ValueError):  # not Linux, no such file, or "max"
            continue
    return 2**62


def resident_memory() -> int:
    """Bytes of memory that this process uses now."""
    return int(psutil.Process().memory_info().rss)
