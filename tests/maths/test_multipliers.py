"""The two multipliers against a root finder of scipy's, closed forms, autograd, and what must hold of any answer.

g(lambda) = E_pi(lambda)[f] - target is written out once more here, in numpy and for any lambda, clipped or not.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import brentq
from scipy.special import softmax

from dsacc.maths import (
    Solution,
    boltzmann,
    expected_value,
    expected_variance,
    mean_constrained,
    mean_multiplier,
    perturbed_targets,
    variance_constrained,
    variance_multiplier,
)

EPS = 2.0**-52
ordinary = settings(deadline=None, derandomize=True, max_examples=200)
both_kinds = pytest.mark.parametrize("kind", ["mean", "variance"])
both_forms = pytest.mark.parametrize("form", ["tempered", "plain"])


@dataclass
class Rows:
    """A batch of problems: q [B, A], the rest [B]. `mu` matters to the variance form alone."""

    kind: str
    form: str
    q: np.ndarray
    mu: np.ndarray
    target: np.ndarray
    alpha: np.ndarray

    @property
    def f(self) -> np.ndarray:
        return self.q if self.kind == "mean" else (self.q - self.mu[:, None]) ** 2

    @property
    def temperature(self) -> np.ndarray:
        return self.alpha if self.form == "tempered" else np.ones_like(self.alpha)

    def solve(self, bounds: tuple[float, float] = (0.0, 1.0), **replaced: np.ndarray) -> Solution:
        given = {name: replaced.get(name, getattr(self, name)) for name in ("q", "target", "mu", "alpha")}
        q, target, mu, alpha = (torch.from_numpy(np.ascontiguousarray(x)) for x in given.values())
        if self.kind == "mean":
            return mean_multiplier(q, target, alpha, form=self.form, bounds=bounds)  # type: ignore[arg-type]
        return variance_multiplier(q, target, mu, alpha, form=self.form, bounds=bounds)  # type: ignore[arg-type]


def g_slope_rounding(rows: Rows, lam: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """g(lambda), |g'(lambda)| and the rounding error of g in float64, each [B].

    f - target is wrong by 2^-52 of its parts, and an exponent x by 2^-52 |x|, which scales its weight by as much:
    together 2^-52 E_pi[size (1 + |x|)], times 8 for the handful of operations that each number goes through. In the
    mean form `size` is |Q - target|, one subtraction of numbers that were given; in the variance form v is a result
    itself, and size = v + |target|.
    """
    T, f, target = rows.temperature[:, None], rows.f, rows.target[:, None]
    distance = f - target
    base, push = (rows.q - rows.q.max(axis=1, keepdims=True)) / T, lam[:, None] * distance / T
    pi = softmax(base - push, axis=1)
    g = (pi * distance).sum(axis=1)
    slope = (pi * (distance - g[:, None]) ** 2).sum(axis=1) / T[:, 0]
    size = np.abs(distance) if rows.kind == "mean" else f + np.abs(target)
    rounding = 8 * EPS * (pi * size * (1 + np.abs(base) + np.abs(push))).sum(axis=1)
    return g, slope, rounding


def noise_floor(rows: Rows) -> np.ndarray:
    """A g(0) up to this is rounding and makes no multiplier: 16 * 2^-52 max(|f|, |target|)."""
    return 16 * EPS * np.maximum(np.abs(rows.f).max(axis=1), np.abs(rows.target))


def check_against_g(rows: Rows, lam: np.ndarray) -> None:
    """At 0 the constraint is met, at 1 it is still violated, and in between g changes its sign within 2e-13."""
    g, _, rounding = g_slope_rounding(rows, lam)
    equal = rows.f.max(axis=1) == rows.f.min(axis=1)
    assert (lam[equal] == 0).all()
    assert (g <= noise_floor(rows) + rounding)[(lam == 0) & ~equal].all()
    assert (g >= -rounding)[lam == 1].all()
    between = (lam > 0) & (lam < 1)
    (g_left, _, rounding_left), (g_right, _, rounding_right) = (
        g_slope_rounding(rows, lam + x) for x in (-2e-13, 2e-13)
    )
    assert (g_left >= -rounding_left)[between].all()
    assert (g_right <= rounding_right)[between].all()


# --- against scipy's root finder -------------------------------------------------------------------------------------


def random_rows(rng: np.random.Generator, kind: str, form: str, batch: int, actions: int) -> Rows:
    """std(Q)/T from 1e-3 to 1e4, ties, offsets to 1e6, float32 values; targets inside and outside the reachable."""
    alpha = 10 ** rng.uniform(-2, 2, batch)
    T = alpha if form == "tempered" else np.ones(batch)
    std = 10 ** rng.uniform(-3, 4, batch) * T
    q = rng.standard_normal((batch, actions))
    q = np.where(rng.random((batch, 1)) < 0.25, np.round(q), q)  # ties, sometimes of all actions
    q *= (std / np.where(q.std(axis=1) > 0, q.std(axis=1), 1.0))[:, None]
    q += np.where(rng.random(batch) < 0.5, rng.uniform(-1, 1, batch) * 10 ** rng.uniform(0, 6, batch), 0.0)[:, None]
    q = np.where(rng.random((batch, 1)) < 0.25, q.astype(np.float32).astype(np.float64), q)
    actor = rng.dirichlet(np.ones(actions), batch)
    mu = (actor * q).sum(axis=1) + 0.5 * std * rng.standard_normal(batch)
    rows = Rows(kind, form, q, mu, np.zeros(batch), alpha)
    f, low, high = rows.f, rows.f.min(axis=1), rows.f.max(axis=1)

    # a target that a known lambda meets, as small as the steepness of g asks for
    known = rng.uniform(-0.5, 1.5, batch)
    if kind == "variance":
        known *= np.maximum(1.0, f.std(axis=1) / T) ** -rng.uniform(0, 1, batch)
    centred_q, centred_f = q - q.max(axis=1, keepdims=True), f - f.mean(axis=1, keepdims=True)
    pi = softmax((centred_q - known[:, None] * centred_f) / T[:, None], axis=1)
    reachable = (pi * f).sum(axis=1)
    # what training asks for: the surrogate's moment, with noise of standard deviation 1
    surrogate = softmax(centred_q / alpha[:, None], axis=1)
    mean = (surrogate * q).sum(axis=1)
    if kind == "mean":
        trained = mean - rng.standard_normal(batch)
    else:
        trained = (surrogate * (q - mean[:, None]) ** 2).sum(axis=1)
    # anywhere, one in seven out of reach on either side
    anywhere = low + rng.uniform(-0.2, 1.2, batch) * (high - low)

    which = rng.integers(0, 4, batch)
    # all mass on one action leaves nothing to solve (flat, below): keep one in twenty of these
    which = np.where((which < 2) & (pi.max(axis=1) > 1 - 1e-6) & (rng.random(batch) < 0.95), 3, which)
    rows.target = np.select([which < 2, which == 2], [reachable, trained], anywhere)
    return rows


def clipped_root(q: np.ndarray, f: np.ndarray, target: float, T: float) -> float:
    """Brent's root of g on [0, 1] or the bound that it lies beyond, by the rules of the readings, one row."""
    distance, base = f - target, q - q.max()

    def g(lam: float) -> float:
        exponent = (base - lam * distance) / T
        weight = np.exp(exponent - exponent.max())
        return float(weight @ distance / weight.sum())

    if f.max() == f.min() or g(0.0) <= 16 * EPS * max(np.abs(f).max(), abs(target)):
        return 0.0
    if g(1.0) >= 0:
        return 1.0
    return float(brentq(g, 0.0, 1.0, xtol=1e-15, rtol=4 * EPS, maxiter=500))


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
@both_forms
@both_kinds
def test_multiplier_is_scipy_s_clipped_root(kind: str, form: str, seed: int) -> None:
    """2 seeds x 2 forms x 2 kinds x 18 widths x 500 = 72,000 rows.

    A row is flat to rounding where g at the answer is no larger than its own rounding error r, and r / |g'| exceeds
    1e-9: there float64 cannot tell answers apart that differ by 1e-9. Such rows are held to |g| <= r alone.
    """
    rng = np.random.default_rng([seed, kind == "mean", form == "plain"])
    flat, inside, total = 0, 0, 0
    for actions in range(1, 19):
        rows = random_rows(rng, kind, form, 500, actions)
        solution = rows.solve()
        lam = solution.value.numpy()
        expected = np.array(
            [clipped_root(*row) for row in zip(rows.q, rows.f, rows.target, rows.temperature, strict=True)]
        )
        g, slope, rounding = g_slope_rounding(rows, lam)
        equal = rows.f.max(axis=1) == rows.f.min(axis=1)
        flat_B = (np.abs(g) <= rounding) & (rounding > 1e-9 * slope) & ~equal
        np.testing.assert_allclose(lam[~flat_B], expected[~flat_B], rtol=0, atol=1e-9)
        check_against_g(rows, lam)
        between = (lam > 0) & (lam < 1)
        assert (np.abs(g) <= rounding + 1e-13 * slope)[between].all()
        assert solution.iterations.max() <= 80
        flat, inside, total = flat + flat_B.sum(), inside + (between & ~flat_B).sum(), total + len(lam)
    assert flat / total < (0.001 if kind == "mean" else 0.06)
    assert inside / total > 0.25  # the comparison is not about bounds alone


@both_forms
def test_twenty_iterations_suffice_for_the_mean_up_to_a_spread_of_a_thousand_temperatures(form: str) -> None:
    rng = np.random.default_rng(3)
    for actions in (2, 4, 9, 18):
        rows = random_rows(rng, "mean", form, 2000, actions)
        ordinary_B = rows.q.std(axis=1) <= 1000 * rows.temperature
        assert rows.solve().iterations.numpy()[ordinary_B].max() <= 20


@pytest.mark.parametrize(("kind", "most"), [("mean", 8.0), ("variance", 11.4)])
def test_the_first_guess_and_the_rule_on_stalling_steps_save_iterations(kind: str, most: float) -> None:
    rng = np.random.default_rng(3)
    taken = []
    for actions in (2, 4, 9, 18):
        solution = random_rows(rng, kind, "tempered", 1000, actions).solve()
        inside = (solution.value > 0) & (solution.value < 1)
        taken.append(solution.iterations[inside].double().mean().item())
    assert np.mean(taken) < most


def test_a_root_that_is_a_bound_itself_is_seen_without_iterating() -> None:
    solution = mean_multiplier(torch.tensor([[-1.0, 1.0]]), 0.0, 1.0)  # uniform at 1: g is 0 there
    assert solution.value.tolist() == [1.0]
    assert solution.iterations.tolist() == [0]


def test_a_policy_that_sits_on_its_target_with_all_its_mass_is_a_root() -> None:
    # Q - lambda v = 0, 3 - 9 lambda, 4 - 16 lambda: between 1/7 and 1/3 the second action has all the mass, and g = 0
    solution = variance_multiplier(torch.tensor([[0.0, 3.0, 4.0]]), 9.0, 0.0, 1e-3)
    assert 1 / 7 < solution.value.item() < 1 / 3
    assert solution.residual.item() == 0


@both_forms
@both_kinds
def test_a_bound_that_holds_is_seen_without_iterating(kind: str, form: str) -> None:
    solution = random_rows(np.random.default_rng(9), kind, form, 5000, 6).solve()
    assert solution.at_lower.any()
    assert solution.at_upper.any()
    assert (solution.iterations[solution.at_lower | solution.at_upper] == 0).all()
    assert (solution.iterations[~solution.at_lower & ~solution.at_upper] > 0).all()


# --- what holds of any answer ----------------------------------------------------------------------------------------

numbers = st.one_of(st.floats(-1e6, 1e6), st.floats(-2.0, 2.0), st.integers(-3, 3).map(float)).map(
    lambda x: x if abs(x) > 1e-100 else 0.0  # the square of anything smaller may have lost digits
)


@st.composite
def problems(draw: st.DrawFn, kinds: tuple[str, ...] = ("mean", "variance")) -> Rows:
    batch, actions = draw(st.integers(1, 4)), draw(st.integers(1, 6))
    kind, form = draw(st.sampled_from(kinds)), draw(st.sampled_from(("tempered", "plain")))
    q = draw(arrays(np.float64, (batch, actions), elements=numbers))
    mu = draw(arrays(np.float64, batch, elements=numbers))
    alpha = draw(arrays(np.float64, batch, elements=st.one_of(st.floats(1e-8, 1e3), st.floats(0.1, 10.0))))
    rows = Rows(kind, form, q, mu, np.zeros(batch), alpha)
    # a share of the way from the smallest f to the largest; below 0 and above 1 out of reach
    share = draw(arrays(np.float64, batch, elements=st.one_of(st.floats(-0.5, 1.5), st.sampled_from((0.0, 0.5, 1.0)))))
    low, high = rows.f.min(axis=1), rows.f.max(axis=1)
    rows.target = low + share * (high - low)
    return rows


@ordinary
@given(rows=problems())
def test_value_is_finite_and_inside_its_bounds_and_the_flags_say_which_holds(rows: Rows) -> None:
    solution = rows.solve()
    lam = solution.value
    assert lam.dtype == torch.float64
    assert (
        lam.shape == solution.residual.shape == solution.iterations.shape == solution.converged.shape == (len(rows.q),)
    )
    assert solution.converged.all()
    assert torch.isfinite(lam).all()
    assert torch.isfinite(solution.residual).all()
    assert ((lam >= 0) & (lam <= 1)).all()
    assert torch.equal(solution.at_lower, lam == 0)
    assert torch.equal(solution.at_upper, lam == 1)
    assert ((solution.iterations >= 0) & (solution.iterations <= 80)).all()


@ordinary
@given(rows=problems())
def test_residual_is_g_at_the_value_and_has_the_sign_that_the_value_asks_for(rows: Rows) -> None:
    solution = rows.solve()
    lam, residual = solution.value.numpy(), solution.residual.numpy()
    g, _, rounding = g_slope_rounding(rows, lam)
    assert (np.abs(residual - g) <= rounding).all()
    check_against_g(rows, lam)


@ordinary
@given(rows=problems(), rise=st.floats(1e-9, 10.0))
def test_a_higher_target_never_gives_a_higher_multiplier(rows: Rows, rise: float) -> None:
    size = np.maximum(np.abs(rows.f).max(axis=1), np.abs(rows.target))
    base = np.abs(rows.q - rows.q.max(axis=1, keepdims=True)).max(axis=1) / rows.temperature
    step = rise * size
    # the rise has to be seen through the rounding of the exponents
    assume((step > 1e3 * EPS * size * (1 + base + size / rows.temperature)).all())
    lower, higher = rows.solve().value, rows.solve(target=rows.target + step).value
    assert (higher <= lower + 1e-12).all()


@ordinary
@given(rows=problems())
def test_a_row_s_answer_does_not_depend_on_its_batch(rows: Rows) -> None:
    together = rows.solve().value
    _, slope, rounding = g_slope_rounding(rows, together.numpy())
    for b in range(len(rows.q)):
        row = slice(b, b + 1)
        alone = Rows(rows.kind, rows.form, rows.q[row], rows.mu[row], rows.target[row], rows.alpha[row]).solve()
        if (rounding <= 1e-11 * slope)[b] or bool(alone.at_lower | alone.at_upper):
            assert alone.value.item() == pytest.approx(together[b].item(), abs=1e-10)


# --- closed forms ----------------------------------------------------------------------------------------------------


def surrogate_moments(q: np.ndarray, alpha: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    pi = softmax((q - q.max(axis=1, keepdims=True)) / alpha[:, None], axis=1)
    mean = (pi * q).sum(axis=1)
    return mean, (pi * (q - mean[:, None]) ** 2).sum(axis=1)


@pytest.mark.parametrize("alpha", [0.05, 0.5, 1.0, 1.25, 2.0, 5.0, 40.0, 1000.0])
def test_plain_form_without_noise_gives_one_minus_one_over_alpha(alpha: float) -> None:
    q = np.random.default_rng(4).normal(0, 1, (200, 6))
    target, _ = surrogate_moments(q, np.full(200, alpha))
    solution = mean_multiplier(torch.from_numpy(q), torch.from_numpy(target), alpha, form="plain")
    expected = torch.full((200,), max(0.0, 1 - 1 / alpha), dtype=torch.float64)
    torch.testing.assert_close(solution.value, expected, rtol=0, atol=1e-12)


def test_plain_form_without_noise_gives_four_fifths_at_alpha_five() -> None:
    q_BA = torch.tensor([[0.0, 1.0, 3.0]], dtype=torch.float64)
    target_B = expected_value(boltzmann(q_BA, 5.0), q_BA)
    assert mean_multiplier(q_BA, target_B, 5.0, form="plain").value.item() == pytest.approx(0.8, abs=1e-13)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("ties", [False, True])
def test_tempered_form_without_noise_gives_exactly_zero(dtype: Any, ties: bool) -> None:
    rng = np.random.default_rng(5)
    for actions in range(1, 19):
        alpha = 10 ** rng.uniform(-3, 2, 1000)
        q = rng.standard_normal((1000, actions))
        q = np.round(q) if ties else q
        q = q * (alpha * 10 ** rng.uniform(-3, 4, 1000))[:, None] + rng.uniform(-1e6, 1e6, (1000, 1))
        q_BA, alpha_B = torch.from_numpy(q.astype(dtype)), torch.from_numpy(alpha)
        ours = perturbed_targets(q_BA.double(), alpha_B, torch.zeros(1), "none")
        theirs = (torch.from_numpy(x) for x in surrogate_moments(q.astype(dtype).astype(np.float64), alpha))
        for mean_B, variance_B in ((ours.mean_B, ours.variance_B), theirs):
            assert (mean_multiplier(q_BA, mean_B, alpha_B).value == 0).all()
            # the actor at the surrogate's mean: nothing is left for the variance either
            assert (variance_multiplier(q_BA, variance_B, mean_B, alpha_B).value == 0).all()


def test_tempered_variance_violation_at_zero_is_the_squared_distance_of_the_means() -> None:
    rng = np.random.default_rng(6)
    q, alpha, mu = rng.normal(0, 2, (100, 5)), 10 ** rng.uniform(-1, 1, 100), rng.normal(0, 2, 100)
    mean, variance = surrogate_moments(q, alpha)
    rows = Rows("variance", "tempered", q, mu, variance, alpha)
    np.testing.assert_allclose(rows.solve(bounds=(0.0, 0.0)).residual.numpy(), (mean - mu) ** 2, atol=1e-12)


def test_two_actions_have_a_closed_form() -> None:
    # pi_1 - pi_0 = tanh((1 - lambda) / alpha) for Q = -+1, and E[Q] is just that
    alpha_B = torch.tensor([0.5, 1.0, 2.0, 1.0, 1.0], dtype=torch.float64)
    lam_B = torch.tensor([0.25, 0.5, 0.9, 0.0, 1.0], dtype=torch.float64)
    q_BA = torch.tensor([[-1.0, 1.0]], dtype=torch.float64).expand(5, 2)
    target_B = torch.tanh((1 - lam_B) / alpha_B)
    torch.testing.assert_close(mean_multiplier(q_BA, target_B, alpha_B).value, lam_B, rtol=0, atol=1e-14)
    # variance around -1: v = [0, 4], weight of the second action sigmoid((2 - 4 lambda) / alpha)
    target_B = 4 * torch.sigmoid((2 - 4 * lam_B) / alpha_B)
    torch.testing.assert_close(variance_multiplier(q_BA, target_B, -1.0, alpha_B).value, lam_B, rtol=0, atol=1e-14)


def test_a_violation_within_sixteen_roundings_is_none_and_a_larger_one_counts() -> None:
    # At this temperature every policy is uniform, so g does not depend on lambda: 0 if it is rounding, else 1.
    q_BA, alpha = torch.tensor([[-1.0, 1.0]], dtype=torch.float64), 2.0**100
    for offset, size in ((0.0, 1.0), (2.0**20, 2.0**20 + 1)):
        for roundings, lam in ((0.0, 0.0), (15.0, 0.0), (17.0, 1.0), (-17.0, 0.0)):
            target_B = torch.tensor([offset - roundings * EPS * size], dtype=torch.float64)
            solution = mean_multiplier(q_BA + offset, target_B, alpha)
            assert solution.value.item() == lam
            assert solution.at_lower.item() == (lam == 0)
            assert solution.at_upper.item() == (lam == 1)
    # v = [0, 1], half of it on average
    for roundings, lam in ((15.0, 0.0), (17.0, 1.0)):
        target_B = torch.tensor([0.5 - roundings * EPS], dtype=torch.float64)
        assert variance_multiplier(torch.tensor([[0.0, 1.0]]), target_B, 0.0, alpha).value.item() == lam


# --- derivatives -----------------------------------------------------------------------------------------------------


def derivative_case(kind: str, form: str) -> tuple[Rows, torch.Tensor, torch.Tensor, torch.Tensor]:
    rng = np.random.default_rng(7)
    q, mu, alpha = rng.normal(1, 2, (40, 5)), rng.normal(1, 2, 40), rng.uniform(0.5, 3, 40)
    rows = Rows(kind, form, q, mu, rng.normal(1, 1, 40), alpha)
    return rows, torch.from_numpy(q), torch.from_numpy(rows.f), torch.from_numpy(rows.temperature)


@both_forms
@both_kinds
def test_g_falls_by_the_variance_of_f_over_the_temperature(kind: str, form: str) -> None:
    rows, q_BA, f_BA, T_B = derivative_case(kind, form)
    lam_B = torch.full((40,), 0.3, dtype=torch.float64, requires_grad=True)
    if kind == "mean":
        pi_BA = mean_constrained(q_BA, lam_B, T_B)
    else:
        pi_BA = variance_constrained(q_BA, lam_B, torch.from_numpy(rows.mu), T_B)
    (slope_B,) = torch.autograd.grad((pi_BA * f_BA).sum(), lam_B)
    expected_B = -expected_variance(pi_BA.detach(), f_BA) / T_B
    torch.testing.assert_close(slope_B, expected_B)
    step = 1e-5
    above, below = (rows.solve(bounds=(x, x)).residual for x in (0.3 + step, 0.3 - step))
    torch.testing.assert_close((above - below) / (2 * step), expected_B, rtol=1e-6, atol=1e-6)


@both_forms
@both_kinds
def test_g_is_minus_the_gradient_of_the_dual(kind: str, form: str) -> None:
    rows, q_BA, f_BA, T_B = derivative_case(kind, form)
    for lam in (0.0, 0.3, 1.0, -2.0):
        lam_B = torch.full((40,), lam, dtype=torch.float64, requires_grad=True)
        exponent_BA = (q_BA - lam_B[:, None] * f_BA) / T_B[:, None]
        dual_B = T_B * torch.logsumexp(exponent_BA, dim=-1) + lam_B * torch.from_numpy(rows.target)
        (gradient_B,) = torch.autograd.grad(dual_B.sum(), lam_B)
        torch.testing.assert_close(rows.solve(bounds=(lam, lam)).residual, -gradient_B)


# --- bounds ----------------------------------------------------------------------------------------------------------


@both_forms
@both_kinds
def test_wide_bounds_give_the_unclipped_multiplier(kind: str, form: str) -> None:
    rng = np.random.default_rng(8)
    q, mu = rng.normal(0, 0.3, (500, 5)), rng.normal(0, 0.3, 500)
    rows = Rows(kind, form, q, mu, np.zeros(500), rng.uniform(0.5, 2, 500))
    known = rng.uniform(-4.9, 4.9, 500)
    rows.target = g_slope_rounding(rows, known)[0]  # E[f] under that multiplier, the target being 0 so far
    wide = rows.solve(bounds=(-5.0, 5.0))
    _, slope, rounding = g_slope_rounding(rows, known)
    assert (np.abs(wide.value.numpy() - known) <= 1e-12 + rounding / slope).all()
    assert not (wide.at_lower | wide.at_upper).any()
    unit = rows.solve()
    torch.testing.assert_close(unit.value, wide.value.clamp(0, 1), rtol=0, atol=1e-9)
    assert torch.equal(unit.at_lower, wide.value <= 0)
    assert torch.equal(unit.at_upper, wide.value >= 1)
    narrow = rows.solve(bounds=(-0.25, 0.5))
    torch.testing.assert_close(narrow.value, wide.value.clamp(-0.25, 0.5), rtol=0, atol=1e-9)
    assert torch.equal(narrow.at_lower, wide.value <= -0.25)


@both_forms
@both_kinds
@pytest.mark.parametrize("fixed", [0.0, 0.4, 1.0, -3.0])
def test_equal_bounds_give_that_value_and_its_residual(kind: str, form: str, fixed: float) -> None:
    rows, *_ = derivative_case(kind, form)
    rows.q[0] = 2.5  # a row of equal values follows its bounds too
    solution = rows.solve(bounds=(fixed, fixed))
    assert (solution.value == fixed).all()
    assert solution.at_lower.all()
    assert solution.at_upper.all()
    assert (solution.iterations == 0).all()
    g, _, rounding = g_slope_rounding(rows, np.full(40, fixed))
    assert (np.abs(solution.residual.numpy() - g) <= rounding).all()


def test_equal_values_take_the_bound_nearest_to_zero() -> None:
    q_BA = torch.full((1, 3), 4.0)
    for bounds, value in (((0.0, 1.0), 0.0), ((-5.0, 5.0), 0.0), ((0.5, 2.0), 0.5), ((-2.0, -0.5), -0.5)):
        for target in (3.0, 4.0, 5.0):
            assert mean_multiplier(q_BA, target, 1.0, bounds=bounds).value.item() == value
            assert variance_multiplier(q_BA, target, 1.0, 1.0, bounds=bounds).value.item() == value


# --- extremes --------------------------------------------------------------------------------------------------------


@both_forms
@both_kinds
@pytest.mark.parametrize("alpha", [1e-300, 1e-8, 1.0, 1e8])
@pytest.mark.parametrize("size", [1e-200, 1e-30, 1.0, 1e30, 1e150, 1e200])
def test_extreme_numbers_give_a_finite_multiplier_inside_its_bounds(
    kind: str, form: str, alpha: float, size: float
) -> None:
    q = size * np.array([[1.0, 1.0, -1.0], [1.0, 0.0, -1.0], [1.0, 1.0, 1.0], [0.0, 0.0, 1.0], [-1.0, -1.0, -1.0]])
    for target in (0.0, size, -size, 0.5 * size, 1.0):
        for mu in (0.0, size):
            rows = Rows(kind, form, q, np.full(5, mu), np.full(5, target), np.full(5, alpha))
            solution = rows.solve()
            assert torch.isfinite(solution.value).all()
            assert torch.isfinite(solution.residual).all()
            assert ((solution.value >= 0) & (solution.value <= 1)).all()
            assert (solution.value[[2, 4]] == 0).all()  # equal values


@both_forms
def test_huge_q_and_tiny_alpha_still_give_the_right_multiplier(form: Any) -> None:
    # Q = [0, s]: E[Q] = s sigmoid((1 - lambda) s / T), from nearly s at 0 down to s / 2 at 1
    for dtype, size in ((torch.float32, 1e30), (torch.float64, 1e30), (torch.float64, 1e140)):
        q_BA = torch.tensor([[0.0, size]], dtype=dtype)
        target = q_BA.double().max(dim=1).values
        assert mean_multiplier(q_BA, target / 4, 1e-8, form=form).value.item() == 1.0
        assert mean_multiplier(q_BA, target * 2, 1e-8, form=form).value.item() == 0.0
    # three quarters of s is met at 1 - lambda = T ln 3 / s
    q_BA, target = torch.tensor([[0.0, 1e6]], dtype=torch.float64), torch.tensor([0.75e6], dtype=torch.float64)
    expected = 1 - np.log(3.0) / 1e6
    assert mean_multiplier(q_BA, target, 1.0, form=form).value.item() == pytest.approx(expected, abs=1e-13)


@both_forms
def test_one_action_leaves_nothing_to_choose(form: Any) -> None:
    q_BA = torch.tensor([[3.0], [-1e30]])
    for target in (-10.0, 3.0, 10.0):
        assert mean_multiplier(q_BA, target, 0.1, form=form).value.tolist() == [0.0, 0.0]
        solution = variance_multiplier(q_BA, target, 1.0, 0.1, form=form)
        assert solution.value.tolist() == [0.0, 0.0]
        assert solution.residual[0].item() == pytest.approx(4.0 - target)


# --- input -----------------------------------------------------------------------------------------------------------

Q = torch.tensor([[0.0, 1.0, 3.0], [2.0, -1.0, 0.0]], dtype=torch.float64)
ARGUMENTS = {"mean": ("target", "alpha"), "variance": ("target", "mu", "alpha")}
every_argument = pytest.mark.parametrize(("kind", "name"), [(k, name) for k in ARGUMENTS for name in ARGUMENTS[k]])


def solve_either(kind: str, **changed: Any) -> Solution:
    given = {"q": Q, "target": 1.0, "mu": 0.5, "alpha": 1.0} | changed
    if kind == "mean":
        del given["mu"]
        return mean_multiplier(**given)
    return variance_multiplier(**given)


@every_argument
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_nan_or_infinity_is_an_error_that_names_its_argument(kind: str, name: str, bad: float) -> None:
    for value in (bad, torch.tensor([1.0, bad])):
        with pytest.raises(ValueError, match=f"^{name} contains NaN or infinity, for which no multiplier is defined"):
            solve_either(kind, **{name: value})


@both_kinds
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_nan_or_infinity_in_one_q_is_an_error(kind: str, bad: float) -> None:
    with pytest.raises(ValueError, match=r"^q contains NaN or infinity, for which no multiplier is defined"):
        solve_either(kind, q=torch.where(Q == -1, bad, Q))


@both_kinds
@pytest.mark.parametrize("alpha", [0.0, -1.0, torch.tensor([1.0, 0.0]), torch.tensor([-1e-8, 1.0])])
def test_a_temperature_must_be_above_zero(kind: str, alpha: Any) -> None:
    for form in ("tempered", "plain"):
        with pytest.raises(ValueError, match="alpha must be above 0"):
            solve_either(kind, alpha=alpha, form=form)


@both_kinds
@pytest.mark.parametrize("q", [torch.zeros(3), torch.zeros(1, 2, 3), torch.zeros(2, 0), torch.tensor(1.0)])
def test_q_must_be_states_by_actions(kind: str, q: torch.Tensor) -> None:
    with pytest.raises(ValueError, match=r"q must be \[B, A\] with at least one action"):
        solve_either(kind, q=q)


@every_argument
@pytest.mark.parametrize("shape", [(3,), (2, 1), (2, 3), (0,)])
def test_other_arguments_must_be_numbers_or_one_per_state(kind: str, name: str, shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=rf"{name} must be a number or have the shape \[2\]"):
        solve_either(kind, **{name: torch.ones(shape)})


@both_kinds
def test_an_unknown_form_is_refused_by_name(kind: str) -> None:
    with pytest.raises(ValueError, match="'tempered' or 'plain', not 'appendix'"):
        solve_either(kind, form="appendix")


@both_kinds
@pytest.mark.parametrize("bounds", [(1.0, 0.0), (0.0, float("inf")), (-float("inf"), 0.0), (float("nan"), 1.0)])
def test_bounds_must_be_finite_and_in_order(kind: str, bounds: tuple[float, float]) -> None:
    with pytest.raises(ValueError, match="bounds must be two finite numbers, the smaller one first"):
        solve_either(kind, bounds=bounds)


@both_kinds
def test_numbers_stand_for_one_value_per_state(kind: str) -> None:
    expected = solve_either(kind, target=torch.ones(2), mu=torch.full((2,), 0.5), alpha=torch.ones(2)).value
    for target, mu, alpha in (
        (1.0, 0.5, 1.0),
        (1, 0.5, 1),
        (torch.tensor(1.0), torch.tensor(0.5), torch.tensor([1.0])),
    ):
        assert torch.equal(solve_either(kind, target=target, mu=mu, alpha=alpha).value, expected)


@every_argument
def test_a_python_number_keeps_its_float64_digits(kind: str, name: str) -> None:
    number = 1.1  # not a float32
    expected = solve_either(kind, **{name: torch.tensor([number, number], dtype=torch.float64)})
    found = solve_either(kind, **{name: number})
    assert torch.equal(found.value, expected.value)
    assert torch.equal(found.residual, expected.residual)


@both_kinds
def test_float32_q_with_a_gradient_is_solved_in_float64_and_left_as_it_was(kind: str) -> None:
    q_BA = Q.float().requires_grad_()
    solution = solve_either(kind, q=q_BA)
    assert solution.value.dtype == solution.residual.dtype == torch.float64
    assert not solution.value.requires_grad
    assert not solution.residual.requires_grad
    assert torch.equal(solution.value, solve_either(kind).value)
    assert torch.equal(q_BA.detach(), Q.float())


@every_argument
def test_a_gradient_of_an_argument_ends_at_the_solve(kind: str, name: str) -> None:
    solution = solve_either(kind, **{name: torch.tensor([1.0, 1.5], requires_grad=True)})
    assert not solution.value.requires_grad
    assert not solution.residual.requires_grad


@both_kinds
def test_no_states_give_no_multipliers(kind: str) -> None:
    assert solve_either(kind, q=torch.zeros(0, 3)).value.shape == (0,)


def test_a_spread_beyond_float64_gives_a_finite_answer() -> None:
    q = torch.tensor([[1.7e308, -1.7e308]], dtype=torch.float64)
    solution = mean_multiplier(q, torch.tensor([-1.7e308], dtype=torch.float64), 1.0)
    assert 0 <= solution.value.item() <= 1
    assert torch.isfinite(solution.residual).all()


def test_squares_beyond_float64_leave_a_finite_residual() -> None:
    q_BA = torch.tensor([[1e200, 0.0]], dtype=torch.float64)
    for alpha in (1.0, 1e12):
        assert torch.isfinite(variance_multiplier(q_BA, 0.0, 0.0, alpha).residual).all()
