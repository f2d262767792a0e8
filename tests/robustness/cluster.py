"""A node of a Ray cluster dies in the middle of an experiment. The result must be that of an undisturbed one.

    python tests/robustness/cluster.py                 (also: make cluster-test)

The grid is performed by the local pool, and then on a Ray cluster of three nodes on this machine. As soon as a run on
one of them has a checkpoint, all processes of that node are killed at once. Then every file of every run (weights,
replay, metrics, evaluations) and the rows of the table are compared byte by byte.
"""

import argparse
import hashlib
import json
import os
import secrets
import shutil
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

os.environ.update(
    RAY_USAGE_STATS_ENABLED="0",
    RAY_AUTH_MODE="token",
    RAY_AUTH_TOKEN=secrets.token_hex(32),
    RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER="0",  # listen on 127.0.0.1 alone
    RAY_worker_niceness="0",
)
QUICK_TO_NOTICE = {  # how soon the cluster misses a node, in milliseconds and times
    "health_check_initial_delay_ms": 1000,
    "health_check_period_ms": 1000,
    "health_check_timeout_ms": 5000,
    "health_check_failure_threshold": 3,
}
NOT_COMPARED = ("timing.jsonl", "lock", "status.json")  # wall-clock and process ids


def contents(out: Path) -> dict[str, str]:
    """Every file of every run: its path and its hash."""
    files = (p for p in (out / "runs").rglob("*") if p.is_file() and p.name not in NOT_COMPARED)
    return {str(p.relative_to(out)): hashlib.sha256(p.read_bytes()).hexdigest() for p in sorted(files)}


class Killer(threading.Thread):
    """Waits until a run on the node has saved a checkpoint, then kills the node."""

    def __init__(self, cluster: Any, node: Any, out: Path) -> None:
        super().__init__(daemon=True)
        self.cluster, self.node, self.out = cluster, node, out
        self.victim: str | None = None  # the run that was on the node
        self.gone_after: float | None = None  # seconds from the kill until its process was gone

    def run(self) -> None:
        import psutil

        raylet = self.node.all_processes["raylet"][0].process.pid
        while self.victim is None:
            time.sleep(0.05)
            for file in (self.out / "tasks").glob("*.json"):
                with suppress(psutil.Error, OSError, ValueError, KeyError):
                    pid = json.loads(file.read_text())["pid"]
                    there = raylet in [p.pid for p in psutil.Process(pid).parents()]
                    if there and any((self.out / "runs" / file.stem / "checkpoints").glob("step-*")):
                        self.victim = file.stem
                        break
        began = time.monotonic()
        self.cluster.remove_node(self.node, allow_graceful=False)
        while psutil.pid_exists(pid) and time.monotonic() < began + 60:
            time.sleep(0.05)
        self.gone_after = time.monotonic() - began


def three_nodes(temp: str) -> Any:
    """A cluster with all its files in `temp`. That must be a short path: a socket's path has at most 107 bytes."""
    os.environ["RAY_TMPDIR"] = temp
    (Path(temp) / "ray").mkdir()
    from ray.cluster_utils import Cluster

    common = {"num_cpus": 1, "object_store_memory": 80_000_000, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args={**common, "_system_config": QUICK_TO_NOTICE})
    for _ in range(2):
        cluster.add_node(**common)
    return cluster


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--grid", default="smoke", help="a built-in grid or a .toml file (default: smoke)")
    parser.add_argument("--out", type=Path, help="folder for the results (default: a temporary one)")
    args = parser.parse_args()

    from dsacc.experiments.backends.local import Local
    from dsacc.experiments.backends.ray import OnRay
    from dsacc.experiments.driver import run_experiment
    from dsacc.experiments.grids import load_plan
    from dsacc.experiments.taken import in_words, times
    from dsacc.experiments.task import TaskFile

    plan = load_plan(args.grid)
    temp = tempfile.mkdtemp(prefix="dsacc-", dir="/tmp")
    out = args.out or Path(temp) / "out"
    say = print
    try:
        began = time.monotonic()
        undisturbed = run_experiment(plan, out / "local", Local(), say)
        say(f"undisturbed, local: {time.monotonic() - began:.0f} s")
        began = time.monotonic()
        cluster = three_nodes(temp)
        say(f"three nodes started: {time.monotonic() - began:.0f} s")
        killer = Killer(cluster, next(iter(cluster.worker_nodes)), out / "ray")
        try:
            began = time.monotonic()
            killer.start()
            rows = run_experiment(plan, out / "ray", OnRay(address=cluster.address), say, retries=0)
            say(f"one node killed, ray: {time.monotonic() - began:.0f} s")
        finally:
            cluster.shutdown()
        if killer.victim is None or killer.gone_after is None:
            say("no run was on the node that was to be killed, so nothing was tested; try again")
            return 1
        said = TaskFile(out / "ray", killer.victim).read()
        attempts, taken = said["attempts"], times(said)
        say(f"killed the node of {killer.victim}: its process was gone after {killer.gone_after:.1f} s")
        say(f"that run was started {attempts} times: {in_words(taken)}")
        same_rows, before, after = rows == undisturbed, contents(out / "local"), contents(out / "ray")
        different = sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
        say(f"rows equal: {same_rows}; {len(before)} files compared, {len(different)} different {different[:5]}")
        return 0 if same_rows and not different and attempts > 1 and "lost with its node" in taken else 1
    finally:
        shutil.rmtree(temp, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
