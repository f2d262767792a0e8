"""A task as a child process: `python -m dsacc.experiments.task`, with its own log and one thread."""

import os
import subprocess
import sys
from pathlib import Path

import dsacc
from dsacc.system.threads import ONE_THREAD


def start_task(out: Path, name: str, device: str, core: int | None = None) -> "subprocess.Popen[bytes]":
    """Start the run `name` of OUT's plan. It dies with this process, and has its dsacc, wherever that was found."""
    command = [sys.executable, "-m", "dsacc.experiments.task", str(out), name]
    command += ["--device", device, "--parent", str(os.getpid())]
    command += [] if core is None else ["--core", str(core)]
    here = str(Path(dsacc.__file__).parents[1])
    path = os.pathsep.join([here, *filter(None, [os.environ.get("PYTHONPATH")])])
    log = out / "tasks" / f"{name}.log"
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
