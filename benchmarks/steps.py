"""What an agent step on Breakout consists of, and how fast steps are: both presets, one and two threads.

Everything is the program's own: the real emulator, the real replay, the real update. Parts are timed by wrapping the
calls that do them. The last table samples from a replay with 10,000 and with 900,000 steps in turn (7 GB are needed;
`--skip-large` leaves it out): the cost of a step must not grow with what is stored. Run with `make bench-steps`.
"""

import argparse
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

import dsacc.agent.learner as learner_module
from dsacc import DSAC
from dsacc.replay import Replay
from dsacc.training.loop import Trainer

GAME, READY = "Breakout", 600  # steps before measuring, most of them random
TURN = 20  # steps
PRESETS = {
    "paper": {"preset": "paper"},
    "efficient": {"preset": "efficient"},
    "efficient, Nature trunk": {"preset": "efficient", "encoder": "nature", "hidden": 512},
}


class Stopwatch:
    """Seconds spent inside wrapped calls, by name."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)

    def wrap(self, owner: Any, method: str, name: str) -> None:
        call: Callable[..., Any] = getattr(owner, method)

        def timed(*args: Any, **kwargs: Any) -> Any:
            began = time.perf_counter()
            try:
                return call(*args, **kwargs)
            finally:
                self.seconds[name] += time.perf_counter() - began

        setattr(owner, method, timed)


def make_trainer(settings: dict[str, Any], **more: Any) -> Trainer:
    """A run in progress, past its random steps."""
    model = DSAC(GAME, constraint="mean", **(settings | {"random_steps": READY - 100, "log_every": 10**9} | more))
    trainer = model.prepare(READY)
    for _ in trainer.steps(READY):
        pass
    return trainer


def advance(trainer: Trainer, steps: int) -> float:
    """Seconds of so many agent steps."""
    began = time.perf_counter()
    for _ in trainer.steps(trainer.step + steps):
        pass
    return time.perf_counter() - began


def in_turns(trainers: Mapping[str, Trainer], turns: int) -> dict[str, float]:
    """The median milliseconds of a training step of each, while they take turns of `TURN` steps."""
    steps = {name: trainer.steps(10**9) for name, trainer in trainers.items()}
    taken: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(turns):
        for name, trainer in steps.items():
            for _ in range(TURN):
                began = time.perf_counter()
                next(trainer)
                taken[name].append(time.perf_counter() - began)
    return {name: 1000 * statistics.median(seconds) for name, seconds in taken.items()}


def shares(console: Console, steps: int) -> None:
    table = Table(title=f"share of an agent step on {GAME}, DSAC-M, one thread, {steps} steps")
    table.add_column("part")
    columns: dict[str, dict[str, float]] = {}
    for name, settings in PRESETS.items():
        table.add_column(name, justify="right")
        trainer, watch = make_trainer(settings), Stopwatch()
        original = learner_module.constraint_terms
        for owner, method, part in (
            (trainer.envs[0], "step", "environment"),
            (trainer.envs[0], "reset", "environment"),
            (trainer.replay, "add", "replay"),
            (trainer.replay, "sample", "replay"),
            (trainer, "act", "acting"),
            (learner_module, "constraint_terms", "solve of lambda"),
            (trainer.learner, "update", "update"),
            (trainer.learner, "update_targets", "target networks"),
        ):
            watch.wrap(owner, method, part)
        total = advance(trainer, steps)
        learner_module.constraint_terms = original
        watch.seconds["update"] -= watch.seconds["solve of lambda"]
        watch.seconds["everything else"] = total - sum(watch.seconds.values())
        columns[name] = {k: 100 * v / total for k, v in watch.seconds.items()} | {"ms a step": 1e3 * total / steps}
    parts = list(dict.fromkeys(k for column in columns.values() for k in column))
    parts.append(parts.pop(parts.index("ms a step")))
    for part in parts:
        unit = "" if part == "ms a step" else " %"
        table.add_row(part, *(f"{column.get(part, 0.0):.1f}{unit}" for column in columns.values()))
    overhead = ("environment", "replay", "solve of lambda")
    table.add_row(
        "environment, replay and solve", *(f"{sum(c.get(k, 0) for k in overhead):.1f} %" for c in columns.values())
    )
    console.print(table)


def speeds(console: Console, steps: int, repeats: int) -> None:
    """Interleaved: every preset and thread count once a repeat."""
    trainers = {name: make_trainer(settings) for name, settings in PRESETS.items()}
    times: dict[tuple[str, int], list[float]] = defaultdict(list)
    for _ in range(repeats):
        for name, trainer in trainers.items():
            for threads in (1, 2):
                torch.set_num_threads(threads)
                advance(trainer, 4)  # the pool of threads wakes up
                times[name, threads].append(steps / advance(trainer, steps))
    torch.set_num_threads(1)
    table = Table(title=f"agent steps a second on {GAME}, DSAC-M, medians of {repeats} interleaved repeats")
    for column in ("preset", "one thread", "two threads", "two / one"):
        table.add_column(column, justify="left" if column == "preset" else "right")
    for name in trainers:
        one, two = (statistics.median(times[name, t]) for t in (1, 2))
        table.add_row(name, f"{one:.1f}", f"{two:.1f}", f"{two / one:.2f}")
    console.print(table)
    console.print(
        "Two runs side by side with one thread each do up to twice the first column; compare with the second."
    )


def flatness(console: Console, sizes: tuple[int, int], steps: int, repeats: int) -> None:
    """One trainer whose replay is exchanged in turn: the same steps with little and with much stored."""
    table = Table(title=f"cost by what is stored, {GAME}, DSAC-M, one thread, medians of {repeats} interleaved repeats")
    for column in ("preset", "stored steps", "ms a sample", "ms an agent step"):
        table.add_column(column, justify="left" if column == "preset" else "right")
    for name in ("paper", "efficient"):
        trainer = make_trainer(PRESETS[name], replay_size=1_000_000)
        replays = {size: filled(trainer, size) for size in sizes}
        sample: dict[int, list[float]] = defaultdict(list)
        step: dict[int, list[float]] = defaultdict(list)
        rng = np.random.default_rng(0)
        for _ in range(repeats):
            for size, replay in replays.items():
                exchange(trainer, replay)
                began = time.perf_counter()
                for _ in range(20):
                    replay.sample(trainer.config.batch_size, rng)
                sample[size].append((time.perf_counter() - began) / 20)
                step[size].append(advance(trainer, steps) / steps)
        for size in sizes:
            ms = [f"{1e3 * statistics.median(x[size]):.2f}" for x in (sample, step)]
            table.add_row(name, f"{size:,}", *ms)
        del replays, trainer
    console.print(table)


def filled(trainer: Trainer, size: int) -> Replay:
    """A replay of `size` steps: real pictures of the game, played at random and then repeated."""
    replay = Replay(trainer.config.replay_size, trainer.observations.spec, trainer.config.n_step, stack=4)
    extend(replay, games(trainer.envs[0]), size)
    return replay


def games(env: Any, steps: int = 3_000) -> list[tuple[Any, ...]]:
    """What random play would add to a replay; the last step ends its episode, so that it can be repeated."""
    rng, played = np.random.default_rng(0), []
    seen = env.reset(seed=1)[0]
    while len(played) < steps:
        action = int(rng.integers(env.action_space.n))
        after, reward, terminated, truncated, _ = env.step(action)
        played.append((seen, action, float(np.sign(reward)), terminated, truncated, after))
        seen = env.reset()[0] if terminated or truncated else after
    played[-1] = (*played[-1][:3], True, False, played[-1][5])
    return played


def extend(replay: Replay, played: list[tuple[Any, ...]], steps: int) -> None:
    begun = int(replay.written_E[0])
    for i in range(begun, begun + steps):
        replay.add(*played[i % len(played)])


def exchange(trainer: Trainer, replay: Replay) -> None:
    """Go on with another replay, from a new game: episodes must not be torn."""
    last = (int(replay.written_E[0]) - 1) % replay.ring
    replay.after[last], replay.newest_E[0] = 1, None
    trainer.replay, trainer.seen_E[0] = replay, trainer.envs[0].reset()[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=200, help="agent steps of a measurement (default: 200)")
    parser.add_argument("--repeats", type=int, default=5, help="interleaved repeats (default: 5)")
    parser.add_argument("--skip-large", action="store_true", help="leave out the replay of 900,000 steps")
    args = parser.parse_args()
    torch.set_num_threads(1)
    console = Console()
    shares(console, 2 * args.steps)
    speeds(console, args.steps // 4, args.repeats)
    if not args.skip_large:
        flatness(console, (10_000, 900_000), args.steps // 4, args.repeats)


if __name__ == "__main__":
    main()
