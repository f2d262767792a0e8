"""Inside a Slurm job: one attempt at a run, and what becomes of the job when Slurm wants its node back.

Slurm says so by signals, to every process of the job. USR2 comes some time before the time limit, and on some clusters
before a preemption. SIGTERM comes when a job is preempted, out of time or cancelled, some seconds (KillWait) before
SIGKILL. In each case the run saves. Then the task's file notes why, and the job is queued again, by Slurm or by us.
Only a cancelled job ends.
"""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from dsacc.errors import ConfigError
from dsacc.experiments.backends.supervised import SupervisedTask
from dsacc.experiments.taken import Why
from dsacc.experiments.task import TaskFile
from dsacc.system.extras import how_to_install

BEGINS = "dsacc: the job begins"  # in its log; what comes after is of its last start
_CANCELLED = re.compile(r"CANCELLED AT \S+ DUE TO ([A-Z ]+[A-Z])")  # slurmstepd's words in the same log
_WORDS: dict[str, Why] = {
    "PREEMPTION": "preempted",
    "TIME LIMIT": "out of time",
    "NODE FAILURE": "lost with its node",
}
_STATES: dict[str, Why] = {
    "PREEMPTED": "preempted",
    "TIMEOUT": "out of time",
    "NODE_FAIL": "lost with its node",
    "BOOT_FAIL": "lost with its node",
}
TAIL = 50_000  # bytes that are read from the end of a log


class Job:
    """What submitit runs: one attempt. submitit calls `checkpoint` on USR2, and leaves SIGTERM to us."""

    def __init__(self, out: str, name: str, device: str, modules: Sequence[str] = ()) -> None:
        self.out, self.name, self.device, self.modules = out, name, device, modules
        self._task: SupervisedTask | None = None

    def __call__(self) -> str | None:
        self._note_silent_end()
        if (error := self._given_up()) is not None:
            return error
        print(f"{BEGINS} (restart {_restarts()})", file=sys.stderr, flush=True)
        task = self._task = SupervisedTask(Path(self.out), self.name, self.device, self.modules)
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, lambda *_: task.ask())
        ending = task.perform()
        if ending.taken is not None or (task.stopped and ending.error is not None):
            self._leave(ending.taken)
        return ending.error

    def checkpoint(self) -> Any:
        """Have the run save, and queue the same job again. It continues from the run's folder."""
        if self._task is not None:
            self._task.stop()
        self._file.take_away(self._why(facts_of(_id())) or "out of time")
        if self._given_up() is not None:
            return None  # submitit then lets the job end
        return submitit().helpers.DelayedSubmission(Job(self.out, self.name, self.device, self.modules))

    def _leave(self, noted: Why | None = None) -> None:
        """After SIGTERM: note why, and queue the job again unless Slurm did. A cancelled job ends here. `noted` is set
        where the run alone was stopped, which is in its file by then."""
        facts = facts_of(_id())
        why = self._why(facts)
        if noted is None and why is not None:
            self._file.take_away(why)
        if _is_queued_again(facts) or self._given_up() is not None:
            return
        if why is not None or (noted is not None and facts.get("JobState") == "RUNNING"):
            with suppress(OSError, subprocess.SubprocessError):  # then the command, which waits, submits it anew
                subprocess.run(["scontrol", "requeue", _id()], timeout=60)

    def _why(self, facts: Mapping[str, str]) -> Why | None:
        """Why Slurm takes the node away; None if somebody cancelled the job, or nobody knows."""
        if (why := cause_in(log_of(self.out, _id()))) is not None:
            return why
        if _is_queued_again(facts) or facts.get("PreemptTime", "None") != "None":
            return "preempted"
        return "out of time" if facts.get("Reason") == "TimeLimit" else _STATES.get(facts.get("JobState", ""))

    def _note_silent_end(self) -> None:
        """Note how this job's last start ended if it could not do so itself: its node died, or there was no time."""
        state = self._file.read().get("state")
        if _restarts() == 0 or state not in ("training", "hardening", "testing", "stopped"):
            return
        unknown: Why = "preempted" if state == "stopped" else "lost with its node"
        self._file.take_away(cause_in(log_of(self.out, _id())) or unknown)

    def _given_up(self) -> str | None:
        """The sentence for a run that gets no further, which is then written to its file."""
        error = self._file.why_given_up()
        if error is not None:
            self._file.set("failed", error)
        return error

    @property
    def _file(self) -> TaskFile:
        return TaskFile(Path(self.out), self.name)


def log_of(out: str | Path, job: str) -> Path:
    """submitit's log of a job's errors."""
    return Path(out) / "slurm" / f"{job}_0_log.err"


def cause_in(log: Path) -> Why | None:
    """Why slurmstepd ended the last start of the job that writes this log; None if it does not say."""
    with suppress(OSError), open(log, "rb") as file:
        file.seek(max(log.stat().st_size - TAIL, 0))
        last = file.read().decode(errors="replace").rpartition(BEGINS)[2]
        return next((_WORDS[found] for found in _CANCELLED.findall(last) if found in _WORDS), None)
    return None


def facts_of(job: str) -> dict[str, str]:
    """What Slurm knows of a job (JobState, Reason, Restarts and so on); nothing if it does not answer."""
    for _ in range(3 if job else 0):  # the second of two SIGTERM to all of a job may end our scontrol
        with suppress(OSError, subprocess.SubprocessError):
            said = subprocess.run(
                ["scontrol", "show", "job", "--oneliner", job], capture_output=True, text=True, timeout=60
            )
            pairs = [word.split("=", 1) for word in said.stdout.split() if "=" in word]
            if said.returncode == 0 and pairs:
                return dict(reversed(pairs))  # of two with one name the first counts: a later one is in somebody's text
        time.sleep(0.5)
    return {}


def why_gone(facts: Mapping[str, str]) -> Why | None:
    """Why a job was taken away that Slurm did not queue again; None if that is not what ended it."""
    return _STATES.get(facts.get("JobState", ""))


def submitit() -> Any:
    try:
        return import_module("submitit")
    except ImportError as error:
        raise ConfigError(f"--backend slurm needs submitit; `{how_to_install('slurm')}` installs it") from error


def _id() -> str:
    """The id of the job that this process is in; empty where submitit started it without Slurm."""
    return os.environ.get("SLURM_JOB_ID", "") if os.environ.get("SUBMITIT_EXECUTOR") == "slurm" else ""


def _restarts() -> int:
    """How often Slurm has started this job again."""
    said = os.environ.get("SLURM_RESTART_COUNT", "") if _id() else ""
    return int(said) if said.isdecimal() else 0


def _is_queued_again(facts: Mapping[str, str]) -> bool:
    said = facts.get("Restarts", "")
    return said.isdecimal() and int(said) > _restarts()
