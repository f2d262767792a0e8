"""Ray as a user meets it: closed to others, nothing lost by a kill, and one failure stops no other run.

What happens when a node dies is shown by tests/robustness/cluster.py, which `make cluster-test` runs.
"""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
import pytest
from helpers.experiments import Here, contents
from helpers.grids import tiny_grid

pytest.importorskip("ray")

from dsacc.errors import ConfigError
from dsacc.experiments.backends.cluster import _judge, is_loopback
from dsacc.experiments.backends.supervised import wait_for_lost
from dsacc.experiments.driver import run_experiment
from dsacc.experiments.grids import load_plan
from dsacc.experiments.task import TaskFile, is_done, perform
from dsacc.runs.folder import versions
from dsacc.runs.lock import HEARTBEAT, STALE

GRID = tiny_grid(["dsac", "dsac-m"], 1000)
TIMES = ("timing.jsonl", "status.json", "lock")  # files with times or process ids


@pytest.fixture
def grid(tmp_path) -> str:
    (tmp_path / "grid.toml").write_text(GRID)
    return str(tmp_path / "grid.toml")


def start(grid: str, out: Path) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "dsacc", "experiment", grid, "--out", str(out)]
    command += ["--backend", "ray", "--address", "local", "--workers", "2"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_until(fact, seconds: float = 120.0) -> None:
    until = time.monotonic() + seconds
    while not fact():
        assert time.monotonic() < until
        time.sleep(0.05)


def family(pid: int) -> list[psutil.Process]:
    process = psutil.Process(pid)
    return [process, *process.children(recursive=True)]


def lives(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def saved(out: Path, names: list[str]) -> list[str]:
    """The checkpoints that are there, newest last."""
    return sorted(str(p) for name in names for p in (out / "runs" / name / "checkpoints").glob("step-*"))


def test_after_a_stop_a_kill_and_a_failing_run_the_other_ends_as_without_ray(grid, tmp_path):
    plan, out = load_plan(grid), tmp_path / "out"
    names = plan.names
    driver = start(grid, out)
    wait_until(lambda: saved(out, names))
    begun = [name for name in names if saved(out, [name])]
    listening = [c for p in family(driver.pid) for c in p.net_connections("inet") if c.status == psutil.CONN_LISTEN]
    assert listening
    assert {c.laddr.ip.removeprefix("::ffff:") for c in listening} == {"127.0.0.1"}
    driver.send_signal(signal.SIGTERM)
    said = driver.communicate(timeout=120)[1]
    assert driver.returncode == 128 + signal.SIGTERM, said
    assert said.splitlines()[-1] == "dsacc: stopped and saved; run the same command to continue"
    assert {TaskFile(out, name).read()["state"] for name in begun} == {"stopped"}

    before = saved(out, names)
    driver = start(grid, out)
    wait_until(lambda: saved(out, names) != before)
    training = [p for p in family(driver.pid) if "dsacc.experiments.task" in p.cmdline()]
    assert training
    driver.kill()
    driver.communicate()
    wait_until(lambda: not any(lives(p) for p in training), 30)

    bad = next(run.name for run in plan.runs if not is_done(run, plan.tests, out))
    good = next(name for name in names if name != bad)
    (out / "runs" / bad).mkdir(exist_ok=True)
    (out / "runs" / bad / "config.json").write_text("{}")  # nothing that the run could continue from
    driver = start(grid, out)
    said = driver.communicate(timeout=240)[1]
    assert driver.returncode == 1, said
    assert f"failed (tried 2 times): {bad}:" in said
    assert "1 of 2 runs failed" in said

    perform(plan[good], plan.tests, tmp_path / "here")
    ended, undisturbed = (folder / "runs" / good for folder in (out, tmp_path / "here"))
    for name in ["metrics.jsonl", *(f"evaluations/{path.name}" for path in undisturbed.glob("evaluations/*"))]:
        assert (ended / name).read_bytes() == (undisturbed / name).read_bytes()
    assert {row["run"] for row in json.loads((out / "results.json").read_text())} == {good}


def test_the_death_of_the_head_is_one_sentence_and_the_same_command_continues_on_a_new_cluster(grid, tmp_path):
    plan, out = load_plan(grid), tmp_path / "out"
    driver = start(grid, out)
    wait_until(lambda: len(saved(out, plan.names)) > 1)
    everything = family(driver.pid)
    (head,) = [p for p in everything if p.name() == "gcs_server"]
    head.kill()
    said = driver.communicate(timeout=120)[1]
    assert driver.returncode == 1, said
    first, *others, last = said.strip().splitlines()
    assert "2 runs, 0 done" in first
    assert all(" done in " in line for line in others), said  # runs that came to their end before anybody noticed
    assert re.fullmatch(
        r"dsacc: the head of the Ray cluster 127\.0\.0\.1:\d+ is lost: it has not answered for 20 s; what was saved is "
        r"kept, and the same command continues, on a new cluster if it starts its own, .*",
        last,
    )
    wait_until(lambda: not any(lives(p) for p in everything), 60)
    for name in plan.names:
        assert TaskFile(out, name).read()["state"] in ("stopped", "waiting", "done")  # saved, not only killed

    driver = start(grid, out)
    said = driver.communicate(timeout=240)[1]
    assert driver.returncode == 0, said
    run_experiment(plan, tmp_path / "here", Here(), print)
    assert contents(out / "runs", but=TIMES) == contents(tmp_path / "here" / "runs", but=TIMES)
    assert (out / "results.json").read_bytes() == (tmp_path / "here" / "results.json").read_bytes()


STRANGERS = """
import os, sys
kind, folder = sys.argv[1:]
os.environ.update(RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER="0", RAY_AUTH_MODE=kind, RAY_AUTH_TOKEN="0" * 64)
import pathlib, psutil, ray
from dsacc.errors import ConfigError
from dsacc.experiments.backends import cluster

ray.init(address="local", num_cpus=1, include_dashboard=False, logging_level="error", _temp_dir=folder)
context = ray.get_runtime_context()
address = context.gcs_address
assert cluster.is_loopback(address), address
cluster.check_nodes(ray, pathlib.Path(folder))
# A node that does not answer: everything of the cluster but its head stands still.
others = [p for p in psutil.Process().children(recursive=True) if p.name() != "gcs_server"]
for process in others:
    process.suspend()
cluster.PROBE = 1.0
try:
    cluster.check_nodes(ray, pathlib.Path(folder))
except ConfigError as error:
    print(error)
for process in others:
    process.resume()
# From here on as if it were elsewhere, and we had just connected.
ray.init, ray.shutdown, cluster.is_loopback = (lambda **_: context), (lambda: None), (lambda _: False)
for allowed in (False, True):
    try:
        with cluster.connected(address, None, allowed):
            print("used")
    except ConfigError as error:
        print(error)
"""


@pytest.mark.parametrize("kind", ["disabled", "token"])
def test_a_cluster_that_answers_without_a_token_is_refused(kind):
    """On this machine's loopback, so that no test opens a door."""
    with tempfile.TemporaryDirectory(prefix="dsacc-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        ended = subprocess.run(
            [sys.executable, "-c", STRANGERS, kind, folder],
            capture_output=True,
            text=True,
            timeout=240,
            env={**os.environ, "RAY_USAGE_STATS_ENABLED": "0"},
        )
    assert ended.returncode == 0, ended.stderr
    slow, refused, allowed = ended.stdout.strip().splitlines()
    assert "did not answer within" in slow
    assert allowed == "used"
    if kind == "token":
        assert refused == "used"
    else:
        assert "can be used by everybody who reaches it, without a token; start all its nodes with RAY_AUTH" in refused
        assert "--allow-open-cluster" in refused


@pytest.mark.parametrize(
    ("address", "is_own"),
    [
        ("127.0.0.1:6379", True),
        ("[::1]:6379", True),
        ("localhost:1", True),
        ("192.0.2.7:6379", False),
        ("head:1", False),
    ],
)
def test_loopback_addresses_are_this_machine_s_alone(address, is_own):
    assert is_loopback(address) is is_own


def test_a_node_without_the_folder_or_with_another_version_is_named(tmp_path):
    with pytest.raises(
        ConfigError, match=r"^node a \(192\.0\.2\.7\) of the Ray cluster does not see .*all nodes share$"
    ):
        _judge("a (192.0.2.7)", False, versions(), tmp_path)
    with pytest.raises(ConfigError, match=r"has dsacc 0\.0\.1, and this machine .*; install the same version on all"):
        _judge("a", True, {**versions(), "dsacc": "0.0.1"}, tmp_path)
    with pytest.warns(UserWarning, match=r"not be bit for bit as on this machine: torch 0\.1 there"):
        _judge("a", True, {**versions(), "torch": "0.1"}, tmp_path)
    _judge("a", True, versions(), tmp_path)


class Clock:
    """Time that passes when somebody sleeps; `beats` moves the holder's heartbeat along."""

    def __init__(self, folder: Path, host: str, silence: float, beats: bool = False) -> None:
        self.began = self.now = time.time()
        self.folder, self.host, self.beats = folder, host, beats
        self.write(self.now - silence)

    def write(self, heartbeat: float) -> None:
        holder = {"host": self.host, "pid": os.getpid(), "pid_started": psutil.Process().create_time()}
        holder |= {"started": "2026-01-01T00:00:00Z", "heartbeat": heartbeat}
        (self.folder / "lock").write_text(json.dumps(holder))

    def sleep(self, seconds: float) -> None:
        self.now += HEARTBEAT
        if self.beats:
            self.write(self.now)

    def waited(self) -> float:
        wait_for_lost(self.folder, clock=lambda: self.now, sleep=self.sleep)
        return self.now - self.began


def test_the_lock_of_a_lost_node_is_waited_for_until_it_counts_no_more(tmp_path, monkeypatch):
    wait_for_lost(tmp_path / "nothing")
    monkeypatch.setattr("dsacc.runs.lock.STALE", 1e9)  # real time does not pass here: it stays held
    assert STALE <= Clock(tmp_path, "elsewhere", 0.0).waited() <= STALE + 120
    assert Clock(tmp_path, "elsewhere", STALE - 60).waited() <= 180
    assert Clock(tmp_path, "elsewhere", 0.0, beats=True).waited() <= 240  # it lives: the run will say so
    assert Clock(tmp_path, socket.gethostname(), 0.0).waited() <= 90  # a child of a lost worker ends in seconds
    monkeypatch.setattr("dsacc.runs.lock.STALE", STALE)
    assert Clock(tmp_path, "elsewhere", STALE + 1).waited() == 0
