"""Statistics that stand up to review, from arrays of scores. NumPy only; randomness is passed in.

Scores come as one array per game, [n] for its n training seeds, since games may differ in their number of seeds. An
interval is a stratified percentile bootstrap: seeds are drawn with replacement within each game, and the games stay the
same. It is about what other seeds would give, not about other games. With one seed in any game there is nothing to draw
from, and the interval is None.

`how` is `resamples` (10,000) and `confidence` (0.95) of an interval.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dsacc.system.types import Array

RESAMPLES = 10_000
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Estimate:
    """A figure, the ends of its interval (None with one seed), and the smallest number of seeds behind it."""

    value: float
    low: float | None
    high: float | None
    seeds: int


# --- scores ----------------------------------------------------------------------------------------------------------


def normalised(score: Any, random: float, top: float) -> Any:
    """(x - random) / (top - random): 0 is a random player, 1 a human (Atari) or the best possible score."""
    if top == random:
        raise ValueError("the score of the random player and the top score must differ")
    return (np.asarray(score, dtype=float) - random) / (top - random)


def iqm(scores: Any, axis: int = -1) -> Any:
    """Interquartile mean: the mean of n scores without the n // 4 lowest and the n // 4 highest."""
    ordered = np.sort(np.asarray(scores, dtype=float), axis=axis)
    n = ordered.shape[axis]
    return np.take(ordered, np.arange(n // 4, n - n // 4), axis=axis).mean(axis=axis)


def mann_whitney(x_n: Any, y_m: Any) -> float:
    """P(X > Y) + P(X = Y) / 2 over all n x m pairs of runs: the Mann-Whitney U divided by n m."""
    return float(_wins(np.asarray(x_n, dtype=float)[:, None], np.asarray(y_m, dtype=float)[:, None]).mean())


def overall(conditions: Any, axis: int = -1) -> Any:
    """The paper's "Overall": the plain sum of the raw scores under all conditions, clean and shifted alike."""
    return np.asarray(conditions, dtype=float).sum(axis=axis)


def relative_gain(score: float, baseline: float) -> float | None:
    """score / baseline - 1, as in the paper's "by about 213 %". None unless the baseline is positive: a ratio of scores
    that may be negative has no meaning."""
    return score / baseline - 1 if baseline > 0 else None


def curve_area(levels_L: Any, scores_L: Any) -> Any:
    """Area under a curve over severity by the trapezoid rule, divided by the range of the levels, so that a flat curve
    at c has area c. [..., L] -> [...]. Level 0 is the clean score where there is one."""
    levels, scores = np.asarray(levels_L, dtype=float), np.asarray(scores_L, dtype=float)
    if levels.ndim != 1 or len(levels) < 2 or (np.diff(levels) <= 0).any():
        raise ValueError("an area needs two levels or more, in rising order")
    return ((scores[..., 1:] + scores[..., :-1]) / 2 * np.diff(levels)).sum(-1) / (levels[-1] - levels[0])


# --- estimates with intervals ----------------------------------------------------------------------------------------


def mean(games: Sequence[Any], rng: np.random.Generator, **how: Any) -> Estimate:
    """Mean over games of the mean over seeds: (1/G) Σ_g (1/n_g) Σ_i x_gi."""
    scores = _sorted(games)

    def resampled(count: int) -> Array:
        return np.asarray(np.mean([_weights(len(x), count, rng) @ x for x in scores], axis=0))

    return _estimate(np.mean([x.mean() for x in scores]), resampled, min(map(len, scores)), **how)


def interquartile_mean(games: Sequence[Any], rng: np.random.Generator, **how: Any) -> Estimate:
    """IQM of all runs of all games together. It needs games that share a scale: normalise first. A game with more
    seeds weighs more."""
    scores = _sorted(games)

    def resampled(count: int) -> Array:
        draws = [x[rng.integers(len(x), size=(count, len(x)))] for x in scores]
        return np.asarray(iqm(np.concatenate(draws, axis=1)))

    return _estimate(iqm(np.concatenate(scores)), resampled, min(map(len, scores)), **how)


def probability_of_improvement(
    x_games: Sequence[Any], y_games: Sequence[Any], rng: np.random.Generator, **how: Any
) -> Estimate:
    """P(X > Y) = (1/G) Σ_g U(x_g, y_g) / (n_g m_g), with ties counted half. The seeds of both agents are resampled
    within each game.

    The scores of a game are [n], or [n, C] for C conditions that each run met. Then the pairs are averaged over
    conditions too. A drawn run brings all of its conditions, since these are one trained agent and not C independent
    ones.
    """
    xs, ys = _sorted(x_games), _sorted(y_games)
    if len(xs) != len(ys):
        raise ValueError("both agents need scores of the same games")
    wins = [_wins(x.reshape(len(x), -1), y.reshape(len(y), -1)) for x, y in zip(xs, ys, strict=True)]  # [n, m] per game

    def resampled(count: int) -> Array:
        by_game = [
            ((_weights(w.shape[0], count, rng) @ w) * _weights(w.shape[1], count, rng)).sum(axis=1) for w in wins
        ]
        return np.asarray(np.mean(by_game, axis=0))

    return _estimate(np.mean([w.mean() for w in wins]), resampled, min(min(w.shape) for w in wins), **how)


def performance_profile(
    games: Sequence[Any],
    taus: Any,
    rng: np.random.Generator,
    resamples: int = RESAMPLES,
    confidence: float = CONFIDENCE,
) -> list[Estimate]:
    """For each tau the share of all runs of all games with a score above it. The band is pointwise: the interval of
    each tau holds by itself, not all of them at once."""
    scores, taus_T = _sorted(games), np.asarray(taus, dtype=float)
    above = [(x[:, None] > taus_T).astype(float) for x in scores]  # [n, T] per game
    total, seeds = sum(map(len, scores)), min(map(len, scores))
    value_T = np.concatenate(above).mean(axis=0)
    if seeds < 2:
        return [Estimate(float(v), None, None, seeds) for v in value_T]
    drawn_BT = sum(len(a) * (_weights(len(a), resamples, rng) @ a) for a in above) / total
    low_T, high_T = _percentiles(drawn_BT, confidence)
    return [Estimate(float(v), float(a), float(b), seeds) for v, a, b in zip(value_T, low_T, high_T, strict=True)]


def gap(clean_games: Sequence[Any], shifted_games: Sequence[Any], rng: np.random.Generator, **how: Any) -> Estimate:
    """What the shift costs: mean over games and seeds of clean_gi - shifted_gi. Entry i of both is the same trained
    agent, so that differences between seeds cancel. Where it is positive, the agent does worse under the shift."""
    pairs = zip(clean_games, shifted_games, strict=True)
    return mean([np.asarray(c, dtype=float) - np.asarray(s, dtype=float) for c, s in pairs], rng, **how)


def retention(
    clean_games: Sequence[Any], shifted_games: Sequence[Any], rng: np.random.Generator, **how: Any
) -> Estimate:
    """The share of its skill that an agent keeps. The scores are those above random, x - random, paired by seed:
    Σ_g mean_i shifted_gi / Σ_g mean_i clean_gi. For one game that is (shifted - random) / (clean - random).

    Over several games it is the ratio of the means, not the mean of the ratios, which a game with hardly any skill to
    lose would dominate. Give normalised scores, and only games with skill (`beats_random`).
    """
    pairs = [
        np.stack([np.asarray(c, dtype=float), np.asarray(s, dtype=float)], axis=1)
        for c, s in zip(clean_games, shifted_games, strict=True)
    ]
    pairs = _sorted(pairs)

    def ratio(sums: Array) -> Array:  # [..., 2] -> [...]
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(sums[..., 1] / sums[..., 0])

    def resampled(count: int) -> Array:
        return ratio(np.sum([_weights(len(p), count, rng) @ p for p in pairs], axis=0))

    return _estimate(ratio(np.sum([p.mean(axis=0) for p in pairs], axis=0)), resampled, min(map(len, pairs)), **how)


def beats_random(clean: Any, random: float, rng: np.random.Generator) -> bool:
    """Whether the agent has any skill that a shift could take: the lower end of the 95 % bootstrap interval of its mean
    clean score is above the score of a random player. `clean` holds the means of the seeds, or the episodes where there
    is one seed.

    With two or three seeds the lower end is the worst seed, so every seed must beat random. Seeds without skill do so
    by luck once in four or eight times. The random score is taken as exact.
    """
    clean = np.asarray(clean, dtype=float)
    low = mean([clean], rng).low
    return bool((clean.mean() if low is None else low) > random)


# --- bootstrap -------------------------------------------------------------------------------------------------------


def _estimate(
    value: Any,
    resampled: Callable[[int], Array],
    seeds: int,
    resamples: int = RESAMPLES,
    confidence: float = CONFIDENCE,
) -> Estimate:
    if seeds < 2:
        return Estimate(float(value), None, None, seeds)
    low, high = _percentiles(resampled(resamples), confidence)
    return Estimate(float(value), float(low), float(high), seeds)


def _percentiles(drawn_B: Any, confidence: float) -> Array:
    tail = (1 - confidence) / 2
    return np.asarray(np.quantile(drawn_B, [tail, 1 - tail], axis=0))


def _weights(n: int, count: int, rng: np.random.Generator) -> Array:
    """How often each of n runs is drawn, divided by n, so that the mean of a resample is this times the scores.
    [count, n]."""
    return rng.multinomial(n, np.full(n, 1 / n), size=count) / n


def _sorted(games: Sequence[Any]) -> list[Array]:
    """Arrays with their runs in rising order, so that the order in which runs are listed changes no interval."""
    scores = [np.asarray(x, dtype=float) for x in games]
    if not scores or min(map(len, scores)) == 0:
        raise ValueError("every game needs the score of at least one run")
    return [np.sort(x) if x.ndim == 1 else x[np.lexsort(x.T[::-1])] for x in scores]


def _wins(x_nC: Array, y_mC: Array) -> Array:
    """1 where x beats y, 1/2 where they tie, averaged over conditions. [n, m]."""
    x, y = x_nC[:, None], y_mC[None]
    return np.asarray(((x > y) + 0.5 * (x == y)).mean(axis=-1))
