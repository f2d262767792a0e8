"""Learning curves as numbers: each seed's raw values, their moving average, and mean and spread over seeds."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dsacc.system.types import Array
from dsacc.views.report.data import RunData, condition_of

WINDOW = 10  # rows of metrics.jsonl, the paper's "moving average of factor 10"
ENOUGH = 50  # rows of a run, from which on an average of ten follows the curve


@dataclass(frozen=True)
class Seed:
    """One run's values of one key."""

    run: RunData
    steps: Array
    raw: Array
    smooth: Array


@dataclass(frozen=True)
class Curve:
    """An agent in a game. At each step, the mean of the moving averages of the seeds that got so far."""

    agent: str
    seeds: list[Seed]
    steps: Array
    mean: Array
    std: Array  # sample standard deviation between seeds (n - 1); NaN where there is one
    count: Array


def moving_average(values: Any, window: int = WINDOW) -> Array:
    """Mean of the last `window` values, and of all there are before so many came.

    >>> moving_average([1.0, 3.0, 5.0, 7.0], window=2).tolist()
    [1.0, 2.0, 4.0, 6.0]
    """
    x = np.asarray(values, dtype=float)
    sums = np.concatenate([[0.0], np.cumsum(x)])
    ends = np.arange(1, len(x) + 1)
    starts = np.maximum(ends - window, 0)
    return np.asarray((sums[ends] - sums[starts]) / (ends - starts))


def window_of(runs: Sequence[RunData]) -> int:
    """Ten, as in the paper; less for runs of a few rows, which ten would flatten."""
    longest = max((len(run.metrics) for run in runs), default=0)
    return WINDOW if longest >= ENOUGH else max(longest // 5, 1)


def curves(runs: Sequence[RunData], agents: Sequence[str], game: str, *keys: str) -> list[Curve]:
    """A curve for each agent that logged one of `keys` (the first that it has) in this game. `runs` are the study's."""
    found, window = [], window_of(runs)
    for agent in agents:
        mine = [run for run in runs if (run.agent, run.game) == (agent, game)]
        seeds = [seed for run in mine if (seed := _seed(run, keys, window)) is not None]
        if seeds:
            found.append(_curve(agent, seeds))
    return found


def _seed(run: RunData, keys: Sequence[str], window: int) -> Seed | None:
    for key in keys:
        points = [(row["step"], _logged(run, row, key)) for row in run.metrics if key in row]
        if points:
            steps, raw = np.array(points).T
            return Seed(run, steps, raw, moving_average(raw, window))
    return None


def check_curves(runs: Sequence[RunData], agents: Sequence[str], game: str, condition: str, policy: str) -> list[Curve]:
    """Scores of tests over training, of agents that were tested more than once; the mean of a test's episodes, and
    nothing is smoothed."""
    found = []
    for agent in agents:
        seeds = []
        for run in runs:
            if (run.agent, run.game) != (agent, game):
                continue
            scores: dict[int, list[float]] = {}
            for row in run.checks:
                if (condition_of(row), row["policy"]) == (condition, policy):
                    scores.setdefault(row["step"], []).extend(row["returns"])
            if len(scores) > 1:
                raw = np.array([np.mean(scores[step]) for step in sorted(scores)])
                seeds.append(Seed(run, np.array(sorted(scores), dtype=float), raw, raw))
        found += [_curve(agent, seeds)] if seeds else []
    return found


def _curve(agent: str, seeds: list[Seed]) -> Curve:
    """Seeds log at the same steps, but a row may lack a return where no game ended: between its own points a seed is
    taken to be on the line, beyond them it is not there."""
    steps = np.unique(np.concatenate([s.steps for s in seeds]))
    values = np.array([np.interp(steps, s.steps, s.smooth, left=np.nan, right=np.nan) for s in seeds])
    there = np.isfinite(values)
    count = there.sum(axis=0)
    total = np.where(there, values, 0.0).sum(axis=0)
    mean = total / count
    squares = np.where(there, (values - mean) ** 2, 0.0).sum(axis=0)
    std = np.sqrt(squares / np.where(count > 1, count - 1, np.nan))
    return Curve(agent, seeds, steps, mean, std, count)


def _logged(run: RunData, row: dict[str, float], key: str) -> float:
    """A value of a row. A λ that is held is logged as at its bounds, both of them itself; here bounds are 0 and 1."""
    held = held_lambda(run)
    if held is not None and key.startswith("lambda_at_"):
        return float(held == (0.0 if "lower" in key else 1.0))
    return row[key]


def held_lambda(run: RunData) -> float | None:
    """The λ that a run was given; None where it is solved."""
    held = run.config.get("fixed_lambda")
    return float(held) if isinstance(held, int | float) and not isinstance(held, bool) else None


def at_the_end(runs: Sequence[RunData], agent: str, game: str, *keys: str) -> list[float]:
    """Each seed's mean over the last tenth of training, of the runs that were trained to their end."""
    ends = []
    for run in runs:
        if (run.agent, run.game) != (agent, game) or run.steps is None or run.step < run.steps:
            continue
        for key in keys:
            values = [_logged(run, row, key) for row in run.metrics if key in row and row["step"] > 0.9 * run.steps]
            if values:
                ends.append(float(np.mean(values)))
                break
    return ends
