"""Experiments whose processes are killed, and what they leave: files and processes."""

import hashlib
import os
import random
import secrets
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import psutil

MARK = "DSACC_CRASH_MARK"  # a variable that all processes of one command inherit
GONE = 120.0  # seconds in which processes without a parent must have ended
RUNS, STEPS = 2, 400
GRID = f"""
envs = ["CartPole-v1", "dsacc/Catch-v0"]
agents = ["dsac-m"]
steps = {STEPS}
[settings]
random_steps = 40
hidden = 32
batch_size = 8
log_every = 40
checkpoint_every = 40
replay_size = 400
[tests]
episodes = 3
"""
WHOM = ["the command", "a run", "all at once"]
NOT_COMPARED = ("timing.jsonl", "status.json", "lock")


def contents(out: Path) -> dict[str, str]:
    """Every file of every run and the table of results, with its hash."""
    files = [p for p in (out / "runs").rglob("*") if p.is_file() and p.name not in NOT_COMPARED]
    files += [p for p in [out / "results.json"] if p.is_file()]
    return {str(p.relative_to(out)): hashlib.sha256(p.read_bytes()).hexdigest() for p in sorted(files)}


def start(folder: Path, out: Path, backend: str, mark: str = "") -> "subprocess.Popen[bytes]":
    """`dsacc experiment` as a user starts it, with its output in a file."""
    (folder / "grid.toml").write_text(GRID)
    words = ["experiment", str(folder / "grid.toml"), "--out", str(out), "--backend", backend, "--workers", "2"]
    words += ["--address", "local"] if backend == "ray" else []
    env = {**os.environ, MARK: mark or secrets.token_hex(8)}
    with open(folder / "said", "wb") as file:
        return subprocess.Popen(
            [sys.executable, "-m", "dsacc", *words], stdout=file, stderr=file, env=env, start_new_session=True
        )


def undisturbed(folder: Path, out: Path) -> None:
    assert start(folder, out, "local").wait() == 0, (folder / "said").read_text()


def disturb(folder: Path, out: Path, backend: str, rng: random.Random, kills: int, hows: list[str]) -> None:
    """Kill processes of the command up to so many times, call it again when it has ended, then let it finish. `hows` is
    told what was killed."""
    while len(hows) < kills:
        mark = secrets.token_hex(8)
        driver = start(folder, out, backend, mark)
        whom = rng.choice(WHOM + (["a process of Ray"] * 2 if backend == "ray" else []))
        _await_moment(driver, out, rng)
        if driver.poll() == 0:
            _wait_for_none(mark)
            break
        if _kill(driver, mark, whom, rng):
            hows.append(f"KILL of {whom} of {backend}")
        code = driver.wait(timeout=1800)
        assert code in (0, 1, -9), f"exit code {code} after a kill of {whom}: {_said(folder)}"
        assert "Traceback" not in _said(folder), _said(folder)
        _wait_for_none(mark)
    for _ in range(3):  # a run that was killed twice in one command counts as failed, and is tried again
        mark = secrets.token_hex(8)
        code = start(folder, out, backend, mark).wait(timeout=3600)
        _wait_for_none(mark)
        if code == 0:
            return
    raise AssertionError(f"it does not end: {_said(folder)}")


def _kill(driver: "subprocess.Popen[bytes]", mark: str, whom: str, rng: random.Random) -> bool:
    """Kill one process, or all. False if there was none of its kind."""
    others = [p for p in marked(mark) if p.pid != driver.pid]
    runs = [p for p in others if "dsacc.experiments.task" in _line(p)]
    rays = [p for p in others if p not in runs]
    chosen = {"the command": [], "all at once": others, "a run": rng.sample(runs, min(1, len(runs)))}
    victims = chosen.get(whom, rng.sample(rays, min(1, len(rays))))
    if whom in ("the command", "all at once"):
        victims = [psutil.Process(driver.pid), *victims] if driver.poll() is None else victims
    for process in victims:
        with suppress(psutil.Error):
            process.kill()
    return bool(victims)


def marked(mark: str) -> list[psutil.Process]:
    """Every process that inherited the mark, sorted by pid."""
    found, wanted = [], f"{MARK}={mark}".encode()
    for process in psutil.process_iter():
        with suppress(OSError, psutil.Error):
            if wanted in Path(f"/proc/{process.pid}/environ").read_bytes().split(b"\0"):
                found.append(process)
    return sorted(found, key=lambda process: process.pid)


def _wait_for_none(mark: str) -> None:
    until = time.monotonic() + GONE
    while left := marked(mark):
        assert time.monotonic() < until, f"processes are left behind: {[_line(p) for p in left]}"
        time.sleep(0.2)


def _await_moment(driver: "subprocess.Popen[bytes]", out: Path, rng: random.Random) -> None:
    """Wait until the runs are some way further than they were, and a moment longer; now and then for a start alone.

    How far they are is what counts, not time: a busy machine may need a minute for what takes seconds on a quiet one.
    """
    early, further, more = rng.random() < 0.2, rng.uniform(0.0, 0.4), rng.uniform(0.0, 0.3)
    goal = progress(out) + further
    until = time.monotonic() + (rng.uniform(0.0, 6.0) if early else 900.0)
    while driver.poll() is None and time.monotonic() < until and progress(out) < goal:
        time.sleep(0.02)
    with suppress(subprocess.TimeoutExpired):
        driver.wait(timeout=more)


def progress(out: Path) -> float:
    """The share of all steps that is in checkpoints."""
    newest: dict[Path, int] = {}
    for path in out.glob("runs/*/checkpoints/step-*"):
        newest[path.parent] = max(newest.get(path.parent, 0), int(path.name.removeprefix("step-")))
    return sum(newest.values()) / (RUNS * STEPS)


def _line(process: psutil.Process) -> str:
    with suppress(psutil.Error):
        return " ".join(process.cmdline())
    return ""


def _said(folder: Path) -> str:
    return (folder / "said").read_text(errors="replace")[-3000:]
