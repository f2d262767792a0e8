"""Learning curves as numbers: the raw values of each seed, their moving average, and mean and spread over seeds."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dsacc.system.types import Array
from dsacc.views.report.study import RunData

WINDOW = 10  # rows of metrics.jsonl, the paper's "moving average of factor 10"
ENOUGH = 50  # rows of a run: from here on an average of ten follows the curve


@dataclass(frozen=True)
class SeedCurve:
    """The values of one key in one run."""

    run: RunData
    steps: Array
    raw: Array
    smooth: Array


@dataclass(frozen=True)
class LearningCurve:
    """One agent in one game. At each step, the mean of the moving averages of the seeds that got that far."""

    agent: str
    seeds: list[SeedCurve]
    steps: Array
    mean: Array
    std: Array  # sample standard deviation between seeds (n - 1); NaN where there is one
    count: Array


def moving_average(values: Any, window: int = WINDOW) -> Array:
    """Mean of the last `window` values, or of all values as long as there are fewer.

    >>> moving_average([1.0, 3.0, 5.0, 7.0], window=2).tolist()
    [1.0, 2.0, 4.0, 6.0]
    """
    x = np.asarray(values, dtype=float)
    sums = np.concatenate([[0.0], np.cumsum(x)])
    ends = np.arange(1, len(x) + 1)
    starts = np.maximum(ends - window, 0)
    return np.asarray((sums[ends] - sums[starts]) / (ends - starts))


def window_of(runs: Sequence[RunData]) -> int:
    """Ten, as in the paper. Fewer for runs with few rows, which an average of ten would flatten."""
    longest = max((len(run.metrics) for run in runs), default=0)
    return WINDOW if longest >= ENOUGH else max(longest // 5, 1)


def curves(runs: Sequence[RunData], agents: Sequence[str], game: str, *keys: str) -> list[LearningCurve]:
    """One curve per agent that logged one of `keys` in this game, from the first key that it has. `runs` are all runs
    of the study."""
    found, window = [], window_of(runs)
    for agent in agents:
        mine = [run for run in runs if (run.agent, run.game) == (agent, game)]
        seeds = [seed for run in mine if (seed := _seed(run, keys, window)) is not None]
        if seeds:
            found.append(_curve(agent, seeds))
    return found


def _seed(run: RunData, keys: Sequence[str], window: int) -> SeedCurve | None:
    for key in keys:
        points = [(row["step"], _logged(run, row, key)) for row in run.metrics if key in row]
        if points:
            steps, raw = np.array(points).T
            return SeedCurve(run, steps, raw, moving_average(raw, window))
    return None


def check_curves(
    runs: Sequence[RunData], agents: Sequence[str], game: str, condition: str, policy: str
) -> list[LearningCurve]:
    """Scores of tests over training, for agents that were tested more than once. A value is the mean over the episodes
    of a test. Nothing is smoothed."""
    found = []
    for agent in agents:
        seeds = []
        for run in [run for run in runs if (run.agent, run.game) == (agent, game)]:
            scores: dict[int, list[float]] = {}
            for row in run.checks:
                if (row.condition.words, row.policy) == (condition, policy):
                    scores.setdefault(row.step or 0, []).extend(row.returns)
            if len(scores) > 1:
                raw = np.array([np.mean(scores[step]) for step in sorted(scores)])
                seeds.append(SeedCurve(run, np.array(sorted(scores), dtype=float), raw, raw))
        found += [_curve(agent, seeds)] if seeds else []
    return found


def _curve(agent: str, seeds: list[SeedCurve]) -> LearningCurve:
    """Seeds log at the same steps, but a row may lack a return where no game ended. Between its own points a seed is
    taken to be on the line between them. Beyond them it is left out."""
    steps = np.unique(np.concatenate([s.steps for s in seeds]))
    values = np.array([np.interp(steps, s.steps, s.smooth, left=np.nan, right=np.nan) for s in seeds])
    there = np.isfinite(values)
    count = there.sum(axis=0)
    total = np.where(there, values, 0.0).sum(axis=0)
    mean = total / count
    squares = np.where(there, (values - mean) ** 2, 0.0).sum(axis=0)
    std = np.sqrt(squares / np.where(count > 1, count - 1, np.nan))
    return LearningCurve(agent, seeds, steps, mean, std, count)


def _logged(run: RunData, row: dict[str, float], key: str) -> float:
    """A value of a row. Where λ is held, it is its own lower and upper bound and is logged as being at both. Here the
    bounds are 0 and 1."""
    held = held_lambda(run)
    if held is not None and key.startswith("lambda_at_"):
        return float(held == (0.0 if "lower" in key else 1.0))
    return row[key]


def held_lambda(run: RunData) -> float | None:
    """The λ that a run was given, None where λ is solved for."""
    held = run.config.get("fixed_lambda")
    return float(held) if isinstance(held, int | float) and not isinstance(held, bool) else None


def at_the_end(runs: Sequence[RunData], agent: str, game: str, *keys: str) -> list[float]:
    """The mean of each seed over the last tenth of training, for runs that were trained to their end."""
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
