"""How long the solve and one update of the Nature-CNN agent take, side by side in one interleaved run.

Batch 64, 84x84x4 pictures, 18 actions, preset `paper`. Medians over interleaved repeats: this way noise from the
machine falls on all alike. Run with `make bench`.
"""

import argparse
import statistics
import time
from collections.abc import Callable

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from dsacc.agent import Batch, Learner, ObservationSpec
from dsacc.agent.constraints import constraint_terms, penalty
from dsacc.config import AGENTS, make_config
from dsacc.maths import (
    boltzmann,
    expected_value,
    expected_variance,
    joint_multipliers,
    mean_multiplier,
    spread,
    variance_multiplier,
)

BATCH, ACTIONS, PICTURE = 64, 18, (4, 84, 84)


def timed(call: Callable[[], object]) -> float:
    """Milliseconds of one call."""
    began = time.perf_counter()
    call()
    return (time.perf_counter() - began) * 1e3


def make_batch(rng: np.random.Generator, size: int = BATCH) -> Batch:
    pictures = [torch.from_numpy(rng.integers(0, 256, (size, *PICTURE), dtype=np.uint8)) for _ in range(2)]
    pictures = [p.contiguous(memory_format=torch.channels_last) for p in pictures]  # as the replay hands them out
    return Batch(
        pictures[0],
        torch.from_numpy(rng.integers(0, ACTIONS, size)),
        torch.from_numpy(rng.standard_normal((size, 1)).astype(np.float32)),
        torch.ones(size, dtype=torch.int64),
        torch.zeros(size),
        pictures[1],
        torch.zeros(size),
    )


def solves(rng: np.random.Generator) -> dict[str, Callable[[], object]]:
    """The three solves on 64 x 18, with targets perturbed by a third of the spread so that most roots lie inside."""
    q = torch.from_numpy(rng.standard_normal((BATCH, ACTIONS)))
    alpha = 0.3
    pi = boltzmann(q, alpha)
    eps = torch.from_numpy(np.abs(rng.standard_normal(BATCH))) * spread(q) / 3
    mean, variance, mu = expected_value(pi, q) - eps, expected_variance(pi, q), expected_value(pi, q) + eps
    return {
        "solve, mean": lambda: mean_multiplier(q, mean, alpha),
        "solve, variance": lambda: variance_multiplier(q, variance, mu, alpha),
        "solve, both": lambda: joint_multipliers(q, mean, variance, mu, alpha),
    }


def updates(rng: np.random.Generator) -> dict[str, Callable[[], object]]:
    """One update of each agent, and the part of it that is the constraint: targets, solve, penalty."""
    out: dict[str, Callable[[], object]] = {}
    batch = make_batch(rng)
    for name, constraint in AGENTS.items():
        config = make_config("paper", constraint=constraint)
        learner = Learner(config, ObservationSpec("image", PICTURE), ACTIONS, torch.Generator().manual_seed(0))
        noise = torch.from_numpy(rng.standard_normal(learner.noise_shape()))
        out[f"update, {name}"] = lambda learner=learner, noise=noise: learner.update(batch, noise, 0)
        if constraint is None:
            continue
        q = torch.from_numpy(rng.standard_normal((BATCH, ACTIONS)).astype(np.float32))
        pi = torch.softmax(torch.from_numpy(rng.standard_normal((BATCH, ACTIONS)).astype(np.float32)), -1)

        def part(config=config, q=q, pi=pi, noise=noise) -> object:
            return penalty(constraint_terms(config, q, pi, torch.tensor(0.3), noise), pi)

        out[f"constraint in it, {name}"] = part
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=15, help="interleaved repeats (default: 15)")
    parser.add_argument("--threads", type=int, default=1, help="threads (default: 1)")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    rng = np.random.default_rng(0)
    calls = solves(rng) | updates(rng)
    for call in calls.values():
        call()
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(args.repeats):
        for name, call in calls.items():
            times[name].append(timed(call))
    median = {name: statistics.median(values) for name, values in times.items()}

    table = Table(
        title=f"batch {BATCH}, {ACTIONS} actions, Nature CNN, {args.threads} thread(s), {args.repeats} repeats"
    )
    table.add_column("what")
    for column in ("median ms", "fastest ms", "share of the update"):
        table.add_column(column, justify="right")
    for name in calls:
        agent = name.removeprefix("constraint in it, ")
        share = f"{100 * median[name] / median[f'update, {agent}']:.1f} %" if name.startswith("constraint") else ""
        table.add_row(name, f"{median[name]:.2f}", f"{min(times[name]):.2f}", share)
    Console().print(table)


if __name__ == "__main__":
    main()
