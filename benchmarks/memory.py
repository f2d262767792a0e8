"""Memory of a replay of 1,000,000 Atari steps, plain and compressed, and what compression costs.

Each row is a process of its own, whose peak resident size is reported as the operating system saw it. Pictures are real
ones, of 20,000 random steps of the game, repeated until the replay is full. Run with `make bench-memory` (10 minutes);
`--games Breakout` is shorter.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

GAMES = ["Breakout", "Alien", "Amidar", "BattleZone", "BeamRider", "CrazyClimber", "MsPacman", "Seaquest", "UpNDown"]
PLAYED, BATCH = 20_000, 64


def fill(game: str, compression: str, steps: int) -> dict[str, Any]:
    """Fill a replay and measure; called in a process of its own."""
    import dsacc.training.loop  # noqa: F401 - torch and all that a run loads, so that the resident size is a run's
    from dsacc.envs import Observations, make_env
    from dsacc.replay import Replay
    from dsacc.system.memory import resident_memory

    env, rng = make_env(game), np.random.default_rng(0)
    replay = Replay(steps, Observations(env.observation_space).spec, 1, stack=4, compression=compression)
    pictures, starts = [], []
    seen, start = env.reset(seed=0)[0], True
    while len(pictures) < min(PLAYED, steps):
        pictures.append(seen[-1])
        starts.append(start)
        seen, _, terminated, truncated, _ = env.step(int(rng.integers(env.action_space.n)))
        start = terminated or truncated
        if start:
            seen = env.reset()[0]
    before = resident_memory()
    adding = 0.0
    stack = np.repeat(pictures[0][None], 4, axis=0)
    for i in range(steps):
        k = i % len(pictures)
        end = k + 1 == len(pictures) or starts[k + 1]
        stack = np.repeat(pictures[k][None], 4, axis=0) if starts[k] else np.concatenate([stack[1:], pictures[k][None]])
        began = time.perf_counter()
        replay.add(stack, 0, 0.0, end, False, stack)
        adding += time.perf_counter() - began
    after = resident_memory()
    times = []
    for _ in range(50):
        began = time.perf_counter()
        replay.sample(BATCH, rng)
        times.append(time.perf_counter() - began)
    return {
        "arrays": replay.nbytes,
        "grown": after - before,
        "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "add_us": 1e6 * adding / steps,
        "sample_ms": 1e3 * float(np.median(times)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--games", nargs="+", default=GAMES, help="games (default: the paper's nine)")
    parser.add_argument("--steps", type=int, default=1_000_000, help="steps stored (default: 1000000)")
    parser.add_argument("--fill", nargs=2, metavar=("GAME", "COMPRESSION"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.fill:
        print(json.dumps(fill(*args.fill, args.steps)))
        return
    table = Table(title=f"a replay of {args.steps:,} Atari steps, batch {BATCH}")
    for column in (
        "game",
        "compression",
        "arrays GB",
        "grown GB",
        "peak resident GB",
        "µs a step added",
        "ms a sample",
    ):
        table.add_column(column, justify="left" if column in ("game", "compression") else "right")
    rows = [(args.games[0], "none"), *((game, "lz4") for game in args.games)]
    for game, compression in rows:
        command = [sys.executable, __file__, "--steps", str(args.steps), "--fill", game, compression]
        r = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        sizes = (f"{r[k] / 1e9:.2f}" for k in ("arrays", "grown", "peak"))
        table.add_row(game, compression, *sizes, f"{r['add_us']:.0f}", f"{r['sample_ms']:.1f}")
    Console().print(table)


if __name__ == "__main__":
    main()
