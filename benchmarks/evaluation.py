"""How long does the paper's test of one Breakout agent take, and what share has each part?

    python benchmarks/evaluation.py [--run FOLDER] [--oracle PYTHON]

Four conditions, ten games each, one thread. With `--oracle` (a Python that has imgaug; `make bench-evaluation` brings
one) the plain way (one Gymnasium environment, imgaug on every frame, a batch of one) plays the same conditions in turn
with ours, in the same run. Games differ in length between the two, so the ratio is that of milliseconds a step.
"""

import argparse
import json
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import torch

from dsacc import DSAC, evaluate
from dsacc.envs import atari
from dsacc.play.adapters import OwnPlayer
from dsacc.shifts.schedule import Schedule

CONDITIONS = ("id", "snow", "rain", "fog")
EPISODES, SEED = 10, 0


class Parts:
    """Seconds spent in each of some methods, by part."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def watch(self, owner: Any, method: str, part: str) -> None:
        inner: Callable[..., Any] = getattr(owner, method)

        def timed(*args: Any, **kwargs: Any) -> Any:
            began = time.perf_counter()
            try:
                return inner(*args, **kwargs)
            finally:
                self.seconds[part] = self.seconds.get(part, 0.0) + time.perf_counter() - began

        setattr(owner, method, timed)


def trained(path: Path) -> Path:
    """A short run, as an agent to test; what it has learned does not matter here."""
    if not (path / "config.json").is_file():
        DSAC("Breakout", "mean", "efficient", random_steps=500).learn(1_500, out=path, progress_bar=True)
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", type=Path, default=Path("runs/bench-evaluation"))
    parser.add_argument("--oracle", help="a Python with imgaug, ale-py and torch")
    args = parser.parse_args()
    torch.set_num_threads(1)
    cv2.setNumThreads(1)
    run = trained(args.run)
    model = DSAC.load(run)
    plain = None
    if args.oracle:
        source = str(Path(__file__).resolve().parents[1] / "src")
        plain = subprocess.Popen(
            [args.oracle, str(Path(__file__).with_name("evaluation_plain.py"))],
            env={**os.environ, "PYTHONPATH": source, "OMP_NUM_THREADS": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
    print(
        f"{'condition':10} {'plain: s':>9} {'steps':>7} {'ms/step':>8} {'ours: s':>9} {'steps':>7} {'ms/step':>8} ratio"
    )
    totals = [0.0, 0, 0.0, 0]
    for shift in CONDITIONS:
        theirs = {"seconds": float("nan"), "steps": 1}
        if plain is not None:
            order = {"run": str(run), "env": "Breakout", "shift": shift, "episodes": EPISODES, "seed": SEED}
            print(json.dumps(order), file=plain.stdin, flush=True)
            theirs = json.loads(plain.stdout.readline())
        began = time.perf_counter()
        (row,) = evaluate(model, shifts=[shift], episodes=EPISODES, seed=SEED)
        seconds, steps = time.perf_counter() - began, sum(row["lengths"])
        report(shift, theirs["seconds"], theirs["steps"], seconds, steps)
        totals = [a + b for a, b in zip(totals, (theirs["seconds"], theirs["steps"], seconds, steps), strict=True)]
    report("one by one", *totals)

    parts = Parts()
    parts.watch(atari, "_emulator", "starting it")
    parts.watch(atari.Atari, "_hold", "emulator")
    parts.watch(atari, "to_grey", "grey, 84x84")
    parts.watch(OwnPlayer, "act", "network")
    parts.watch(Schedule, "apply", "shift")
    began = time.perf_counter()
    rows = evaluate(model, shifts=CONDITIONS, episodes=EPISODES, seed=SEED)
    seconds, steps = time.perf_counter() - began, sum(sum(row["lengths"]) for row in rows)
    report("together", totals[0], totals[1], seconds, steps)
    parts.seconds["the rest"] = seconds - sum(parts.seconds.values())
    for part, spent in parts.seconds.items():
        print(f"  {part:12} {spent:6.2f} s {100 * spent / seconds:5.1f} %")


def report(name: str, plain: float, plain_steps: float, ours: float, steps: float) -> None:
    a, b = 1e3 * plain / plain_steps, 1e3 * ours / steps
    print(f"{name:10} {plain:9.1f} {plain_steps:7,.0f} {a:8.2f} {ours:9.1f} {steps:7,.0f} {b:8.2f} {a / b:5.1f}")


if __name__ == "__main__":
    main()
