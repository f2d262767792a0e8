"""A task as a child process: `python -m dsacc.experiments.task`, with its own log and one thread."""

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import dsacc
from dsacc.experiments.task import TaskFile
from dsacc.system.threads import ONE_THREAD

LOOK = 0.1  # seconds between two looks at a process
KILLED = -9  # exit code after SIGKILL, a name that Python does not have on Windows
PATIENCE = 120.0  # seconds that a process has to save when it is asked to stop

Process = subprocess.Popen[bytes]


def start_task(out: Path, name: str, device: str, core: int | None = None) -> Process:
    """Start the run `name` of OUT's plan. The process ends with this one, and uses the same copy of dsacc."""
    command = [sys.executable, "-m", "dsacc.experiments.task", str(out), name]
    command += ["--device", device, "--parent", str(os.getpid())]
    command += [] if core is None else ["--core", str(core)]
    here = str(Path(dsacc.__file__).parents[1])
    path = os.pathsep.join([here, *filter(None, [os.environ.get("PYTHONPATH")])])
    log = _log(out, name)
    log.parent.mkdir(parents=True, exist_ok=True)
    with open(log, "ab") as file:
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


def error_of(out: Path, name: str, process: Process) -> str | None:
    """What went wrong in a process that has ended; None if nothing did.

    The sentence is the one that the task wrote to its file. If it could not write any, its exit code and its log tell,
    and what they tell is written to the file here.
    """
    if process.returncode == 0:
        return None
    task = TaskFile(out, name)
    said = task.read()
    if said.get("pid") == process.pid and said.get("state") in ("failed", "stopped"):
        return str(said.get("error") or "somebody stopped it, and it was saved")
    error = _from_exit_code(process.returncode, _log(out, name))
    task.set("failed", error)
    return error


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
