"""A Slurm cluster, through submitit: one job a run, which Slurm queues again when it is preempted or its time is up.

submitit hands a job its task as a pickle in OUT/slurm, written and read by the same user. We read none back: how a run
ended is in OUT/tasks as JSON. Whoever may write to OUT can run programs as you, as with any job script there.
"""

import getpass
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import psutil

from dsacc.errors import ConfigError, DsaccError, RunError, Stopped
from dsacc.experiments.backends import Options, Outcome
from dsacc.experiments.backends.attempt import Attempt
from dsacc.experiments.backends.local import memory_of
from dsacc.experiments.plan import Plan
from dsacc.experiments.task import TaskFile, is_done
from dsacc.system.files import read_json, write_atomically
from dsacc.system.signals import StopSignals

POLL = 1.0  # seconds between two looks at the files
ASK = 30.0  # seconds between two questions to the scheduler
SAVING = 180  # seconds before its time is up at which a job is told to save; more than it is given for that
REQUEUES = 1_000  # times that a job may go on after its time was up
KEY = re.compile(r"[a-z][a-z-]*")


class Job:
    """What submitit runs: an attempt. `checkpoint` is called when Slurm wants the node back."""

    def __init__(self, out: str, name: str, device: str) -> None:
        self.out, self.name, self.device = out, name, device
        self._attempt: Attempt | None = None

    def __call__(self) -> str | None:
        self._attempt = Attempt(Path(self.out), self.name, self.device)
        return self._attempt.perform().error

    def checkpoint(self) -> Any:
        """Have the run save, and queue the same again: it goes on from its folder."""
        if self._attempt is not None:
            self._attempt.stop()
        return _submitit().helpers.DelayedSubmission(Job(self.out, self.name, self.device))


@dataclass
class _Submitted:
    name: str
    job: str
    number: int  # of the attempt
    began: float
    missed: int = 0  # questions in a row to which the scheduler did not know it


class OnSlurm:
    """Jobs of a Slurm cluster; or, to try it out, submitit's own processes on this machine."""

    def __init__(self, retries: int = 1, device: str = "cpu", options: Options | None = None) -> None:
        self.retries, self.device, self.options = retries, device, options or Options()
        self.ask = ASK if self.options.slurm_executor == "slurm" else POLL
        self.additional = sbatch_options(self.options.slurm)
        if self.options.slurm_minutes < 5:
            raise ConfigError(f"--slurm-time must be at least 5 minutes, not {self.options.slurm_minutes}")
        _submitit()
        if self.options.slurm_executor == "slurm":
            for command in ("sbatch", "srun", "squeue"):
                if shutil.which(command) is None:
                    raise ConfigError(
                        f"--backend slurm needs {command}, which is not here; log in to a node of the Slurm cluster, "
                        "or use --backend local or ray"
                    )

    def execute(self, plan: Plan, out: Path, names: Sequence[str], told: Callable[[Outcome], None]) -> None:
        out = out.absolute()  # jobs may have another working directory
        with StopSignals(active=True) as signals:
            running = self._adopted(out, names)
            for name in [n for n in names if n not in {task.name for task in running}]:
                signals.check()
                running.append(self._submit(plan, out, name, 1))
            print(f"Slurm jobs: {' '.join(task.job for task in running)}", file=sys.stderr, flush=True)
            if self.options.detach:
                return
            asked = time.monotonic()
            try:
                while running:
                    signals.check()
                    ended = [task for task in running if is_done(plan[task.name], plan.tests, out)]
                    if time.monotonic() - asked > self.ask:
                        asked = time.monotonic()
                        ended += [task for task in self._gone(running) if task not in ended]
                    for task in ended:
                        running.remove(task)
                        outcome = _outcome(task, plan, out)
                        if outcome.ok or task.number > self.retries:
                            told(outcome)
                        else:
                            running.append(self._submit(plan, out, task.name, task.number + 1))
                    time.sleep(POLL)
            except Stopped as stopped:
                self._cancel(running)
                if stopped.signal == signal.SIGINT:
                    raise KeyboardInterrupt from stopped
                raise

    # --- jobs ---

    def _submit(self, plan: Plan, out: Path, name: str, number: int) -> _Submitted:
        executor = self.executor(out, memory_of(plan[name]))
        try:
            job = executor.submit(Job(str(out), name, self.device))
        except Exception as error:  # sbatch refused; submitit raises its own and CalledProcessError
            said = " ".join(str(error).split())[-300:]
            raise DsaccError(f"Slurm does not take the job of {name}: {said}") from error
        jobs = _read_jobs(out)
        jobs[name] = str(job.job_id)
        write_atomically(out / "slurm" / "jobs.json", (json.dumps(jobs, indent=1) + "\n").encode())
        return _Submitted(name, str(job.job_id), number, time.time())

    def executor(self, out: Path, memory: int) -> Any:
        """submitit's, with the resources of one run. A job has a single thread."""
        local = self.options.slurm_executor != "slurm"
        count = {} if local else {"slurm_max_num_timeout": REQUEUES}
        executor = _submitit().AutoExecutor(str(out / "slurm"), cluster=self.options.slurm_executor, **count)
        executor.update_parameters(
            name="dsacc",
            nodes=1,
            tasks_per_node=1,
            cpus_per_task=1,
            mem_gb=-(-memory // 2**30),
            timeout_min=self.options.slurm_minutes,
        )
        if self.device.startswith("cuda"):
            executor.update_parameters(gpus_per_node=1)
        if not local:
            additional = {"requeue": True, **self.additional}
            executor.update_parameters(slurm_signal_delay_s=SAVING, slurm_additional_parameters=additional)
        return executor

    def _adopted(self, out: Path, names: Sequence[str]) -> list[_Submitted]:
        """Jobs of an earlier call that are still there."""
        before = [_Submitted(n, job, 1, time.time()) for n, job in _read_jobs(out).items() if n in names]
        known = self._known(before) if before else set()
        if known is None:
            raise RunError(
                f"squeue does not say whether the jobs of {out / 'slurm' / 'jobs.json'} still run; try again"
            )
        return [task for task in before if task.job in known]

    def _gone(self, running: Sequence[_Submitted]) -> list[_Submitted]:
        """Who was unknown to the scheduler twice: a job may be missing for a moment while it is queued again."""
        known = self._known(running)
        for task in running:
            task.missed = 0 if known is None or task.job in known else task.missed + 1
        return [task for task in running if task.missed > 1]

    def _known(self, tasks: Sequence[_Submitted]) -> set[str] | None:
        """Which jobs are queued or running; None where the scheduler does not say."""
        if self.options.slurm_executor != "slurm":
            return {task.job for task in tasks if _lives(int(task.job))}
        command = ["squeue", "--noheader", "--array", "--format=%i", f"--user={getpass.getuser()}"]
        try:
            said = subprocess.run(command, capture_output=True, text=True, timeout=60)
        except (OSError, subprocess.TimeoutExpired):
            return None
        return set(said.stdout.split()) if said.returncode == 0 else None

    def _cancel(self, running: Sequence[_Submitted]) -> None:
        """Slurm sends SIGTERM to a job's processes first, upon which a run saves."""
        for task in running:
            with suppress(OSError, subprocess.SubprocessError):
                if self.options.slurm_executor == "slurm":
                    subprocess.run(["scancel", task.job], capture_output=True, timeout=60)
                else:
                    os.kill(int(task.job), signal.SIGINT)


def sbatch_options(texts: Sequence[str]) -> dict[str, Any]:
    """`partition=gpu` and `exclusive`, as sbatch has them without the dashes."""
    options: dict[str, Any] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not KEY.fullmatch(key) or not value.isprintable() or (equals and not value):
            raise ConfigError(f"--slurm is KEY=VALUE, or KEY, as sbatch has it (partition=gpu), not {text!r}")
        options[key] = value if equals else True
    return options


def _outcome(task: _Submitted, plan: Plan, out: Path) -> Outcome:
    file = TaskFile(out, task.name)
    said = file.read()
    seconds, node = time.time() - task.began, f"{said.get('host')}:{said.get('pid')}"
    if is_done(plan[task.name], plan.tests, out):
        return Outcome(task.name, True, None, seconds, task.number, node)
    if said.get("state") == "failed":
        error = str(said.get("error"))
    else:
        error = f"job {task.job} ended before it; see {out / 'slurm'}/{task.job}_0_log.err"
        file.set("failed", error)
    return Outcome(task.name, False, error, seconds, task.number, node)


def _read_jobs(out: Path) -> dict[str, str]:
    try:
        return {str(name): str(job) for name, job in read_json(out / "slurm" / "jobs.json").items()}
    except (RunError, AttributeError):
        return {}


def _lives(pid: int) -> bool:
    with suppress(psutil.Error):
        process = psutil.Process(pid)
        return process.status() != psutil.STATUS_ZOMBIE and "submitit" in " ".join(process.cmdline())
    return False


def _submitit() -> Any:
    try:
        return import_module("submitit")
    except ImportError as error:
        raise ConfigError("--backend slurm needs submitit; install it with pip install 'dsacc[slurm]'") from error
