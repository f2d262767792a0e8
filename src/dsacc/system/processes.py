"""This process among others: the cores that it may use, and the parent that it ends with."""

import os
import signal
import sys
from contextlib import suppress

PR_SET_PDEATHSIG = 1  # linux/prctl.h


def cores() -> list[int]:
    """The processor cores that this process may use."""
    with suppress(AttributeError):  # not Linux
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def die_with(parent: int) -> None:
    """Have the kernel kill this process when its parent ends, so that no orphan holds a run's lock. Linux only."""
    if not sys.platform.startswith("linux"):
        return
    import ctypes

    try:
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    except (OSError, AttributeError):
        return
    if os.getppid() != parent:  # the parent ended before we asked
        os._exit(1)


def pin_to(core: int) -> None:
    """Keep this process on one core, if the system lets us."""
    with suppress(AttributeError, OSError):  # not Linux, or not allowed: slower, not wrong
        os.sched_setaffinity(0, {core})
