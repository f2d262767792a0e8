"""Both multipliers at once, against scipy's bounded minimiser, the primal problem, and the conditions of optimality.

D(l1, l2) = T logsumexp((Q - l1 f1 - l2 f2) / T) + l1 t1 + l2 t2, with f1 = Q and f2 = (Q - mu)^2, is convex; on the box
[0, 1]^2 its smallest value is the largest value of E_p[Q] + T H(p) - sum_k max(0, E_p[f_k] - t_k) over policies p.
"""

from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import minimize, minimize_scalar
from scipy.special import logsumexp, softmax, xlogy

from dsacc.maths import (
    Solution,
    joint_multipliers,
    mean_multiplier,
    multipliers,
    perturbed_targets,
    variance_multiplier,
)
from dsacc.maths.joint import _inward_direction

EPS = 2.0**-52
ordinary = settings(deadline=None, derandomize=True, max_examples=150)
both_forms = pytest.mark.parametrize("form", ["tempered", "plain"])


@dataclass
class Rows:
    """A batch of problems: q [B, A], the rest [B]; targets [B, 2], mean first."""

    form: Any
    q: np.ndarray
    mu: np.ndarray
    targets: np.ndarray
    alpha: np.ndarray

    @property
    def temperature(self) -> np.ndarray:
        return self.alpha if self.form == "tempered" else np.ones_like(self.alpha)

    @property
    def f(self) -> np.ndarray:
        """[B, 2, A]."""
        return np.stack([self.q, (self.q - self.mu[:, None]) ** 2], axis=1)

    @property
    def distance(self) -> np.ndarray:
        return self.f - self.targets[:, :, None]

    def tensors(self) -> tuple[torch.Tensor, ...]:
        columns = (self.q, self.targets[:, 0], self.targets[:, 1], self.mu, self.alpha)
        return tuple(torch.from_numpy(np.ascontiguousarray(x)) for x in columns)

    def solve(self) -> Solution:
        return joint_multipliers(*self.tensors(), form=self.form)

    def policy(self, lam: np.ndarray) -> np.ndarray:
        centred = self.q - self.q.max(axis=1, keepdims=True)
        return softmax((centred - (lam[:, :, None] * self.distance).sum(axis=1)) / self.temperature[:, None], axis=1)

    def dual(self, lam: np.ndarray) -> np.ndarray:
        """D less max Q, which is the same for every lambda."""
        T, centred = self.temperature, self.q - self.q.max(axis=1, keepdims=True)
        return T * logsumexp((centred - (lam[:, :, None] * self.distance).sum(axis=1)) / T[:, None], axis=1)

    def g_slope_rounding(self, lam: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Of each constraint [B, 2]: g, how fast it falls with its own lambda, and the rounding error of g.

        The last is 2^-52 of the largest size and of E[size (1 + |exponent|)], times 8 for the handful of
        operations that each number goes through. size is |Q - target| for the mean and v + |target| for the variance.
        """
        T, distance = self.temperature[:, None], self.distance
        pi = self.policy(lam)
        base = np.abs(self.q - self.q.max(axis=1, keepdims=True)) / T
        push = (lam[:, :, None] * np.abs(distance)).sum(axis=1) / T
        size = np.abs(distance)
        size[:, 1] = self.f[:, 1] + np.abs(self.targets[:, 1:])
        rounding = 8 * EPS * (size.max(axis=2) + (pi[:, None] * size * (1 + base + push)[:, None]).sum(axis=2))
        g = (pi[:, None] * distance).sum(axis=2)
        return g, (pi[:, None] * (distance - g[:, :, None]) ** 2).sum(axis=2) / T, rounding


def random_rows(rng: np.random.Generator, form: str, batch: int, actions: int, spreads: tuple[float, float]) -> Rows:
    """std(Q)/T between 10^spreads, ties and offsets; targets that a known pair of multipliers meets, or anywhere."""
    alpha = 10 ** rng.uniform(-1, 1, batch)
    T = alpha if form == "tempered" else np.ones(batch)
    std = 10 ** rng.uniform(*spreads, batch) * T
    q = rng.standard_normal((batch, actions))
    q = np.where(rng.random((batch, 1)) < 0.2, np.round(q), q) * std[:, None]
    q += np.where(rng.random(batch) < 0.3, rng.uniform(-1e6, 1e6, batch), 0.0)[:, None]
    mu = (rng.dirichlet(np.ones(actions), batch) * q).sum(axis=1) + 0.3 * std * rng.standard_normal(batch)
    rows = Rows(form, q, mu, np.zeros((batch, 2)), alpha)
    f = rows.f
    steepness = np.maximum(1.0, f.std(axis=2) / T[:, None])
    known = rng.uniform(-0.3, 1.3, (batch, 2)) * steepness ** -rng.uniform(0, 1, (batch, 2))
    reached = (rows.policy(known)[:, None] * f).sum(axis=2)
    anywhere = f.min(axis=2) + rng.uniform(-0.2, 1.2, (batch, 2)) * (f.max(axis=2) - f.min(axis=2))
    rows.targets = np.where(rng.random((batch, 1)) < 0.7, reached, anywhere)
    return rows


def noise_floor(rows: Rows) -> np.ndarray:
    return 16 * EPS * np.maximum(np.abs(rows.f).max(axis=2), np.abs(rows.targets))


# --- against scipy ---------------------------------------------------------------------------------------------------


def scipy_minimum(q: np.ndarray, distance: np.ndarray, T: float) -> np.ndarray:
    """The pair that L-BFGS-B finds for one row, on lambdas scaled to the steepness of their exponents."""
    scale = 1 / np.maximum(1.0, np.abs(distance).max(axis=1) / T)
    base, unit = (q - q.max()) / T, distance / T * scale[:, None]

    def dual(x: np.ndarray) -> tuple[float, np.ndarray]:
        exponent = base - x @ unit
        peak = exponent.max()
        weight = np.exp(exponent - peak)
        return float(peak + np.log(weight.sum())), -(unit @ weight) / weight.sum()

    options = {"ftol": 1e-15, "gtol": 1e-10, "maxls": 50}
    box = [(0.0, 1 / s) for s in scale]
    found = minimize(dual, np.zeros(2), jac=True, method="L-BFGS-B", bounds=box, options=options)
    return scale * found.x


@pytest.mark.slow
@both_forms
@pytest.mark.parametrize("actions", [2, 3, 5, 12])
def test_dual_and_policy_are_those_of_scipy_s_bounded_minimiser(form: str, actions: int) -> None:
    rows = random_rows(np.random.default_rng(actions), form, 80, actions, (-1.0, 1.0))
    lam = rows.solve().value.numpy()
    problems = zip(rows.q, rows.distance, rows.temperature, strict=True)
    best = np.array([scipy_minimum(*problem) for problem in problems])
    ours, theirs = rows.dual(lam) / rows.temperature, rows.dual(best) / rows.temperature
    assert (ours <= theirs + 1e-12 * (1 + np.abs(theirs))).all()
    assert (theirs <= ours + 1e-6).all()  # scipy stops a little earlier
    assert np.abs(rows.policy(lam) - rows.policy(best)).max() <= 1e-5
    assert ((lam > 0) & (lam < 1)).any(axis=1).mean() > 0.5  # not about the box's corners alone


@both_forms
def test_with_two_actions_the_policy_is_the_best_of_the_primal_problem(form: str) -> None:
    """Lambda need not be unique with two actions; the policy is, and one number tells it."""
    rows = random_rows(np.random.default_rng(20), form, 200, 2, (-1.0, 1.0))
    lam = rows.solve().value.numpy()
    pi, dual = rows.policy(lam), rows.dual(lam) / rows.temperature
    for b in range(len(lam)):
        q, T, distance = rows.q[b] - rows.q[b].max(), rows.temperature[b], rows.distance[b]

        def loss(share: float, q: np.ndarray = q, T: float = T, distance: np.ndarray = distance) -> float:
            p = np.array([1 - share, share])
            return float(xlogy(p, p).sum() - (p @ q - np.maximum(0, distance @ p).sum()) / T)

        found = minimize_scalar(loss, bounds=(0.0, 1.0), method="bounded", options={"xatol": 1e-12, "maxiter": 500})
        assert abs(pi[b, 1] - found.x) <= 1e-6
        assert -dual[b] <= found.fun + 1e-12 * (1 + abs(found.fun))  # weak duality
        assert -dual[b] == pytest.approx(found.fun, abs=1e-5)  # strong duality; the loss has kinks


# --- the conditions of optimality ------------------------------------------------------------------------------------


def check_optimal(rows: Rows, solution: Solution) -> None:
    """At 0 a constraint is met, at 1 it is still violated, in between it is solved: to rounding, or lambda to 1e-13."""
    lam = solution.value.numpy()
    assert lam.shape == (len(rows.q), 2)
    assert np.isfinite(lam).all()
    assert ((lam >= 0) & (lam <= 1)).all()
    assert torch.equal(solution.at_lower, solution.value == 0)
    assert torch.equal(solution.at_upper, solution.value == 1)
    assert ((solution.iterations >= 0) & (solution.iterations <= 80)).all()
    assert solution.converged.shape == (len(rows.q),)
    assert solution.converged.all()
    g, slope, rounding = rows.g_slope_rounding(lam)
    assert (np.abs(solution.residual.numpy() - g) <= rounding).all()
    equal = rows.f.max(axis=2) == rows.f.min(axis=2)
    assert (lam[equal] == 0).all()
    steepness = np.sqrt(slope)  # |dg_k / dlambda_j| is at most the product of the two
    allowed = rounding + 1e-13 * steepness * steepness.sum(axis=1, keepdims=True)
    assert (g <= noise_floor(rows) + allowed)[(lam == 0) & ~equal].all()
    assert (g >= -allowed)[lam == 1].all()
    assert (np.abs(g) <= allowed)[(lam > 0) & (lam < 1)].all()


@pytest.mark.slow
@both_forms
@pytest.mark.parametrize("seed", [0])
def test_every_multiplier_is_slack_binding_or_solved(form: str, seed: int) -> None:
    """2 forms x 18 widths x 200 = 7,200 rows, std(Q)/T from 1e-3 to 1e4."""
    rng = np.random.default_rng([seed, form == "plain"])
    inside, unsettled = [], []
    for actions in range(1, 19):
        rows = random_rows(rng, form, 200, actions, (-3.0, 4.0))
        solution = rows.solve()
        check_optimal(rows, solution)
        lam = solution.value.numpy()
        inside.append(((lam > 0) & (lam < 1)).all(axis=1).mean())
        unsettled.append((solution.iterations == 80).double().mean().item())
    assert np.mean(inside) > 0.2
    assert np.mean(unsettled) < 0.035  # Newton settles nearly all, bisection takes the rest


numbers = st.one_of(st.floats(-1e3, 1e3), st.floats(-2.0, 2.0), st.integers(-3, 3).map(float)).map(
    lambda x: x if abs(x) > 1e-100 else 0.0  # the square of anything smaller may have lost digits
)


@st.composite
def problems(draw: st.DrawFn) -> Rows:
    batch, actions = draw(st.integers(1, 3)), draw(st.integers(1, 6))
    q = draw(arrays(np.float64, (batch, actions), elements=numbers))
    mu = draw(arrays(np.float64, batch, elements=numbers))
    alpha = draw(arrays(np.float64, batch, elements=st.floats(1e-2, 1e2)))
    rows = Rows(draw(st.sampled_from(("tempered", "plain"))), q, mu, np.zeros((batch, 2)), alpha)
    share = draw(
        arrays(np.float64, (batch, 2), elements=st.one_of(st.floats(-0.5, 1.5), st.sampled_from((0.0, 0.5, 1.0))))
    )
    low, high = rows.f.min(axis=2), rows.f.max(axis=2)
    rows.targets = low + share * (high - low)
    return rows


@ordinary
@given(rows=problems())
def test_any_answer_is_optimal(rows: Rows) -> None:
    check_optimal(rows, rows.solve())


# --- special cases ---------------------------------------------------------------------------------------------------


@both_forms
@pytest.mark.parametrize("slack", [0, 1])
def test_with_one_target_slack_the_other_is_solved_alone(form: Any, slack: int) -> None:
    rng = np.random.default_rng(30 + slack)
    inside = 0
    for actions in range(2, 19):
        rows = random_rows(rng, form, 100, actions, (-2.0, 1.5))
        q, mean_target, variance_target, mu, alpha = rows.tensors()
        if slack == 0:
            alone = variance_multiplier(q, variance_target, mu, alpha, form=form).value.numpy()
        else:
            alone = mean_multiplier(q, mean_target, alpha, form=form).value.numpy()
        lam = np.stack([0 * alone, alone] if slack == 0 else [alone, 0 * alone], axis=1)
        # the other target just above what that policy has, so that only the pair (0, alone) is optimal
        reached = (rows.policy(lam) * rows.f[:, slack]).sum(axis=1)
        rows.targets[:, slack] = reached + 0.01 * (1e-3 + rows.f[:, slack].max(axis=1) - rows.f[:, slack].min(axis=1))
        found = rows.solve().value.numpy()
        g, slope, rounding = (x[:, 1 - slack] for x in rows.g_slope_rounding(lam))
        settled = (np.abs(g) > rounding) | (rounding <= 1e-9 * slope)  # else flat to rounding: many lambdas serve
        assert (found[:, slack] == 0).all()
        np.testing.assert_allclose(found[settled, 1 - slack], alone[settled], rtol=0, atol=1e-9)
        inside += ((alone > 0) & (alone < 1) & settled).sum()
    assert inside > 500


@both_forms
def test_nested_bisection_finds_the_policy_that_newton_finds(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(40)
    iterations = []
    for actions in (1, 2, 3, 4, 8, 18):
        rows = random_rows(rng, form, 100, actions, (-2.0, 1.5))
        newton = rows.solve()
        iterations.append(newton.iterations.double().mean().item())
        with monkeypatch.context() as patch:
            patch.setattr(multipliers, "solve_two", partial(multipliers.solve_two, max_iterations=0))
            bisection = rows.solve()
        assert (bisection.iterations == 0).all()
        check_optimal(rows, bisection)
        one, two = rows.policy(newton.value.numpy()), rows.policy(bisection.value.numpy())
        np.testing.assert_allclose(one, two, rtol=0, atol=1e-9)
    assert np.mean(iterations) < 4.0  # the longer steps come late, and only where they help


def test_newton_s_direction_descends_into_the_box_and_is_no_longer_than_it() -> None:
    rng = np.random.default_rng(60)
    rows, size_BK = 2000, torch.from_numpy(10 ** rng.uniform(-1, 2, (2000, 2)))
    y_BK = size_BK * torch.from_numpy(rng.choice([0.0, 0.5, 1.0], (rows, 2)))
    g_BK = torch.from_numpy(rng.normal(0, 1, (rows, 2)))
    one, two, angle = 10 ** rng.uniform(-3, 0, rows), 10 ** rng.uniform(-3, 0, rows), rng.uniform(-0.99, 0.99, rows)
    covariance = tuple(torch.from_numpy(x) for x in (one, angle * np.sqrt(one * two), two))
    held_BK = ((y_BK <= 0) & (g_BK <= 0)) | ((y_BK >= size_BK) & (g_BK >= 0))
    direction_BK = _inward_direction(y_BK, g_BK, covariance, held_BK, size_BK)
    assert (direction_BK[y_BK <= 0] >= 0).all()
    assert (direction_BK[y_BK >= size_BK] <= 0).all()
    assert (direction_BK[held_BK] == 0).all()
    assert (direction_BK.abs() <= size_BK * (1 + 1e-12)).all()
    fall_B = (g_BK * direction_BK).sum(dim=1)
    assert (fall_B >= 0).all()
    assert (fall_B[~held_BK.all(dim=1)] > 0).double().mean() > 0.99
    free_B = (y_BK > 0).all(dim=1) & (y_BK < size_BK).all(dim=1)  # Newton's own direction: covariance times it is g
    a, b, c = (x[free_B, None] for x in covariance)
    moved_BK = torch.cat((a, b), dim=1) * direction_BK[free_B, :1] + torch.cat((b, c), dim=1) * direction_BK[free_B, 1:]
    share_B = (moved_BK / g_BK[free_B])[:, :1]  # 1, or less where the box is too small
    assert ((share_B > 0) & (share_B <= 1 + 1e-9)).all()
    torch.testing.assert_close(moved_BK, share_B * g_BK[free_B], rtol=1e-6, atol=1e-9)


@both_forms
def test_equal_values_and_one_action_give_no_multipliers(form: Any) -> None:
    for q_BA in (torch.full((2, 4), 3.0), torch.tensor([[3.0], [-1e30]])):
        for mean_target, variance_target in ((-5.0, -5.0), (5.0, 5.0), (3.0, 0.0)):
            solution = joint_multipliers(q_BA, mean_target, variance_target, 1.0, 0.5, form=form)
            assert solution.value.tolist() == [[0.0, 0.0], [0.0, 0.0]]
            assert solution.at_lower.all()
            assert (solution.iterations == 0).all()


def test_values_at_equal_distance_from_mu_leave_the_mean_alone_to_solve() -> None:
    # Q = -+1 and mu = 0: v is 1 for both. E[Q] = tanh(1 - lambda) at alpha = 1.
    q_BA = torch.tensor([[-1.0, 1.0]], dtype=torch.float64)
    target_B = torch.tensor([0.25], dtype=torch.float64)
    solution = joint_multipliers(q_BA, target_B, 0.5, 0.0, 1.0)
    assert solution.value[0].tolist() == pytest.approx([1 - np.arctanh(0.25), 0.0], abs=1e-13)
    assert solution.residual[0].tolist() == pytest.approx([0.0, 0.5], abs=1e-13)


def test_tempered_form_without_noise_gives_exactly_zero() -> None:
    rng = np.random.default_rng(50)
    for actions in range(1, 19):
        alpha_B = torch.from_numpy(10 ** rng.uniform(-3, 2, 200))
        q = rng.standard_normal((200, actions)) * (alpha_B.numpy() * 10 ** rng.uniform(-3, 4, 200))[:, None]
        q_BA = torch.from_numpy((q + rng.uniform(-1e6, 1e6, (200, 1))).astype(np.float32))
        targets = perturbed_targets(q_BA.double(), alpha_B, torch.zeros(1), "none")
        solution = joint_multipliers(q_BA, targets.mean_B, targets.variance_B, targets.mean_B, alpha_B)
        assert (solution.value == 0).all()


def test_two_constraints_worked_by_hand() -> None:
    # Q = [0, 1, 2], mu = 0: exponents 0, (1 - a) - b, 2 (1 - a) - 4 b. With a = b = 1/2: 0, 0, -1.
    q_BA = torch.tensor([[0.0, 1.0, 2.0]], dtype=torch.float64)
    weight = np.array([1.0, 1.0, np.exp(-1.0)])
    pi = weight / weight.sum()
    mean_B, variance_B = torch.tensor([pi[1] + 2 * pi[2]]), torch.tensor([pi[1] + 4 * pi[2]])
    solution = joint_multipliers(q_BA, mean_B, variance_B, 0.0, 1.0)
    assert solution.value[0].tolist() == pytest.approx([0.5, 0.5], abs=1e-12)
    assert solution.residual[0].tolist() == pytest.approx([0.0, 0.0], abs=1e-14)
    assert not (solution.at_lower | solution.at_upper).any()


@both_forms
def test_extreme_numbers_give_finite_multipliers_inside_the_box(form: str) -> None:
    shapes = [[1.0, 1.0, -1.0], [1.0, 0.0, -1.0], [1.0, 1.0, 1.0], [0.0, 0.0, 1.0], [-1.0, -1.0, -1.0]]
    sizes, alphas = (1e-200, 1e-30, 1.0, 1e30, 1e150, 1e200), (1e-8, 1.0, 1e8)
    cases = [  # Q, mu, target, alpha
        ([size * x for x in shape], size * centre, target, alpha)
        for shape, size, alpha, centre in product(shapes, sizes, alphas, (0.0, 1.0))
        for target in (0.0, size, -size, 0.5 * size, 1.0)
    ]
    q, mu, target, alpha = (np.array(x) for x in zip(*cases, strict=True))
    solution = Rows(form, q, mu, np.stack([target, target], axis=1), alpha).solve()
    assert torch.isfinite(solution.value).all()
    assert torch.isfinite(solution.residual).all()
    assert ((solution.value >= 0) & (solution.value <= 1)).all()
    equal = q.max(axis=1) == q.min(axis=1)
    assert (solution.value[equal] == 0).all()
    assert solution.converged[equal].all()


# --- input -----------------------------------------------------------------------------------------------------------

Q = torch.tensor([[0.0, 1.0, 3.0], [2.0, -1.0, 0.0]], dtype=torch.float64)


def solve(**changed: Any) -> Solution:
    given: dict[str, Any] = {"q": Q, "mean_target": 1.0, "variance_target": 0.5, "mu": 0.5, "alpha": 1.0}
    return joint_multipliers(**(given | changed))


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
@pytest.mark.parametrize("name", ["q", "mean_target", "variance_target", "mu", "alpha"])
def test_nan_or_infinity_is_an_error_that_names_its_argument(name: str, bad: float) -> None:
    value = torch.where(Q == -1, bad, Q) if name == "q" else torch.tensor([1.0, bad])
    with pytest.raises(ValueError, match=f"^{name} contains NaN or infinity"):
        solve(**{name: value})


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"alpha": 0.0}, "alpha must be above 0"),
        ({"form": "both"}, "'tempered' or 'plain', not 'both'"),
        ({"q": torch.zeros(3)}, r"q must be \[B, A\]"),
        ({"mean_target": torch.zeros(3)}, r"mean_target must be a number or have the shape \[2\]"),
        ({"variance_target": torch.zeros(2, 1)}, r"variance_target must be a number or have the shape \[2\]"),
    ],
)
def test_other_bad_input_is_an_error_that_says_what_is_wrong(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        solve(**changed)


def test_numbers_stand_for_one_value_per_state() -> None:
    each = {name: torch.full((2,), x) for name, x in (("mean_target", 1.0), ("variance_target", 0.5), ("mu", 0.5))}
    assert torch.equal(solve().value, solve(**each, alpha=torch.ones(2)).value)


def test_no_states_give_no_multipliers() -> None:
    assert solve(q=torch.zeros(0, 3)).value.shape == (0, 2)
