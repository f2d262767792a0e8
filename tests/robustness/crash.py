"""Kill training and hardening with `kill -9` at random moments, inside saves and during continuations; every run must
end the same.

    python tests/robustness/crash.py --kills 60        (also: make crash-test)

For each job one run is left alone. Others, with the same command, are killed several times, called again each time,
and compared with it by hash when they finish: weights, optimisers, replay, trainer, metrics. A kill counts as one
inside a save only if it left a half-written file behind.
"""

import argparse
import functools
import hashlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

HARDEN = "harden"  # in place of an agent: a student of an agent that has not learned anything
JOBS = [
    ("Breakout", "dsac"),
    ("Breakout", "dsac-m"),
    ("dsacc/Catch-v0", HARDEN),
    ("Breakout", "dsac-v"),
    ("dsacc/Catch-v0", "dsac-m"),
]
SETTINGS = {
    "steps": 600,
    "random-steps": 80,
    "batch-size": 8,
    "hidden": 256,
    "log-every": 50,
    "checkpoint-every": 60,
    "replay-size": 400,
}
KILLS_A_RUN = 5
MOMENTS = ("inside a save", "any moment", "inside a save", "a continuation")  # a save is short, and may be missed


@dataclass(frozen=True)
class Kill:
    """One kill: when it was meant to come, and what it hit."""

    moment: str
    hit_save: bool
    found: str  # what the run said when it was called again


def command(env: str, agent: str, out: Path) -> list[str]:
    if agent == HARDEN:
        options = ["--updates", "360", "--states", "500", "--checkpoint-every", "40", "--env", env]
        return [sys.executable, "-m", "dsacc", "harden", teacher(env), "--out", str(out), *options]
    options = [word for name, value in SETTINGS.items() for word in (f"--{name}", str(value))]
    return [sys.executable, "-m", "dsacc", "train", env, "--agent", agent, "--out", str(out), *options]


@functools.cache
def teacher(env: str) -> str:
    """The file of an agent as it is before its first step; the same in every process."""
    from dsacc import DSAC

    path = Path(tempfile.gettempdir()) / f"dsacc-crash-teacher-{os.getpid()}"
    return str(DSAC(env, "mean", picture_filter="high-pass", hidden=32).save(path))


TEXTS = ("manifest.json", "metrics.jsonl", "episodes.jsonl")


def fingerprint(run: Path) -> dict[str, str]:
    """Hashes of all that must be equal: every safetensors file by name, manifests, metrics and episodes."""
    files = [p for p in run.rglob("*") if p.suffix == ".safetensors" or p.name in TEXTS]
    return {str(p.relative_to(run)): hashlib.sha256(p.read_bytes()).hexdigest() for p in sorted(files)}


def half_written(run: Path) -> set[str]:
    """Names that exist only while something is being saved."""
    found = set()
    for folder in (run / "checkpoints", run / "replay"):
        try:
            found |= {entry.name for entry in os.scandir(folder) if entry.name.endswith(".tmp")}
        except OSError:
            continue
    return found


def kill_once(line: list[str], run: Path, moment: str, rng: random.Random) -> Kill | None:
    """Start the run and kill it; None where it finished first."""
    before = half_written(run)
    process = subprocess.Popen(line, stderr=subprocess.PIPE, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"})
    assert process.stderr is not None
    found = process.stderr.readline().strip()  # the first line says what it found; imports are over by then
    if moment == "a continuation":
        time.sleep(rng.uniform(0.0, 0.15))
    else:
        time.sleep(rng.uniform(0.05, 2.5))
    if moment == "inside a save":
        patience = time.monotonic() + 5
        while process.poll() is None and time.monotonic() < patience and half_written(run) <= before:
            pass  # a save takes some hundredths of a second
    process.send_signal(signal.SIGKILL)
    process.communicate()
    if process.returncode == 0:
        return None
    assert process.returncode == -signal.SIGKILL, f"exit code {process.returncode}: {found}"
    return Kill(moment, bool(half_written(run) - before), found)


def disturbed_run(env: str, agent: str, run: Path, seed: int, wanted: int, first: int) -> list[Kill]:
    """Kill `wanted` times, or until it finishes, then let it end."""
    rng, line, kills = random.Random(seed), command(env, agent, run), []
    for k in range(wanted):
        kill = kill_once(line, run, MOMENTS[(first + k) % len(MOMENTS)], rng)
        if kill is None:
            break
        kills.append(kill)
    done = subprocess.run(line, capture_output=True, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"})
    assert done.returncode == 0, done.stderr
    return kills


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=60, help="kills in all (default: 60)")
    parser.add_argument("--seed", type=int, default=0, help="of the moments (default: 0)")
    parser.add_argument("--jobs", type=int, default=2, help="runs side by side (default: 2)")
    parser.add_argument("--only", default="", help="only environments whose name contains this")
    args = parser.parse_args()
    jobs = [job for job in JOBS if args.only in job[0]]
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(args.jobs) as pool:
        wholes = {job: Path(folder) / f"whole-{i}" for i, job in enumerate(jobs)}
        for done in pool.map(lambda j: subprocess.run(command(*j, wholes[j]), capture_output=True), jobs):
            assert done.returncode == 0, done.stderr.decode()
        kills, equal, hit, continued, number, failed = 0, 0, 0, 0, 0, False
        while kills < args.kills and not failed:
            batch = []
            for _ in range(args.jobs):
                job, run = jobs[number % len(jobs)], Path(folder) / f"run-{number}"
                wanted = min(KILLS_A_RUN, args.kills - kills)
                batch.append((job, run, pool.submit(disturbed_run, *job, run, args.seed + number, wanted, number)))
                number += 1
            for job, run, future in batch:
                done = future.result()
                same = fingerprint(run) == fingerprint(wholes[job])
                failed |= not same
                kills += len(done)
                equal += len(done) if same else 0
                hit += sum(k.hit_save for k in done)
                continued += sum(k.moment == "a continuation" and "continues from" in k.found for k in done)
                moments = ", ".join(k.moment + (" (half-written file left)" if k.hit_save else "") for k in done)
                print(f"{'equal' if same else 'DIFFERENT'}: {job[0]} {job[1]}, killed {len(done)} times: {moments}")
                if not same:
                    a, b = fingerprint(run), fingerprint(wholes[job])
                    print("  differs in", sorted(n for n in a.keys() | b.keys() if a.get(n) != b.get(n)))
    print(f"{equal} of {kills} kills ended in the same run; {hit} hit a save, {continued} a continuation")
    return 0 if equal == kills else 1


if __name__ == "__main__":
    sys.exit(main())
