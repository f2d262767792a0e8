"""Statistics against scipy, rliable where it can be imported, arrays worked out by hand, and properties."""

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

from dsacc.analysis.statistics import (
    beats_random,
    curve_area,
    gap,
    interquartile_mean,
    iqm,
    mann_whitney,
    mean,
    normalised,
    overall,
    performance_profile,
    probability_of_improvement,
    relative_gain,
    retention,
)

FEW = {"resamples": 200}
score = st.integers(-50, 50).map(lambda n: n / 4)  # exact in binary, with ties
game = st.lists(score, min_size=2, max_size=6)
games = st.lists(game, min_size=1, max_size=5)


def rng(seed=0):
    return np.random.default_rng(seed)


def drawn(seed, games=9, seeds=5):
    source = rng(seed)
    return [source.normal(k + seed, 1 + k / 4, seeds) for k in range(games)]


# --- by hand ---


def test_normalised_score_is_zero_for_random_and_one_for_human():
    assert normalised([1.7, 30.5, 16.1], 1.7, 30.5) == pytest.approx([0, 1, 0.5])
    with pytest.raises(ValueError, match="must differ"):
        normalised(1, 2, 2)


def test_iqm_leaves_out_a_quarter_at_each_end():
    assert iqm([100, 1, 2, 3, 4, 5, 6, -100]) == pytest.approx((2 + 3 + 4 + 5) / 4)
    assert iqm([1, 2, 9]) == 4  # three scores: a quarter is no whole score


def test_probability_of_improvement_by_hand():
    # 3 > 1, 3 > 2, 2 > 1, 2 = 2: (1 + 1 + 1 + 1/2) / 4
    assert mann_whitney([3, 2], [1, 2]) == 0.875
    assert probability_of_improvement([[3, 2], [0, 0]], [[1, 2], [1, 1]], rng()).value == 0.4375


def test_pooled_improvement_averages_the_conditions_of_the_same_pairs():
    x = np.array([[3.0, 0.0], [2.0, 0.0]])  # two runs, two conditions
    y = np.array([[1.0, 1.0], [2.0, 1.0]])
    assert probability_of_improvement([x], [y], rng()).value == 0.4375


def test_conditions_of_one_run_are_drawn_together():
    """Copies of one condition add no information: the pooled interval is that of the one."""
    x, y = drawn(1), drawn(0)
    one = probability_of_improvement(x, y, rng())
    copies = probability_of_improvement([np.stack([g] * 4, 1) for g in x], [np.stack([g] * 4, 1) for g in y], rng())
    assert copies == one


def test_gap_is_paired_by_seed():
    clean, shifted = [[10.0, 110.0, 210.0]], [[9.0, 108.0, 207.0]]
    found = gap(clean, shifted, rng())
    assert found.value == 2
    assert (found.low, found.high) == (1, 3)  # unpaired, the spread between seeds would be a hundred times that


def test_gap_of_seeds_that_change_places_keeps_their_pairs():
    found = gap([[10.0, 20.0]], [[19.0, 9.0]], rng())
    assert (found.low, found.value, found.high) == (-9, 1, 11)


# One game has more seeds than the other, and within a game all runs agree.
AGREED = {"high": [[0.0] * 4, [10.0] * 2], "low": [[0.0] * 4, [5.0] * 2], "mixed": [[1.0] * 4, [4.0] * 2]}


@pytest.mark.parametrize(
    ("found", "value"),
    [
        (lambda: mean(AGREED["high"], rng()), 5),  # every game weighs the same, however many seeds it has
        (lambda: interquartile_mean(AGREED["high"], rng()), 2.5),  # of 0, 0, 0, 0, 10, 10 without an end each
        (lambda: probability_of_improvement(AGREED["low"], AGREED["mixed"], rng()), 0.5),
        (lambda: performance_profile(AGREED["high"], [5], rng())[0], 1 / 3),
        (lambda: gap(AGREED["high"], AGREED["low"], rng()), 2.5),
        (lambda: retention(AGREED["mixed"], AGREED["low"], rng()), 1),
    ],
    ids=["mean", "iqm", "improvement", "profile", "gap", "retention"],
)
def test_seeds_are_drawn_within_their_game(found, value):
    """So where all runs of each game agree, no resample differs. Games drawn together would give a wide interval."""
    estimate = found()
    assert estimate.value == pytest.approx(value)
    assert (estimate.low, estimate.high) == pytest.approx((value, value))
    assert estimate.seeds == 2


def test_retention_by_hand():
    random = 2.0
    clean, shifted = np.array([10.0, 14.0]), np.array([4.0, 8.0])
    assert retention([clean - random], [shifted - random], rng()).value == 4 / 10
    assert retention([[10, 10], [1, 1]], [[5, 5], [3, 3]], rng()).value == 8 / 11  # of the sums, not the mean of ratios


def test_retention_draws_clean_and_shifted_of_a_run_together():
    found = retention([[10, 20]], [[20, 10]], rng())  # both draws the first run: 2; the second: 1/2
    assert (found.low, found.value, found.high) == (0.5, 1, 2)


def test_performance_profile_by_hand():
    found = performance_profile([[0, 1], [2, 3]], [-1, 0, 1.5, 3], rng())
    assert [e.value for e in found] == [1, 0.75, 0.5, 0]
    assert all(e.low <= e.value <= e.high for e in found)


def test_area_of_a_flat_curve_is_its_height():
    assert curve_area([0, 1, 2, 3, 4, 5], [7] * 6) == 7
    assert curve_area([1, 3, 5], [[0, 4, 0], [4, 4, 0]]) == pytest.approx([2, 3])
    assert curve_area([0, 1, 5], [9, 1, 4]) == pytest.approx(integrate.trapezoid([9, 1, 4], [0, 1, 5]) / 5)
    assert curve_area([0, 2], [3, 5]) == 4  # two levels are enough
    for levels in ([1], [1, 1], [2, 1], [0, 2, 1], [[0, 1]]):
        with pytest.raises(ValueError, match="rising"):
            curve_area(levels, np.ones(np.shape(levels)))


def test_overall_is_a_sum_and_a_gain_needs_a_positive_baseline():
    assert overall([1, 2, 3, 4]) == 10
    assert relative_gain(3, 2) == 0.5
    assert relative_gain(3, 0) is None
    assert relative_gain(3, -2) is None


# --- against scipy ---


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 9, 27, 45])
def test_iqm_is_scipys_trimmed_mean(n):
    x = rng(n).normal(size=(3, n))
    assert iqm(x) == pytest.approx(stats.trim_mean(x, 0.25, axis=1))


def test_mann_whitney_is_scipys_statistic():
    x, y = rng(1).integers(0, 9, 7), rng(2).integers(0, 9, 5)
    assert mann_whitney(x, y) == pytest.approx(stats.mannwhitneyu(x, y).statistic / 35)


def test_intervals_are_scipys_bootstrap():
    """One game is plain resampling, which scipy does too. Each is random, so that their ends agree roughly."""
    x, y = rng(1).normal(size=12), rng(2).normal(size=9)
    how = {"n_resamples": 10_000, "method": "percentile", "rng": rng(3)}
    pairs = [
        (interquartile_mean([x], rng()), stats.bootstrap((x,), iqm, **how)),
        (mean([x], rng()), stats.bootstrap((x,), np.mean, **how)),
    ]
    poi = stats.bootstrap((x, y), mann_whitney, vectorized=False, **(how | {"n_resamples": 3_000}))
    pairs.append((probability_of_improvement([x], [y], rng()), poi))
    for ours, theirs in pairs:
        interval = theirs.confidence_interval
        width = interval.high - interval.low
        assert (ours.low, ours.high) == pytest.approx((interval.low, interval.high), abs=0.05 * width)


def test_retention_interval_is_scipys_paired_bootstrap():
    clean = rng(1).normal(10, 1, 12)
    shifted = 0.5 * clean + rng(2).normal(size=12)
    ours = retention([clean], [shifted], rng())
    theirs = stats.bootstrap(
        (clean, shifted),
        lambda c, s, axis=-1: s.mean(axis) / c.mean(axis),
        paired=True,
        method="percentile",
        rng=rng(3),
    ).confidence_interval
    assert (ours.low, ours.high) == pytest.approx(tuple(theirs), abs=0.05 * (theirs.high - theirs.low))


def test_rliable_agrees():
    """Its values exactly, its intervals roughly: both are random."""
    try:
        from rliable import library, metrics
    except Exception as error:  # its dependencies break with newer pandas, in more ways than ImportError
        pytest.skip(f"rliable cannot be imported: {error}")
    x, y = np.stack(drawn(1), axis=1), np.stack(drawn(0), axis=1)  # [seeds, games]

    def ends_agree(ours, theirs):
        return (ours.low, ours.high) == pytest.approx(tuple(theirs), abs=0.05 * (ours.high - ours.low))

    values, ends = library.get_interval_estimates({"x": x}, lambda s: np.array([metrics.aggregate_iqm(s)]), reps=5_000)
    ours = interquartile_mean(x.T, rng())
    assert ours.value == pytest.approx(values["x"][0])
    assert ends_agree(ours, ends["x"][:, 0])
    values, ends = library.get_interval_estimates({"xy": (x, y)}, metrics.probability_of_improvement, reps=2_000)
    ours = probability_of_improvement(x.T, y.T, rng())
    assert ours.value == pytest.approx(np.squeeze(values["xy"]))
    assert ends_agree(ours, np.squeeze(ends["xy"]))
    taus = np.linspace(-2, 8, 11)
    values, bands = library.create_performance_profile({"x": x}, taus, reps=2_000)
    ours = performance_profile(x.T, taus, rng())
    assert [e.value for e in ours] == pytest.approx(values["x"])
    assert [(e.low, e.high) for e in ours] == [pytest.approx(tuple(band), abs=0.03) for band in bands["x"].T]


# --- properties ---


@settings(max_examples=50, deadline=None)
@given(games, st.randoms(use_true_random=False))
def test_the_order_of_runs_changes_nothing(scores, random):
    shuffled = [random.sample(x, len(x)) for x in scores]
    assert interquartile_mean(shuffled, rng(), **FEW) == interquartile_mean(scores, rng(), **FEW)
    assert mean(shuffled, rng(), **FEW) == mean(scores, rng(), **FEW)
    other = [[0.0, 1.0]] * len(scores)
    poi = probability_of_improvement
    assert poi(shuffled, other, rng(), **FEW) == poi(scores, other, rng(), **FEW)
    assert performance_profile(shuffled, [0], rng(), **FEW) == performance_profile(scores, [0], rng(), **FEW)


@settings(max_examples=50, deadline=None)
@given(games, st.sampled_from([0.5, 2.0, 4.0]), score)
def test_iqm_and_its_interval_follow_a_change_of_units(scores, a, b):
    plain = interquartile_mean(scores, rng(), **FEW)
    scaled = interquartile_mean([[a * x + b for x in g] for g in scores], rng(), **FEW)
    expected = [a * x + b for x in (plain.value, plain.low, plain.high)]
    assert [scaled.value, scaled.low, scaled.high] == pytest.approx(expected)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(game, game), min_size=1, max_size=5))
def test_improvement_and_its_reverse_sum_to_one(pairs):
    x, y = zip(*pairs, strict=True)
    there, back = (probability_of_improvement(*both, rng(), **FEW) for both in ((x, y), (y, x)))
    assert there.value + back.value == pytest.approx(1)
    assert 0 <= there.low <= there.high <= 1


def test_improvement_is_the_same_on_any_rising_scale():
    x, y = drawn(1), drawn(0)
    plain = probability_of_improvement(x, y, rng())
    assert probability_of_improvement([np.exp(g) for g in x], [np.exp(g) for g in y], rng()) == plain


@pytest.mark.parametrize("estimate", [mean, interquartile_mean])
def test_a_seed_fixes_the_interval(estimate):
    assert estimate(drawn(1), rng(7)) == estimate(drawn(1), rng(7))
    assert estimate(drawn(1), rng(7)) != estimate(drawn(1), rng(8))


# --- one seed, no skill, speed ---


def test_one_seed_has_a_value_and_no_interval():
    one, two = [[1.0], [2.0]], [[1.0, 3.0], [2.0, 2.0]]
    found = [
        mean(one, rng()),
        interquartile_mean(one, rng()),
        probability_of_improvement(two, one, rng()),
        gap(one, one, rng()),
        retention(one, one, rng()),
        *performance_profile(one, [1.5], rng()),
        interquartile_mean([[1.0], [2.0, 3.0]], rng()),  # one game with one seed is enough
    ]
    for estimate in found:
        assert np.isfinite(estimate.value)
        assert (estimate.low, estimate.high, estimate.seeds) == (None, None, 1)


def test_no_scores_are_an_error():
    with pytest.raises(ValueError, match="at least one run"):
        mean([[1.0], []], rng())
    with pytest.raises(ValueError, match="same games"):
        probability_of_improvement([[1.0]], [[1.0], [2.0]], rng())


@pytest.mark.parametrize(
    ("clean", "beats"),
    [
        ([5.0], True),
        ([2.0], False),  # equal to random is not better
        ([5.0, 3.0, 2.5], True),
        ([500.0, 300.0, 1.9], False),  # of three seeds, each must
        ([3.0] * 19 + [1.9], True),  # of twenty, one may be unlucky
        ([1.0, 1.5, 0.0], False),
    ],
)
def test_skill_means_to_beat_random_with_the_lower_end(clean, beats):
    assert beats_random(clean, 2.0, rng()) is beats


def test_ten_thousand_resamples_take_well_below_a_second():
    x, y = drawn(1), drawn(0)
    began = time.process_time()  # of this process alone, however busy the machine is
    interquartile_mean(x, rng())
    probability_of_improvement(x, y, rng())
    assert time.process_time() - began < 1
