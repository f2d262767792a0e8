"""A Slurm cluster, through submitit: one job per run. A job that is preempted or out of time is queued again.

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
from pathlib import Path
from typing import Any

from dsacc.errors import ConfigError, DsaccError, RunError
from dsacc.experiments.backends.base import Attempt, Backend, Ending
from dsacc.experiments.backends.process import PATIENCE
from dsacc.experiments.backends.slurm_job import Job, facts_of, log_of, submitit, why_gone
from dsacc.experiments.taken import Why, times
from dsacc.experiments.task import TaskFile, is_done
from dsacc.system.files import json_or_empty, write_atomically
from dsacc.system.processes import is_alive

ASK = 30.0  # seconds between two questions to the scheduler
SAVING = 180  # seconds before its time limit at which a job is told to save; more than saving may take
REQUEUES = 1_000  # times that a job may continue after its time limit
FAULTS = {"CANCELLED": "was cancelled", "OUT_OF_MEMORY": "ran out of the memory that it asked for"}  # by Slurm's state
KEY = re.compile(r"[a-z][a-z-]*")


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
        self._taken: dict[str, int] = {}  # how often a job's run had been taken away when it was last looked at
        if minutes < 5:
            raise ConfigError(f"--slurm-time must be at least 5 minutes, not {minutes}")
        submitit()
        if executor == "slurm":
            for command in ("sbatch", "srun", "squeue", "scontrol"):
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
        executor = submitit().AutoExecutor(str(out / "slurm"), cluster=self.cluster, **how)
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
        """A job has ended when its run's files say so, or when the scheduler does not know it any more. One that was
        taken away and queued again says so in its run's file."""
        endings = {job: _queued_again(a) for job, a in running.items() if self._is_taken_again(job, a)}
        ended = [job for job, a in running.items() if is_done(a.run, a.tests, a.out)]
        if time.monotonic() - self._asked > self.ask:
            self._asked = time.monotonic()
            ended += [job for job in self._gone(list(running)) if job not in ended]
        return endings | {job: self._ending(job, running[job]) for job in ended}

    def _is_taken_again(self, job: str, attempt: Attempt) -> bool:
        """Whether the job has noted more often than before that it was taken away. The first call only counts."""
        count = sum(times(TaskFile(attempt.out, attempt.name).read()).values())
        before, self._taken[job] = self._taken.get(job, count), count
        return count > before

    def _ending(self, job: str, attempt: Attempt) -> Ending:
        """How an attempt ended whose job is over: a job whose run waits was taken away, and nobody queued it again."""
        file = TaskFile(attempt.out, attempt.name)
        said = file.read()
        if is_done(attempt.run, attempt.tests, attempt.out):
            return Ending(None, _node(said))
        if said.get("state") == "failed":
            return Ending(str(said.get("error")), _node(said))
        facts = facts_of(job) if self.cluster == "slurm" else {}
        blame = FAULTS.get(facts.get("JobState", ""))
        noted = said.get("last") if said.get("state") == "waiting" else None
        unknown: Why | None = "stopped from outside" if said.get("state") == "stopped" else None
        if blame is None and (why := noted or why_gone(facts) or unknown) is not None:
            if noted is None:
                file.take_away(why)
            return Ending(None, _node(said), None, why)
        log = log_of(attempt.out.absolute(), job)
        error = f"job {job} {blame or 'ended before its run did'}; see {log}"
        file.set("failed", error)
        return Ending(error, _node(said))

    def cancel(self, running: Sequence[str]) -> None:
        """Slurm first sends SIGTERM to a job's processes. A run then saves, and this waits for it."""
        for job in running:
            with suppress(OSError, subprocess.SubprocessError):
                if self.cluster == "slurm":
                    subprocess.run(["scancel", job], capture_output=True, timeout=60)
                else:
                    os.kill(int(job), signal.SIGINT)
        until = time.monotonic() + PATIENCE
        while running and self._known(running) and time.monotonic() < until:
            time.sleep(self.pause)

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
        return set(said.stdout.split()) & set(jobs) if said.returncode == 0 else None


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


def _queued_again(attempt: Attempt) -> Ending:
    """The ending of an attempt that noted itself why it was taken away, and whose job is queued again."""
    said = TaskFile(attempt.out, attempt.name).read()
    return Ending(None, _node(said), None, said.get("last"), again=True)


def _node(said: Mapping[str, Any]) -> str:
    return f"{said.get('host')}:{said.get('pid')}"


def _read_jobs(out: Path) -> dict[str, str]:
    return {name: str(job) for name, job in json_or_empty(out / "slurm" / "jobs.json").items()}
