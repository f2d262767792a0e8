"""A `dsacc` command as a process that can be started in a moment and killed at any.

This process has torch and dsacc imported and nothing else done. Each command is a fork of it, with its own session and
its own output, and does what `python -m dsacc` does. What kills it is a real signal.
"""

import contextlib
import os
import random
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

CHANGES = ("os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate", "shutil.rmtree")  # audit events
SIGNALS = {  # how often, in percent
    "KILL": 76,  # somebody, or the kernel for want of memory
    "TERM, then KILL": 8,  # a scheduler that does not wait
    "TERM": 4,
    "INT": 4,
    "HUP": 3,  # a terminal that was closed
    "SEGV": 3,
    "ABRT": 2,
}


@dataclass(frozen=True)
class Death:
    """How a process ended."""

    code: int  # as `subprocess` counts: negative for a signal
    how: str  # signal and moment; empty if it was not killed
    said: str  # its standard error
    changes: int  # changes to files that it made, where these were counted

    @property
    def killed(self) -> bool:
        return self.code != 0 and bool(self.how)


def prepare() -> None:
    """Import everything that a command imports. Nothing is computed: no thread may exist before a fork."""
    import torch

    import dsacc.cli
    import dsacc.hardening
    import dsacc.play
    import dsacc.play.adapters
    import dsacc.training
    import dsacc.views  # noqa: F401

    torch.set_num_threads(1)
    with contextlib.suppress(ImportError):
        import ale_py  # noqa: F401


def perform(words: Sequence[str], log: Path, rng: random.Random, moment: str, typical: float, changes: int) -> Death:
    """Start `dsacc WORDS` and kill it: at `any moment` of its `typical` seconds, in the first moments of `a
    continuation`, or before a random one of its `changes` to files (`a change to a file`); `never` lets it end."""
    at = rng.randint(1, max(changes, 1)) if moment == "a change to a file" else 0
    name = rng.choices(list(SIGNALS), list(SIGNALS.values()))[0] if moment != "a change to a file" else "KILL"
    wait = rng.uniform(0.0, 0.15) if moment == "a continuation" else rng.uniform(0.0, typical)
    grace = rng.uniform(0.0, 0.05)
    log.write_bytes(b"")  # it may be killed before it says anything
    ready, told = os.pipe()
    pid = os.fork()
    if pid == 0:
        _be(words, log, at, told)
    os.close(told)
    timed = moment in ("any moment", "a continuation")
    if timed and not _ended(pid, wait):
        first, _, then = name.partition(", then ")
        os.kill(pid, getattr(signal, f"SIG{first}"))
        if then and not _ended(pid, grace):
            os.kill(pid, getattr(signal, f"SIG{then}"))
    _, status = os.waitpid(pid, 0)
    with os.fdopen(ready) as file:
        counted = file.read()
    code = os.waitstatus_to_exitcode(status)
    how = "" if moment == "never" or code == 0 else f"{name} at {moment}"
    return Death(code, how, log.read_text(errors="replace"), int(counted or 0))


def _ended(pid: int, seconds: float) -> bool:
    """Whether it ends by itself within this time. It is not collected."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
            return True
        time.sleep(min(0.005, max(until - time.monotonic(), 0.0)))
    return False


def _be(words: Sequence[str], log: Path, at: int, told: int) -> None:
    """In the child: become the command. Its end is that of a process, whatever happens."""
    code = 70
    try:
        os.setsid()
        for number in (signal.SIGINT, signal.SIGHUP):  # a parent in the background may ignore them
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
        handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(handle, 1)
        os.dup2(handle, 2)
        counter = _Changes(at)
        sys.addaudithook(counter)
        from dsacc.cli import main

        code = main(list(words))
        os.write(told, str(counter.seen).encode())
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 1
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


class _Changes:
    """Counts what the process does to files, and kills it right before number `at`; 0 lets it live."""

    def __init__(self, at: int) -> None:
        self.at, self.seen = at, 0

    def __call__(self, event: str, arguments: tuple[object, ...]) -> None:
        if event == "open" and len(arguments) == 3:
            flags = arguments[2]
            changes = isinstance(flags, int) and bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))
        else:
            changes = event in CHANGES
        if changes:
            self.seen += 1
            if self.seen == self.at:
                self.at = 0
                if event == "os.rename" and self.seen % 2:
                    _tear(Path(os.fsdecode(arguments[0])))  # type: ignore[arg-type]
                os.kill(os.getpid(), signal.SIGKILL)


def _tear(path: Path) -> None:
    """Leave half of a file, or of the last file of a folder: what a kill in the middle of its write leaves."""
    files = [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.is_file())
    if files:
        os.truncate(files[-1], files[-1].stat().st_size // 2)
