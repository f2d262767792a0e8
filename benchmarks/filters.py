"""What a picture filter costs: ms per frame, and a training step with it beside one without it.

Two trainings of Breakout with the preset `efficient`, one of them through the filter, take turns of 20 steps. The ratio
is that of the medians. Run with `python benchmarks/filters.py`.
"""

import argparse
import statistics
import time

import numpy as np
from steps import GAME, TURN, in_turns, make_trainer

from dsacc import make_env
from dsacc.envs.filters import FILTERS, filtered
from dsacc.system.memory import keep_freed_memory
from dsacc.system.threads import use_one_thread


def frame_ms(name: str, repeats: int) -> float:
    """The median over calls for one stack of real frames, per frame."""
    env = make_env(GAME)
    env.reset(seed=0)
    stack = np.asarray(env.step(1)[0])[None]
    env.close()
    taken = []
    for _ in range(repeats):
        began = time.perf_counter()
        filtered(stack, name)
        taken.append((time.perf_counter() - began) / stack.shape[1])
    return 1000 * statistics.median(taken)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=60, help=f"turns of {TURN} steps (default: 60)")
    args = parser.parse_args()
    use_one_thread()
    keep_freed_memory()
    trainers = {name: make_trainer({"preset": "efficient", "picture_filter": name}) for name in ("none", *FILTERS)}
    steps = in_turns(trainers, args.turns)
    for name in FILTERS:
        ratio = steps[name] / steps["none"]
        frame = f"{frame_ms(name, 2_000):.3f} ms per frame"
        print(f"{name}: {frame}; a training step {steps[name]:.1f} ms, without it {steps['none']:.1f} ms: {ratio:.3f}")


if __name__ == "__main__":
    main()
