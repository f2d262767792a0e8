"""A Slurm cluster, through submitit: one job per run. Slurm queues a job again when it is preempted or out of time.

submitit hands a job its task as a pickle in OUT/slurm, which the same user writes and reads. We read no pickle back:
OUT/tasks says as JSON how a run ended. Whoever may write to OUT can run programs as you, as with any job script.
"""

import getpass
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from dsacc.errors import ConfigError, DsaccError, RunError
from dsacc.experiments.backends.base import Attempt, Backend, Ending
from dsacc.experiments.backends.supervised import SupervisedTask
from dsacc.experiments.task import TaskFile, is_done
from dsacc.system.extras import how_to_install
from dsacc.system.files import json_or_empty, write_atomically
from dsacc.system.processes import is_alive

ASK = 30.0  # seconds between two questions to the scheduler
SAVING = 180  # seconds before its time limit at which a job is told to save; more than saving may take
REQUEUES = 1_000  # times that a job may continue after its time limit
KEY = re.compile(r"[a-z][a-z-]*")


class Job:
    """What submitit runs: one attempt. It calls `checkpoint` when Slurm wants the node back."""

    def __init__(self, out: str, name: str, device: str, modules: Sequence[str] = ()) -> None:
        self.out, self.name, self.device, self.modules = out, name, device, modules
        self._task: SupervisedTask | None = None

    def __call__(self) -> str | None:
        self._task = SupervisedTask(Path(self.out), self.name, self.device, self.modules)
        return self._task.perform().error

    def checkpoint(self) -> Any:
        """Have the run save, and queue the same job again. It continues from the run's folder."""
        if self._task is not None:
            self._task.stop()
        return _submitit().helpers.DelayedSubmission(Job(self.out, self.name, self.device, self.modules))


class OnSlurm(Backend):
    """Jobs of a Slurm cluster.

    `sbatch` holds options of sbatch as KEY=VALUE. `minutes` is a job's time limit, after which it is queued again. With
    `detach` the jobs are left alone once they are submitted. `executor="local"` tries it out without Slurm, with
    submitit's own processes on this machine. Slurm decides how many jobs run at once, whatever `workers` says.
    """

    def __init__(
        self,
        workers: int | None = None,
        device: str = "cpu",
        *,
        sbatch: Sequence[str] = (),
        minutes: int = 24 * 60,
        detach: bool = False,
        executor: str = "slurm",
    ) -> None:
        super().__init__(None, device)
        self.minutes, self.detach, self.cluster = minutes, detach, executor
        self.ask = ASK if executor == "slurm" else self.pause
        self.sbatch = sbatch_options(sbatch)
        self._missed: dict[str, int] = {}  # questions in a row to which the scheduler did not know a job
        if minutes < 5:
            raise ConfigError(f"--slurm-time must be at least 5 minutes, not {minutes}")
        _submitit()
        if executor == "slurm":
            for command in ("sbatch", "srun", "squeue"):
                if shutil.which(command) is None:
                    raise ConfigError(
                        f"--backend slurm needs the command {command}, which this machine does not have; log in to a "
                        "node of the Slurm cluster, or use --backend local or ray"
                    )

    @contextmanager
    def open(self, out: Path) -> Iterator[None]:
        """Nothing to connect to, and nothing is ended: jobs outlive this process."""
        self._asked = time.monotonic()
        yield

    def submit(self, attempt: Attempt) -> str:
        out = attempt.out.absolute()  # jobs may have another working directory
        try:
            job = Job(str(out), attempt.name, self.device, attempt.run.modules)
            submitted = self.submitit_executor(out, attempt.memory).submit(job)
        except Exception as error:  # sbatch refused; submitit raises its own and CalledProcessError
            said = " ".join(str(error).split())[-300:]
            raise DsaccError(f"Slurm does not accept the job of {attempt.name}: {said}") from error
        jobs = {**_read_jobs(out), attempt.name: str(submitted.job_id)}
        write_atomically(out / "slurm" / "jobs.json", (json.dumps(jobs, indent=1) + "\n").encode())
        return str(submitted.job_id)

    def submitit_executor(self, out: Path, memory: int) -> Any:
        """submitit's, with the resources of one run. A job has a single thread."""
        local = self.cluster != "slurm"
        how: dict[str, Any] = {} if local else {"slurm_max_num_timeout": REQUEUES}
        how[f"{self.cluster}_python"] = f"{shlex.quote(sys.executable)} -P"  # imports nothing from where it starts
        executor = _submitit().AutoExecutor(str(out / "slurm"), cluster=self.cluster, **how)
        one = {"nodes": 1, "tasks_per_node": 1, "cpus_per_task": 1}
        one |= {"gpus_per_node": 1} if self.device.startswith("cuda") else {}
        executor.update_parameters(name="dsacc", mem_gb=-(-memory // 2**30), timeout_min=self.minutes, **one)
        if not local:
            additional = {"requeue": True, **self.sbatch}
            executor.update_parameters(slurm_signal_delay_s=SAVING, slurm_additional_parameters=additional)
        return executor

    def stays(self, submitted: Sequence[str]) -> bool:
        print(f"Slurm jobs: {' '.join(submitted)}", file=sys.stderr, flush=True)
        return not self.detach

    def poll(self, running: Mapping[str, Attempt]) -> dict[str, Ending]:
        """A job has ended when its run's files say so, or when the scheduler does not know it any more."""
        ended = [job for job, a in running.items() if is_done(a.run, a.tests, a.out)]
        if time.monotonic() - self._asked > self.ask:
            self._asked = time.monotonic()
            ended += [job for job in self._gone(list(running)) if job not in ended]
        return {job: _ending(job, running[job]) for job in ended}

    def cancel(self, running: Sequence[str]) -> None:
        """Slurm first sends SIGTERM to a job's processes. A run then saves."""
        for job in running:
            with suppress(OSError, subprocess.SubprocessError):
                if self.cluster == "slurm":
                    subprocess.run(["scancel", job], capture_output=True, timeout=60)
                else:
                    os.kill(int(job), signal.SIGINT)

    def adopt(self, attempts: Sequence[Attempt]) -> dict[str, Attempt]:
        out = attempts[0].out.absolute()
        jobs = _read_jobs(out)
        before = {jobs[a.name]: a for a in attempts if a.name in jobs}
        known = self._known(list(before)) if before else set()
        if known is None:
            raise RunError(
                f"squeue does not say whether the jobs of {out / 'slurm' / 'jobs.json'} still run; try again later"
            )
        return {job: attempt for job, attempt in before.items() if job in known}

    def _gone(self, running: Sequence[str]) -> list[str]:
        """Jobs that the scheduler twice did not know: while a job is queued again, it may be missing for a moment."""
        known = self._known(running)
        for job in running:
            self._missed[job] = 0 if known is None or job in known else self._missed.get(job, 0) + 1
        return [job for job in running if self._missed[job] > 1]

    def _known(self, jobs: Sequence[str]) -> set[str] | None:
        """Which jobs are queued or running; None if the scheduler does not say."""
        if self.cluster != "slurm":
            return {job for job in jobs if is_alive(int(job), "submitit")}
        command = ["squeue", "--noheader", "--array", "--format=%i", f"--user={getpass.getuser()}"]
        try:
            said = subprocess.run(command, capture_output=True, text=True, timeout=60)
        except (OSError, subprocess.TimeoutExpired):
            return None
        return set(said.stdout.split()) if said.returncode == 0 else None


def sbatch_options(texts: Sequence[str]) -> dict[str, Any]:
    """Options of sbatch without their dashes: `partition=gpu`, or `exclusive`."""
    options: dict[str, Any] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not KEY.fullmatch(key) or not value.isprintable() or (equals and not value):
            raise ConfigError(
                f"--slurm takes an option of sbatch as KEY=VALUE (partition=gpu), or as KEY alone, not {text!r}"
            )
        options[key] = value if equals else True
    return options


def _ending(job: str, attempt: Attempt) -> Ending:
    file = TaskFile(attempt.out, attempt.name)
    said = file.read()
    node = f"{said.get('host')}:{said.get('pid')}"
    if is_done(attempt.run, attempt.tests, attempt.out):
        return Ending(None, node)
    if said.get("state") == "failed":
        return Ending(str(said.get("error")), node)
    log = attempt.out.absolute() / "slurm" / f"{job}_0_log.err"
    error = f"job {job} ended before its run did; see {log}"
    file.set("failed", error)
    return Ending(error, node)


def _read_jobs(out: Path) -> dict[str, str]:
    return {name: str(job) for name, job in json_or_empty(out / "slurm" / "jobs.json").items()}


def _submitit() -> Any:
    try:
        return import_module("submitit")
    except ImportError as error:
        raise ConfigError(f"--backend slurm needs submitit; `{how_to_install('slurm')}` installs it") from error
