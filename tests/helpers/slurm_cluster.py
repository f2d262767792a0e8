"""A Slurm of one node on loopback, with all its files in one folder and ports of its own.

It does not touch a Slurm that the machine may have: its own munge key and socket, its own configuration (SLURM_CONF).
Two partitions share the node. Jobs in `high` preempt those in `low`, which Slurm queues again.
"""

import getpass
import os
import secrets
import shutil
import signal
import socket
import subprocess
from contextlib import suppress
from pathlib import Path

import psutil
from helpers.watched import wait_until

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "squeue", "scancel", "scontrol")
PACKAGES = ("munge", "slurmctld", "slurmd", "slurm-client")
CPUS = 4  # that Slurm may give away, however many there are
# `cred_expire` is also how long a job waits before it is started again, which is two minutes by default.
CONFIGURATION = """
ClusterName=dsacc
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ctld_port}
SlurmdPort={slurmd_port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket,cred_expire=6
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
ReturnToService=2
SlurmdTimeout=15
SlurmdParameters=config_overrides
NodeName=loop NodeHostname={host} NodeAddr=127.0.0.1 CPUs={cpus} RealMemory=64000 State=UNKNOWN
PartitionName=low Nodes=loop Default=YES PriorityTier=1 PreemptMode=REQUEUE
PartitionName=high Nodes=loop PriorityTier=10 PreemptMode=OFF
"""


class NoSlurm(Exception):
    """Slurm is not installed and cannot be; the message is a sentence."""


def install() -> str:
    """Install what is missing, where we may. Returns Slurm's version."""
    os.environ["PATH"] += os.pathsep + "/usr/sbin"  # where the daemons are, for users who are not root too
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    if missing:
        if shutil.which("apt-get") is None or os.getuid() != 0:
            needed = " ".join(PACKAGES)
            raise NoSlurm(f"there is no {missing[0]}, and only root can install it, with apt-get; it takes {needed}")
        quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}  # starts no service
        for command in (["update", "-qq"], ["install", "-y", "-qq", "--no-install-recommends", *PACKAGES]):
            done = subprocess.run(["apt-get", *command], env=quiet, capture_output=True, text=True)
            if done.returncode != 0:
                said = " ".join(done.stderr.split())[-200:]
                raise NoSlurm(f"there is no {missing[0]}, and apt-get could not install Slurm: {said}")
    return subprocess.run(["slurmctld", "-V"], capture_output=True, text=True).stdout.strip()


class Cluster:
    """A running Slurm; used in a `with` block, which stops everything that it started."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.configuration = folder / "slurm.conf"
        self._daemons: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> "Cluster":
        try:
            self._configure()
            os.environ["SLURM_CONF"] = str(self.configuration)
            key, munge = self.folder / "munge.key", self.folder / "munge"
            paths = [f"--key-file={key}", f"--socket={munge}.socket", f"--pid-file={munge}.pid"]
            paths += [f"--log-file={munge}.log", f"--seed-file={munge}.seed"]
            self._start("munged", "--foreground", "--force", *paths)
            wait_until((self.folder / "munge.socket").exists, 20, "munged")
            self._start("slurmctld", "-D", "-c")
            self.start_node()
            wait_until(lambda: "idle" in self.ask("sinfo", "--noheader", "--format=%t"), 60, "the node")
        except BaseException:
            self.__exit__()
            raise
        return self

    def _configure(self) -> None:
        for name in ("state", "spool"):
            (self.folder / name).mkdir()
        (self.folder / "munge.key").touch(0o600)
        (self.folder / "munge.key").write_bytes(secrets.token_bytes(128))
        with socket.socket() as one, socket.socket() as two:
            one.bind(("127.0.0.1", 0))
            two.bind(("127.0.0.1", 0))
            ports = {"ctld_port": one.getsockname()[1], "slurmd_port": two.getsockname()[1]}
        here = {"host": socket.gethostname(), "user": getpass.getuser(), "folder": self.folder, "cpus": CPUS}
        self.configuration.write_text(CONFIGURATION.format(**here, **ports))

    def _start(self, name: str, *options: str) -> None:
        with open(self.folder / f"{name}.out", "ab") as out:
            command = [shutil.which(name) or name, *options]
            self._daemons[name] = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, cwd=self.folder, start_new_session=True
            )

    def start_node(self) -> None:
        self._start("slurmd", "-D", "-N", "loop")

    def ask(self, *command: str) -> str:
        return subprocess.run(command, capture_output=True, text=True, timeout=60).stdout.strip()

    def jobs(self, *options: str) -> list[str]:
        """The ids of the jobs that are queued, running or ending."""
        return self.ask("squeue", "--noheader", "--format=%i", *options).split()

    def preempt(self) -> None:
        """Take the node away from every job in `low`, for a moment."""
        cpus = CPUS - len(self.jobs("--partition=high", "--states=running"))
        asked = ("--partition=high", f"--cpus-per-task={cpus}", "--time=5", "--output=/dev/null")
        job = self.ask("sbatch", "--parsable", *asked, "--wrap=sleep 1")
        wait_until(lambda: job not in self.jobs(), 120, f"job {job}, which preempts the others")

    def lose_node(self) -> int:
        """Kill slurmd and all that runs on the node at once, as when its power fails. Returns how many processes."""
        lost = [psutil.Process(self._daemons["slurmd"].pid), *self._on_node()]
        for process in lost:
            with suppress(psutil.Error):
                process.kill()
        self._daemons.pop("slurmd").wait()
        return len(lost)

    def _on_node(self) -> list[psutil.Process]:
        """The processes of jobs, and Slurm's own that watch them: their folder is ours, or their SLURM_CONF."""
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                if process.name().startswith("slurmstepd"):
                    ours = process.cwd() == str(self.folder)  # as slurmd's
                else:
                    env = process.environ()
                    ours = "SLURM_JOB_ID" in env and env.get("SLURM_CONF") == str(self.configuration)
                if ours:
                    found.append(process)
        return found

    def __exit__(self, *_: object) -> None:
        """Cancel what is left, then end the daemons in order, and what they left behind."""
        if "slurmctld" in self._daemons:
            with suppress(OSError, subprocess.SubprocessError, TimeoutError):
                self.ask("scancel", f"--user={getpass.getuser()}")
                wait_until(lambda: not self.jobs(), 40, "the last jobs")
        for name in ("slurmd", "slurmctld", "munged"):
            if (daemon := self._daemons.pop(name, None)) is not None:
                daemon.terminate()
                with suppress(subprocess.TimeoutExpired):
                    daemon.wait(timeout=15)
                with suppress(ProcessLookupError):
                    os.killpg(daemon.pid, signal.SIGKILL)
                daemon.wait()
        for process in self._on_node():
            with suppress(psutil.Error):
                process.kill()
        os.environ.pop("SLURM_CONF", None)
