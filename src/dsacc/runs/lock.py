"""One process per run folder: the file `lock` names its holder, and a kernel lock (flock) on that file decides.

The kernel frees a flock however its process ends. Hosts that share a disk without flock use the heartbeat.
"""

import json
import os
import socket
import time
from contextlib import AbstractContextManager, suppress
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from pathlib import Path

import psutil

from dsacc.errors import RunError
from dsacc.system.plain import parse_json

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

HEARTBEAT = 30.0  # seconds between two writes of the heartbeat
STALE = 600.0  # seconds of silence after which the lock of another host is taken over
_HOST = socket.gethostname()
_FLAGS = os.O_RDWR | os.O_CREAT | sum(getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_BINARY"))


@dataclass(frozen=True)
class Holder:
    """The process that holds a folder, as it describes itself in `lock`."""

    host: str
    pid: int
    pid_started: float  # unix seconds; distinguishes the holder from a later process with the same pid
    started: str  # ISO time at which it took the lock
    heartbeat: float  # unix seconds

    def may_live(self) -> bool:
        """Whether it may still be alive, as far as this host can tell."""
        if self.host != _HOST:
            return time.time() - self.heartbeat < STALE
        with suppress(psutil.NoSuchProcess):
            process = psutil.Process(self.pid)
            same = abs(process.create_time() - self.pid_started) < 2  # seconds; the clock may have been changed since
            return bool(same and process.status() != psutil.STATUS_ZOMBIE)
        return False


class RunLock(AbstractContextManager["RunLock"]):
    """A held lock. `taken_over` (from a dead holder) and `lost` (to another process) are None or a sentence to show."""

    def __init__(self, path: Path, fd: int, free: bool | None) -> None:
        """Write this process into the open file, unless another process holds it. `free` is the answer of `_flock`."""
        info, holder, tries = os.fstat(fd), _read(fd), 10
        if info.st_nlink > 1:
            raise RunError(f"{path} is a hard link, not a lock; delete it or choose another --out")
        while free is False and tries and not (holder and holder.may_live()):
            time.sleep(0.02)  # the winner of a race needs a moment to write its name
            tries, holder = tries - 1, _read(fd)
        # A flock that we got proves that a holder of this host is gone, even where a process of its pid was started in
        # the same second: two containers of one name, say, whose programs are both pid 1.
        gone = holder is None or (free and holder.host == _HOST) or not holder.may_live()
        if free is False or not gone:
            raise _in_use(path, holder)
        now, started = round(time.time(), 1), time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        self._me = Holder(_HOST, os.getpid(), psutil.Process().create_time(), started, now)
        _write(fd, self._me)
        os.fsync(fd)  # a full network disk reports it only here
        self.lost: str | None = None
        self.taken_over = f"took over {path}, which could not be read" if info.st_size else None
        if holder:
            how = "which is gone" if holder.host == _HOST else f"silent for {(now - holder.heartbeat) / 60:.0f} minutes"
            self.taken_over = f"took over the lock of pid {holder.pid} on {holder.host}, {how}"
        self._path, self._last = path, time.monotonic()
        self._fd: int | None = fd
        if hasattr(os, "register_at_fork"):  # a forked worker that outlives its killed parent must not keep the flock
            os.register_at_fork(after_in_child=self._close)

    @classmethod
    def acquire(cls, folder: Path) -> "RunLock":
        """Lock `folder`, which is created if missing. A RunError says who holds it."""
        path = folder / "lock"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            for _ in range(100):
                if path.is_symlink() or path.is_dir():
                    raise RunError(f"{path} is a link or a folder, not a lock; delete it or choose another --out")
                fd = os.open(path, _FLAGS, 0o644)
                try:
                    free = _flock(fd)
                    if _is_at(path, fd):  # else its holder removed it before our flock, which then locks nothing
                        return cls(path, fd, free)
                except BaseException:
                    os.close(fd)
                    raise
                os.close(fd)
        except (OSError, psutil.Error) as error:
            raise RunError(f"{folder} cannot be locked ({error}); make it writable or choose another --out") from error
        raise RunError(f"other processes keep removing {path}; choose another --out")

    def beat(self) -> None:
        """Show other hosts that this process is alive. Never raises: a missed heartbeat must not end a run."""
        if time.monotonic() - self._last < HEARTBEAT or self._fd is None or self.lost:
            return
        self._last = time.monotonic()
        with suppress(OSError):
            if self._owns(self._fd):
                _write(self._fd, replace(self._me, heartbeat=round(time.time(), 1)))
            elif os.path.lexists(self._path):
                self.lost = f"another process took over {self._path.parent} while this one was silent"

    def release(self) -> None:
        """Release and delete `lock`, unless another process has it by now. If it cannot be deleted, it is emptied."""
        with suppress(OSError):
            if self._fd is not None and self._owns(self._fd):
                try:
                    self._path.unlink()  # while we hold the flock, so that it cannot belong to another process
                except OSError:  # Windows does not delete open files
                    os.ftruncate(self._fd, 0)
        self._close()

    def __exit__(self, *_: object) -> None:
        self.release()

    def _close(self) -> None:
        fd, self._fd = self._fd, None
        with suppress(OSError):
            os.close(-1 if fd is None else fd)

    def _owns(self, fd: int) -> bool:
        holder = _read(fd)
        return _is_at(self._path, fd) and (not holder or replace(holder, heartbeat=self._me.heartbeat) == self._me)


def holder_of(folder: Path) -> Holder | None:
    """The holder named in the folder's lock, which is not touched. `may_live` says whether it still counts."""
    with suppress(OSError):
        fd = os.open(folder / "lock", os.O_RDONLY | (_FLAGS & ~os.O_RDWR & ~os.O_CREAT))
        try:
            return _read(fd)
        finally:
            os.close(fd)
    return None


def _is_at(path: Path, fd: int) -> bool:
    with suppress(FileNotFoundError):
        return fcntl is None or os.path.samestat(path.lstat(), os.fstat(fd))
    return False


def _flock(fd: int) -> bool | None:
    """False if another process has the flock. None where there is none (Windows, some clusters): `may_live` decides."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (OSError, AttributeError) as error:
        return False if isinstance(error, BlockingIOError) else None
    return True


def _in_use(path: Path, holder: Holder | None) -> RunError:
    who = f"pid {holder.pid} on {holder.host} since {holder.started}" if holder else "another process"
    far = f", or delete {path} if it has certainly ended" if holder and holder.host != _HOST else ""
    return RunError(f"{path.parent} is in use by {who}; wait for it, stop it, or choose another --out{far}")


def _read(fd: int) -> Holder | None:
    """The holder named in the file; None for anything that dsacc would not have written."""
    os.lseek(fd, 0, os.SEEK_SET)
    with suppress(ValueError, TypeError, AttributeError):
        it = Holder(**parse_json(os.read(fd, 4096)))
        datetime.fromisoformat(it.started)
        times = 0 <= it.pid_started < 2**40 and 0 <= it.heartbeat < time.time() + 86_400  # no clock is a day ahead
        if times and type(it.pid) is int and 0 < it.pid < 2**31 and (it.host + it.started).isprintable():
            return it
    return None


def _write(fd: int, holder: Holder) -> None:
    """Overwrite the old text, of the same length, in one write: a reader on another host never sees half of it."""
    with open(fd, "r+b", closefd=False) as file:
        file.seek(0)
        file.write(json.dumps(asdict(holder)).encode())
        file.truncate()
