"""A real Slurm takes runs away, in every way that it has. The result must be that of a plain run.

    python tests/robustness/slurm.py                 (also: make slurm-test)

It installs Slurm where it is missing (apt-get, as root), starts one of its own on loopback, in a temporary folder, and
runs a small grid through `dsacc experiment --backend slurm --retries 0`:

- one run is preempted in training, in a save and in a test, and then loses its node;
- one is warned before its time limit, another hits the limit without a warning;
- a command is stopped with Ctrl-C, continued with --detach, and collected.

A run is frozen until Slurm has signalled it, so that each moment is met on a slow and on a quick machine. Every file of
every run is compared with a plain local run, byte by byte. All that was started is stopped, also after a failure.
"""

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from helpers.experiments import contents
from helpers.slurm_cluster import Cluster, NoSlurm, install
from helpers.watched import PATIENCE, Command, Watched, say, wait_until

from dsacc.system.files import json_or_empty

GRID = """
envs = ["dsacc/Catch-v0"]
agents = ["dsac", "dsac-m"]
steps = 500
preset = "efficient"
[settings]
random_steps = 100
replay_size = 2_000
batch_size = 16
encoder = "small"
hidden = 32
log_every = 100
checkpoint_every = 100
[tests]
shifts = ["id", "snow", "rain", "fog"]
episodes = 10
"""
NOT_COMPARED = ("timing.jsonl", "lock", "status.json")  # wall-clock and process ids
failures: list[str] = []


def check(fact: bool, what: str) -> None:
    """Print what was shown, or that it was not."""
    say(f"{'shown' if fact else 'NOT SHOWN'}: {what}")
    if not fact:
        failures.append(what)


class Trial:
    """The scenarios, with what they share: the cluster, the grid, the plain runs, and the commands to end."""

    def __init__(self, cluster: Cluster, temp: Path, stack: ExitStack) -> None:
        self.cluster, self.temp, self.stack = cluster, temp, stack
        self.grid = temp / "grid.toml"
        self.grid.write_text(GRID)
        self.names: list[str] = []

    def command(self, title: str, folder: str, *options: str) -> Command:
        command = Command(title, self.grid, self.temp / folder, *options)
        self.stack.callback(command.end)
        return command

    def slurm(self, title: str, *options: str, partition: str = "low") -> Command:
        where = ("--backend", "slurm", "--slurm", f"partition={partition}")
        return self.command(title, title, *where, "--retries", "0", *options)

    def plain(self) -> None:
        check(self.command("plain", "plain").wait() == 0, "the grid runs on the local pool")
        self.names = sorted(path.name for path in (self.temp / "plain" / "runs").iterdir())

    def watch(self, command: Command, agent: str) -> Watched:
        return Watched(command.out, next(name for name in self.names if f"-{agent}-s" in name))

    def compare(self, command: Command, agents: str) -> None:
        """Whether the command ended well, and each file of its runs is that of the plain run."""
        code = command.wait()
        check(code == 0, f"{command.title}: exit code {code} with --retries 0")
        runs = [self.watch(command, agent).name for agent in agents.split()]
        plain, found = (
            {name: contents(folder / "runs" / name, but=NOT_COMPARED) for name in runs}
            for folder in (self.temp / "plain", command.out)
        )
        different = [f"{n}/{f}" for n in runs for f in plain[n].keys() | found[n].keys()
                     if plain[n].get(f) != found[n].get(f)]  # fmt: skip
        files = sum(len(files) for files in plain.values())
        check(not different, f"{command.title}: {files} files compared, {len(different)} different {different[:5]}")

    # --- what Slurm does to runs ---

    def disturbed(self) -> None:
        """Three commands side by side: preemptions, a warning before the time limit, the time limit itself."""
        preempted = self.slurm("preempt")
        warned = self.slurm("warned", "--agents", "dsac", partition="high")
        limited = self.slurm("limited", "--agents", "dsac-m", "--slurm", "time=1", "--slurm", "signal=USR2@0",
                             partition="high")  # fmt: skip
        slow = self.watch(limited, "dsac-m")
        slow.freeze(slow.trains, "training")
        say(f"limited: {slow.name} is frozen until its minute is over, and Slurm gives no warning")
        soon = self.watch(warned, "dsac")
        soon.freeze(soon.trains, "training")
        minutes = int(time.time() - soon.file.read()["began"]) // 60 + 3
        self.limit(soon, minutes)
        say(f"warned: {soon.name} now has less than three minutes left, so that Slurm warns it (USR2)")
        victim = self.watch(preempted, "dsac")
        for count, (moment, what) in enumerate(
            ((victim.trains, "in training"), (victim.saves, "in a save"), (victim.tests, "in a test")), start=1
        ):
            victim.freeze(moment, what)
            for run in (soon, slow) if count == 1 else ():  # Slurm looks at time limits every half minute
                run.wait_taken("out of time", 1)
                self.limit(run, 60)
            self.cluster.preempt()
            victim.wait_taken("preempted", count)
            say(f"preempt: {victim.name} was preempted {what}")
        status = [sys.executable, "-m", "dsacc", "status", str(preempted.out)]
        shown = subprocess.run(status, capture_output=True, text=True, env={**os.environ, "COLUMNS": "100"}).stdout
        check("preempted 3 times" in shown, f"dsacc status: {re.findall('.*preempted.*', shown)}")
        victim.freeze(victim.tests, "in a test again")
        say(f"the node dies with {self.cluster.lose_node()} processes, and is started again")
        self.cluster.start_node()
        for command, agents in ((preempted, "dsac dsac-m"), (warned, "dsac"), (limited, "dsac-m")):
            self.compare(command, agents)
        check(
            victim.taken() == {"preempted": 3, "lost with its node": 1}
            and preempted.said("was preempted and will continue (so far: preempted 2 times)")
            and preempted.said("(preempted 3 times, lost with its node once)"),
            f"{victim.name}: {victim.taken()}, as the command said",
        )
        logs = [(command.out / "slurm").glob("*.err") for command in (warned, limited)]
        said = ["".join(path.read_text() for path in found) for found in logs]
        check("signal SIGUSR2" in said[0] and "TIME LIMIT" not in said[0], "warned: by USR2, before its time was up")
        check("DUE TO TIME LIMIT" in said[1], "limited: by Slurm, when its time was up")
        for run, command in ((soon, warned), (slow, limited)):
            noted = "out of time" in run.taken() and command.said("done in") and command.said("(out of time ")
            check(noted, f"{command.title}: {run.taken()}, as the command said")

    def limit(self, run: Watched, minutes: int) -> None:
        """Change the time limit of a run's job."""
        job = json_or_empty(run.out / "slurm" / "jobs.json")[run.name]
        self.cluster.ask("scontrol", "update", f"JobId={job}", f"TimeLimit={minutes}")

    def detached(self) -> None:
        """Ctrl-C, then --detach, a preemption while nobody waits, and the results."""
        first = self.slurm("detached")
        runs = [self.watch(first, agent) for agent in ("dsac", "dsac-m")]
        runs[0].freeze(runs[0].trains, "training")
        first.process.send_signal(signal.SIGINT)
        code = first.wait()
        check(code == 130 and not self.cluster.jobs(), f"Ctrl-C: exit code {code}, and no job is left")
        check(runs[0].file.read()["state"] == "stopped" and not runs[0].taken(), "Ctrl-C: the run saved")
        second = self.slurm("detached", "--detach")
        check(second.wait() == 0 and second.said("Slurm jobs:"), "--detach submits and leaves")
        runs[1].freeze(runs[1].trains, "training")
        self.cluster.preempt()
        wait_until(lambda: not self.cluster.jobs(), PATIENCE, "the jobs to end")
        check(runs[1].taken() == {"preempted": 1}, "a run was preempted while nobody waited")
        self.compare(self.slurm("detached"), "dsac dsac-m")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keep", action="store_true", help="keep the folder with all results and logs")
    args = parser.parse_args()
    try:
        say(f"Slurm: {install()}")
    except NoSlurm as error:
        say(f"the Slurm test cannot run: {error}")
        return 1
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that everything is stopped then, too
    began, temp = time.monotonic(), Path(tempfile.mkdtemp(prefix="dsacc-slurm-", dir="/tmp"))
    try:
        with ExitStack() as stack:
            trial = Trial(stack.enter_context(Cluster(temp)), temp, stack)
            say(f"munged, slurmctld and slurmd run in {temp}")
            try:
                trial.plain()
                trial.disturbed()
                trial.detached()
            finally:  # a second Ctrl-C must not leave daemons behind
                for signum in (signal.SIGINT, signal.SIGTERM):
                    signal.signal(signum, signal.SIG_IGN)
    except (TimeoutError, subprocess.TimeoutExpired) as error:
        check(False, str(error))
    finally:
        if args.keep:
            say(f"kept: {temp}")
        else:
            shutil.rmtree(temp, ignore_errors=True)
    say(f"{time.monotonic() - began:.0f} s")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
