"""Does `converged` say the truth? Against decimal arithmetic of 80 digits, from 1e-12 to 1e12 in Q, alpha and targets.

The dual is convex, so a pair of multipliers is right if and only if each constraint is met at 0, still violated at 1,
and solved in between. `Exact` evaluates g at the corners of a few roundings around lambda: no float64 comes closer.
"""

import decimal
from dataclasses import dataclass
from decimal import Decimal
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dsacc.maths import Solution, joint, joint_multipliers, mean_multiplier, variance_multiplier
from dsacc.maths.newton import Problem, solved

EPS = 2.0**-52
A = 4
KINDS = ("mean", "variance", "both")
exact_context = decimal.Context(prec=80, Emin=decimal.MIN_EMIN, Emax=decimal.MAX_EMAX)


def tensor(*values: Any) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


@dataclass
class Exact:
    """One state with its allowed actions alone."""

    q: list[float]
    mu: float
    targets: tuple[float, float]
    temperature: float
    kind: str

    def __post_init__(self) -> None:
        self.d = [Decimal(x) for x in self.q]
        f = [self.d, [Decimal((x - self.mu) ** 2) for x in self.q]]  # rounded once, as everybody computes it
        chosen = KINDS.index(self.kind)
        pairs = list(zip(f, self.targets, strict=True))
        self.constraints = pairs if chosen == 2 else [pairs[chosen]]
        self.distance = [[x - Decimal(t) for x in f] for f, t in self.constraints]
        self.noise = [16 * Decimal(EPS) * max(*map(abs, f), abs(Decimal(t))) for f, t in self.constraints]

    def policy(self, lam: tuple[Decimal, ...]) -> list[Decimal]:
        x = [
            (q - sum((y * d for y, d in zip(lam, far, strict=True)), Decimal(0))) / Decimal(self.temperature)
            for q, far in zip(self.d, zip(*self.distance, strict=True), strict=True)
        ]
        weight = [(v - max(x)).exp() if v - max(x) > -400 else Decimal(0) for v in x]
        return [w / sum(weight) for w in weight]

    @staticmethod
    def around(lam: list[float]) -> list[tuple[Decimal, ...]]:
        """Lambda, and eight roundings to each side of it inside [0, 1]."""
        steps = [sorted({min(1.0, x * (1 + s * 8 * EPS)) for s in (-1, 0, 1)}) for x in lam]
        return [tuple(map(Decimal, corner)) for corner in product(*steps)]

    def optimal(self, lam: list[float], tolerance: float) -> bool:
        """Each constraint met at 0, violated at 1, solved in between, to `tolerance` of E|f - target|."""
        policies = [self.policy(corner) for corner in self.around(lam)]
        for (f, _), d, noise, x in zip(self.constraints, self.distance, self.noise, lam, strict=True):
            g = [sum(p * v for p, v in zip(pi, d, strict=True)) for pi in policies]
            size = [sum(p * abs(v) for p, v in zip(pi, d, strict=True)) * Decimal(tolerance) for pi in policies]
            met = any(a <= noise + b for a, b in zip(g, size, strict=True))
            violated = any(a >= -noise - b for a, b in zip(g, size, strict=True))
            if min(f) < max(f) and not ((met or x == 1) and (violated or x == 0)):
                return False
        return True

    def tolerance(self, lam: list[float]) -> float:
        """What `solved` promises, with a margin: a millionth, and the rounding of the largest exponent's parts."""
        parts = zip(map(abs, self.d), zip(*self.distance, strict=True), strict=True)
        size = max(q + sum(Decimal(y) * abs(d) for y, d in zip(lam, far, strict=True)) for q, far in parts)
        return min(1e-5 + 16 * EPS * float(size / Decimal(self.temperature)), 2e-3)

    def best_share(self) -> Decimal:
        """Of two actions: the probability of the second that is best for E[Q] + T H - sum_k max(0, E[f_k] - target_k).

        Its slope in the share p falls with the logit s of p, so it is bisected. No multiplier occurs in it.
        """
        T, low, high = Decimal(self.temperature), Decimal(-(10**60)), Decimal(10**60)
        share = Decimal(0)
        for _ in range(270):
            s = (low + high) / 2
            share = 1 / (1 + (-s).exp()) if abs(s) < 10**4 else Decimal(int(s > 0))
            slope = self.d[1] - self.d[0] - T * s
            for d in self.distance:
                slope -= d[1] - d[0] if d[0] * (1 - share) + d[1] * share > 0 else 0
            low, high = (s, high) if slope > 0 else (low, s)
        return share


@dataclass
class Batch:
    q: np.ndarray
    mu: np.ndarray
    targets: np.ndarray
    alpha: np.ndarray
    mask: np.ndarray

    def solve(self, kind: str) -> Solution:
        q, mu, alpha, mask = (torch.from_numpy(x) for x in (self.q, self.mu, self.alpha, self.mask))
        mean, variance = (torch.from_numpy(np.ascontiguousarray(x)) for x in self.targets.T)
        if kind == "mean":
            return mean_multiplier(q, mean, alpha, mask=mask)
        if kind == "variance":
            return variance_multiplier(q, variance, mu, alpha, mask=mask)
        return joint_multipliers(q, mean, variance, mu, alpha, mask=mask)

    def exact(self, kind: str) -> list[Exact]:
        return [
            Exact(q[some].tolist(), mu, tuple(t), T, kind)
            for q, some, mu, t, T in zip(self.q, self.mask, self.mu, self.targets, self.alpha, strict=True)
        ]


def made(
    value: np.ndarray, size: np.ndarray, alpha: np.ndarray, centre: np.ndarray, share: np.ndarray, mask: np.ndarray
) -> Batch:
    """Q = value * size, mu at `centre` sizes; targets a `share` of the way from the smallest f to the largest."""
    mask = mask | (np.arange(value.shape[1]) == 0)
    q, mu = value * size[:, None], centre * size
    f = np.stack([q, (q - mu[:, None]) ** 2], axis=1)
    low = np.where(mask[:, None], f, np.inf).min(axis=2)
    high = np.where(mask[:, None], f, -np.inf).max(axis=2)
    return Batch(q, mu, low + share * (high - low), alpha, mask)


values = st.one_of(st.floats(-3.0, 3.0).map(lambda x: round(x, 6)), st.integers(-3, 3).map(float))
magnitudes = st.floats(-12.0, 12.0).map(lambda x: 10.0**x)
shares = st.one_of(st.floats(-0.3, 1.3), st.sampled_from((0.0, 0.5, 1.0)))
centres = st.one_of(values, st.sampled_from((1e3, -1e6)))


@st.composite
def batches(draw: st.DrawFn, states: int = 48, actions: int = A) -> Batch:
    size, alpha = (draw(arrays(np.float64, states, elements=magnitudes)) for _ in range(2))
    return made(
        draw(arrays(np.float64, (states, actions), elements=values)),
        size,
        alpha,
        draw(arrays(np.float64, states, elements=centres)),
        draw(arrays(np.float64, (states, 2), elements=shares)),
        draw(arrays(np.bool_, (states, actions), elements=st.sampled_from((True, True, True, False)))),
    )


def random_batch(seed: int, states: int, actions: int, steepest: float) -> Batch:
    """Q from 1e-12 to 1e12, Q / alpha from 1e-3 to `steepest`: where lambda may lie inside."""
    rng = np.random.default_rng(seed)
    value = rng.standard_normal((states, actions))
    value = np.where(rng.random((states, 1)) < 0.3, np.round(value), value)
    size = 10 ** rng.uniform(-12, 12, states)
    alpha = np.clip(size / 10 ** rng.uniform(-3, np.log10(steepest), states), 1e-12, 1e12)
    centre = (rng.dirichlet(np.ones(actions), states) * value).sum(axis=1)
    mask = rng.random((states, actions)) < (0.8 if actions > 2 else 2.0)
    return made(value, size, alpha, centre, rng.uniform(-0.2, 1.2, (states, 2)), mask)


def lambdas(solution: Solution) -> list[list[float]]:
    rows: list[list[float]] = solution.value.reshape(len(solution.value), -1).tolist()
    return rows


@pytest.mark.parametrize("kind", KINDS)
@settings(deadline=None, derandomize=True, max_examples=5, phases=(Phase.generate,))
@given(batch=batches())
def test_what_converged_is_optimal_in_exact_arithmetic(kind: str, batch: Batch) -> None:
    solution = batch.solve(kind)
    assert torch.isfinite(solution.value).all()
    assert ((solution.value >= 0) & (solution.value <= 1)).all()
    assert torch.equal(solution.at_lower, solution.value == 0)
    with decimal.localcontext(exact_context):
        for exact, lam, converged in zip(batch.exact(kind), lambdas(solution), solution.converged, strict=True):
            assert exact.optimal(lam, exact.tolerance(lam)) or not converged, (exact, lam)


@pytest.mark.parametrize("kind", KINDS)
def test_up_to_a_spread_of_1e11_temperatures_every_state_converges(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    batch = random_batch(KINDS.index(kind), 1000, A, 1e11)
    bisected, bisection = [0], joint._nested_bisection

    def counted(base_BA: torch.Tensor, *problems: Problem) -> torch.Tensor:
        bisected[0] += len(base_BA)
        return bisection(base_BA, *problems)

    monkeypatch.setattr(joint, "_nested_bisection", counted)
    solution = batch.solve(kind)
    assert solution.converged.all()
    assert bisected[0] < 30  # Newton's steps go on until they are short beside the exponents
    inside = (solution.value > 0) & (solution.value < 1)
    assert inside.double().mean() > 0.15
    with decimal.localcontext(exact_context):
        for exact, lam in zip(batch.exact(kind)[:300], lambdas(solution), strict=False):
            assert exact.optimal(lam, 1e-5), (exact, lam)


def test_with_two_actions_the_policy_is_the_best_of_the_primal_problem_at_every_scale() -> None:
    batch = random_batch(7, 150, 2, 1e11)
    solution = batch.solve("both")
    assert solution.converged.all()
    with decimal.localcontext(exact_context):
        for exact, lam in zip(batch.exact("both"), lambdas(solution), strict=True):
            found = [exact.policy(corner)[1] for corner in exact.around(lam)]
            widths = [abs(d[1] - d[0]) for d in exact.distance]
            doubt = sum((2 * n / w for n, w in zip(exact.noise, widths, strict=True) if w), Decimal("1e-5"))
            assert min(found) - doubt <= exact.best_share() <= max(found) + doubt, (exact, lam)


# --- what was wrong before there was a certificate -------------------------------------------------------------------


def test_a_step_that_is_small_beside_the_box_is_not_the_last() -> None:
    """lambda_2 has to move by 1, and Newton's first steps are 1e-13."""
    q_BA = tensor([4e6, -1e6, 1e6])
    solution = joint_multipliers(q_BA, -1000007.0, 0.0, 4000003.0, 1.0)
    assert solution.value.tolist() == [[1.0, 1.0]]
    assert solution.residual.tolist() == [[pytest.approx(5000007.0), pytest.approx(9.0)]]
    assert solution.converged.tolist() == [True]


def test_where_newton_stops_too_early_bisection_takes_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joint, "EXPONENT_TOLERANCE", torch.inf)
    solution = joint_multipliers(tensor([4e6, -1e6, 1e6]), -1000007.0, 0.0, 4000003.0, 1.0)
    assert solution.iterations.tolist() == [3]
    assert solution.value.tolist() == [[1.0, 1.0]]
    assert solution.converged.tolist() == [True]


def test_one_multiplier_is_as_exact_where_1e_minus_13_of_it_is_much() -> None:
    """v = (0, 1e14, 1e14): a lambda that is wrong by 1e-13 changes an exponent by 10."""
    solution = variance_multiplier(tensor([-6e7, -5e7, -7e7]), 36405867862294.0, -6e7, 1.0)
    assert solution.residual.abs().item() <= 1e-6 * 36405867862294.0
    assert solution.converged.tolist() == [True]


def test_where_float64_holds_no_answer_it_is_said() -> None:
    # three quarters of 1e20 are met at 1 - lambda = ln 3 / 1e20, and the floats beside it are 1 - 1e-16 and 1
    q_BA = tensor([0.0, 1e20], [0.0, 1.0])
    target_B = tensor(0.75e20, 0.6).reshape(2)
    for solution in (mean_multiplier(q_BA, target_B, 1.0), joint_multipliers(q_BA, target_B, 1e60, 0.0, 1.0)):
        assert solution.converged.tolist() == [False, True]
        assert (solution.value.reshape(2, -1)[0, 0] - 1).abs() <= 2e-16
    # Q = v = (0, 1), and either constraint is the one that cannot be met
    for mean_target, variance_target in ((0.75, 2.0), (2.0, 0.75)):
        solution = joint_multipliers(tensor([0.0, 1.0]), mean_target, variance_target, 0.0, 1e-20)
        assert solution.converged.tolist() == [False]


# --- the certificate itself ------------------------------------------------------------------------------------------


def certificate(
    g: float, lower: bool = False, upper: bool = False, exponent: float = 0.0, noise: float = 0.0, flat: bool = False
) -> bool:
    """Of two actions at distance -+1 from the target, of which the second has the probability (1 + g) / 2."""
    p = Problem(tensor([-1.0, 1.0]), tensor(3.0), tensor(3.0), tensor(noise), torch.tensor([flat]))
    pi_BA = tensor([(1 - g) / 2, (1 + g) / 2])
    exponent_BA = torch.full((1, 2), exponent, dtype=torch.float64)
    return bool(solved(p, tensor(g), pi_BA, exponent_BA, torch.tensor([lower]), torch.tensor([upper])))


def test_inside_g_is_zero_to_a_millionth_of_the_distance_and_rounding() -> None:
    for sign in (1, -1):
        for g, room in ((1e-6, {}), (1.5e-6, {"noise": 0.5e-6}), (1e-6 + 8 * EPS * 1e9, {"exponent": 1e9})):
            assert certificate(sign * 0.99 * g, **room)
            assert not certificate(sign * 1.01 * g, **room)
        assert certificate(sign * 0.99e-3, exponent=1e15)
        assert not certificate(sign * 1.01e-3, exponent=1e15)
        assert not certificate(sign * 1.01e-3, exponent=torch.inf)


def test_on_a_bound_g_may_have_the_sign_that_holds_it_there() -> None:
    assert certificate(-0.5, lower=True)
    assert not certificate(0.5, lower=True)
    assert certificate(0.9e-6, lower=True)
    assert certificate(0.5, upper=True)
    assert not certificate(-0.5, upper=True)
    assert certificate(-0.9e-6, upper=True)
    assert certificate(0.5, lower=True, upper=True)
    assert certificate(-0.5, lower=True, upper=True)


def test_equal_values_are_solved_by_anything() -> None:
    assert certificate(0.5, flat=True)
