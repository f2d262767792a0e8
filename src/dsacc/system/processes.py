"""This process among others: the cores that it may use, and the parent that it ends with."""

import os
import signal
import sys
from contextlib import suppress

import psutil

PR_SET_PDEATHSIG = 1  # linux/prctl.h


def cores() -> list[int]:
    """The processor cores that this process may use."""
    with suppress(AttributeError):  # not Linux
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def is_alive(pid: int, command: str = "") -> bool:
    """Whether a process runs (a zombie does not), with `command` somewhere in its command line."""
    with suppress(psutil.Error):
        process = psutil.Process(pid)
        return bool(process.status() != psutil.STATUS_ZOMBIE and command in " ".join(process.cmdline()))
    return False


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
