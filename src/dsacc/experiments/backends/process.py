"""A task as a child process: `python -m dsacc.experiments.task`, with its own log and one thread."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import dsacc
from dsacc.experiments.backends.base import Ending
from dsacc.experiments.task import TaskFile
from dsacc.system.files import not_a_link
from dsacc.system.threads import ONE_THREAD

LOOK = 0.1  # seconds between two looks at a process
# Exit codes of a task that was asked to stop: its own, and the system's if it was just being started.
STOPPED = (128 + signal.SIGINT, 128 + signal.SIGTERM, -signal.SIGINT, -signal.SIGTERM)
KILLED = -9  # exit code after SIGKILL, a name that Python does not have on Windows
PATIENCE = 120.0  # seconds that a process has to save when it is asked to stop

Process = subprocess.Popen[bytes]


def start_task(out: Path, name: str, device: str, core: int | None = None, modules: Sequence[str] = ()) -> Process:
    """Start the run `name` of OUT's plan. The process ends with this one, and uses the same copy of dsacc. It imports
    the run's `modules`, and nothing else from the current folder, which `-m` alone would search."""
    command = [sys.executable, "-P", "-m", "dsacc.experiments.task", str(out), name]
    command += [word for module in modules for word in ("--named", module)]
    command += ["--device", device, "--parent", str(os.getpid())]
    command += [] if core is None else ["--core", str(core)]
    here = str(Path(dsacc.__file__).parents[1])
    path = os.pathsep.join([here, *filter(None, [os.environ.get("PYTHONPATH")])])
    log = _log(out, name)
    log.parent.mkdir(parents=True, exist_ok=True)
    with open(log, "ab", opener=not_a_link) as file:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            env={**os.environ, **ONE_THREAD, "PYTHONPATH": path},
            start_new_session=True,  # Ctrl-C reaches this process alone, which then asks its children in order
        )


def end(process: Process) -> None:
    """Kill it if it still runs, and collect it."""
    if process.poll() is None:
        process.kill()
    process.wait()


def ending_of(out: Path, name: str, process: Process, seconds: float | None = None) -> Ending:
    """How a process that has ended did so, which is also written to the task's file where the task could not.

    A sentence is the one that the task wrote. If it could not write any, its exit code and its log tell. A process that
    somebody asked to stop has saved, and did not fail.
    """
    node, code = f"{socket.gethostname()}:{process.pid}", process.returncode
    if code == 0:
        return Ending(None, node, seconds)
    task = TaskFile(out, name)
    if code in STOPPED:
        task.take_away("stopped from outside")
        return Ending(None, node, seconds, "stopped from outside")
    said = task.read()
    if said.get("state") == "failed" and said.get("pid") == process.pid:
        return Ending(str(said.get("error")), node, seconds)
    error = _from_exit_code(code, _log(out, name))
    task.set("failed", error)
    return Ending(error, node, seconds)


def _log(out: Path, name: str) -> Path:
    return out / "tasks" / f"{name}.log"


def _from_exit_code(code: int, log: Path) -> str:
    if code == KILLED:
        return "its process was killed (signal 9): by somebody, or because memory ran out"
    if code < 0:
        return f"its process was ended by signal {-code}"
    with suppress(OSError):
        with open(log, "rb") as file:
            file.seek(max(log.stat().st_size - 4000, 0))
            lines = file.read().decode(errors="replace").strip().splitlines()
        if lines:
            return lines[-1].removeprefix("dsacc: ")
    return f"its process ended with exit code {code}; see {log}"
