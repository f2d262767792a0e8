"""The C library's memory allocator, told that an update needs the same memory again a moment later.

By default glibc hands large blocks back to the system as soon as they are free, and each update asks for them anew:
more than a thousand page faults an agent step, an eighth of its time. A process of ours keeps them instead.
"""

import ctypes
import sys

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3  # malloc.h
_MB = 2**20


def keep_freed_memory() -> bool:
    """Keep freed blocks of up to 32 MB for the next update. For whole processes: `dsacc train`, an experiment's task.

    A replay's arrays are larger than that, so they still go back when they are done with. Returns whether the C library
    has such settings; others (macOS, Windows, musl) are left as they are.
    """
    if not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    settings = {_MMAP_THRESHOLD: 32 * _MB, _TRIM_THRESHOLD: 1024 * _MB, _TOP_PAD: 64 * _MB}
    done = [mallopt(name, value) for name, value in settings.items()]
    return all(done)
