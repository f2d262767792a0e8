"""Lambda, one per state: the clipped root of g(lambda) = E_pi(lambda)[f] - target, exact and never out of its bounds.

Both constraints have one shape. With T the temperature in the constrained policy's exponent (alpha in the `tempered`
form, 1 in the `plain` form of the appendix) and d = (f - target) / T,

    pi(lambda) ∝ exp(Q / T - lambda d)        (the target shifts every exponent alike, so it does not matter there)
    g / T      = E_pi(lambda)[d]              (falls monotonically)
    g' / T     = -Var_pi(lambda)[d]
    D / T      = logsumexp(Q / T - lambda d)  (convex; its gradient is -g / T)

so one Newton iteration on d serves them all. The paper iterates Newton's method without a bracket until g < 1e-15, with
no absolute value and no cap: that overshoots where g is flat and cannot stop where rounding exceeds 1e-15.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from dsacc.maths.policies import Number, _column

Form = Literal["tempered", "plain"]
Bounds = tuple[float, float]

MAX_ITERATIONS = 80
STEP_TOLERANCE = 1e-13  # a Newton step of this size is taken, and is the last
ROUNDING = 16 * 2.0**-52  # a residual this small beside the numbers it came from is noise, not a violated constraint
_EPS = 2.0**-52
_HUGE = 1e300  # exponents are kept below this; only |Q| or 1/alpha beyond 1e150 are changed by it


@dataclass(frozen=True)
class Solution:
    """What a solve found, per state; [B, 2] (mean, variance) for the joint solve, but for `iterations`."""

    value: Tensor  # lambda, float64, inside the bounds
    residual: Tensor  # signed g at that value, in units of f: about 0 inside, of either sign at a bound
    iterations: Tensor  # [B], Newton or bisection steps taken
    at_lower: Tensor  # the lower bound held
    at_upper: Tensor  # the upper bound held


@dataclass(frozen=True)
class _Problem:
    """One constraint in dimensionless units: the exponent base - lambda * size * unit, g = scale * E[unit]."""

    unit_BA: Tensor  # d, scaled to [-1, 1]
    size_B: Tensor  # the largest |d| of the row
    scale_B: Tensor  # T * size: from E[unit] back to g in units of f
    noise_B: Tensor  # E[unit] at most this large is rounding
    flat_B: Tensor  # every action has the same f: lambda has no effect


def mean_multiplier(
    q: Tensor, target: Number, alpha: Number, *, form: Form = "tempered", bounds: Bounds = (0.0, 1.0)
) -> Solution:
    """lambda_1 with E_pi[Q] = target under pi ∝ exp((1 - lambda_1) Q / T), clipped to `bounds`. [B, A], [B] -> [B]."""
    q_BA, T_B = _checked(q, alpha, form, bounds)
    peak_B = q_BA.amax(dim=-1)
    centred_BA = q_BA - peak_B[:, None]  # offsets of any size drop out before anything is multiplied
    target_B = _row(target, q_BA, "target")
    size_B = torch.maximum(q_BA.abs().amax(dim=-1), target_B.abs())
    problem = _problem(centred_BA, target_B - peak_B, size_B, T_B)
    return _solve_one(_bounded(centred_BA / T_B[:, None]), problem, bounds)


def variance_multiplier(
    q: Tensor, target: Number, mu: Number, alpha: Number, *, form: Form = "tempered", bounds: Bounds = (0.0, 1.0)
) -> Solution:
    """lambda_2 with E_pi[v] = target under pi ∝ exp((Q - lambda_2 v) / T), v = (Q - mu)^2, clipped to `bounds`.

    [B, A], [B], [B] -> [B]. `mu` is the actor's mean mu_phi; for a perturbed constraint pass mu - eps.
    """
    q_BA, T_B = _checked(q, alpha, form, bounds)
    target_B = _row(target, q_BA, "target")
    v_BA = _squared_deviation(q_BA, _row(mu, q_BA, "mu"))
    size_B = torch.maximum(v_BA.amax(dim=-1), target_B.abs())
    problem = _problem(v_BA, target_B, size_B, T_B)
    return _solve_one(_base(q_BA, T_B), problem, bounds)


def joint_multipliers(
    q: Tensor, mean_target: Number, variance_target: Number, mu: Number, alpha: Number, *, form: Form = "tempered"
) -> Solution:
    """(lambda_1, lambda_2) in [0, 1]^2 for both constraints at once, pi ∝ exp(((1 - l1) Q - l2 (Q - mu)^2) / T).

    [B, A], [B] -> [B, 2]. Minimises the convex dual D by projected Newton steps with a line search; a row that has not
    settled by then is solved by nested bisection. With two actions only the policy is unique, not lambda.
    """
    q_BA, T_B = _checked(q, alpha, form, (0.0, 1.0))
    mean_B, variance_B = _row(mean_target, q_BA, "mean_target"), _row(variance_target, q_BA, "variance_target")
    peak_B = q_BA.amax(dim=-1)
    v_BA = _squared_deviation(q_BA, _row(mu, q_BA, "mu"))
    first = _problem(q_BA - peak_B[:, None], mean_B - peak_B, torch.maximum(q_BA.abs().amax(dim=-1), mean_B.abs()), T_B)
    second = _problem(v_BA, variance_B, torch.maximum(v_BA.amax(dim=-1), variance_B.abs()), T_B)
    return _solve_two(_base(q_BA, T_B), first, second)


# --- input -----------------------------------------------------------------------------------------------------------


def _checked(q: Tensor, alpha: Number, form: Form, bounds: Bounds) -> tuple[Tensor, Tensor]:
    """Q in float64 and the exponent's temperature per row, or a sentence about what is wrong with the input."""
    if q.dim() != 2 or q.shape[1] < 1:
        raise ValueError(f"q must be [B, A] with at least one action, not of shape {tuple(q.shape)}")
    if form not in ("tempered", "plain"):
        raise ValueError(f"multiplier form is 'tempered' or 'plain', not {form!r}")
    lower, upper = bounds
    if not (-float("inf") < lower <= upper < float("inf")):
        raise ValueError(f"bounds must be two finite numbers in order, not {bounds}")
    q_BA = q.detach().double()
    if not torch.isfinite(q_BA).all():
        raise ValueError("q holds NaN or infinity; the multiplier of such a state is not defined")
    alpha_B = _row(alpha, q_BA, "alpha")
    if not (alpha_B > 0).all():
        raise ValueError("alpha must be above 0; without a temperature there is no constrained policy")
    return q_BA, alpha_B if form == "tempered" else torch.ones_like(alpha_B)


def _row(x: Number, q_BA: Tensor, name: str) -> Tensor:
    # A Python number becomes float64 at once: by way of float32 it would lose half of its digits.
    x_B = torch.as_tensor(x, dtype=torch.float64, device=q_BA.device).detach()
    if x_B.dim() > 1 or (x_B.dim() == 1 and x_B.shape[0] not in (1, q_BA.shape[0])):
        raise ValueError(f"{name} must be a number or of shape [{q_BA.shape[0]}], not {tuple(x_B.shape)}")
    if not torch.isfinite(x_B).all():
        raise ValueError(f"{name} holds NaN or infinity; the multiplier of such a state is not defined")
    return x_B.expand(q_BA.shape[0])


def _bounded(x: Tensor) -> Tensor:
    return x.clamp(-_HUGE, _HUGE)


def _base(q_BA: Tensor, T_B: Tensor) -> Tensor:
    return _bounded((q_BA - q_BA.amax(dim=-1, keepdim=True)) / T_B[:, None])


def _squared_deviation(q_BA: Tensor, mu_B: Tensor) -> Tensor:
    return _bounded((q_BA - _column(mu_B, q_BA)) ** 2)


def _problem(f_BA: Tensor, target_B: Tensor, magnitude_B: Tensor, T_B: Tensor) -> _Problem:
    d_BA = _bounded((f_BA - target_B[:, None]) / T_B[:, None])
    size_B = d_BA.abs().amax(dim=-1)
    safe_B = torch.where(size_B > 0, size_B, 1.0)
    noise_B = _bounded(ROUNDING * magnitude_B / T_B) / safe_B
    flat_B = f_BA.amax(dim=-1) == f_BA.amin(dim=-1)
    return _Problem(d_BA / safe_B[:, None], safe_B, T_B * safe_B, noise_B, flat_B)


# --- one constraint --------------------------------------------------------------------------------------------------


def _moments(base_BA: Tensor, p: _Problem, lam_B: Tensor) -> tuple[Tensor, Tensor]:
    """E[unit] and Var[unit] under pi(lambda). softmax subtracts the maximum of the whole exponent itself."""
    pi_BA = torch.softmax(base_BA - (lam_B * p.size_B)[:, None] * p.unit_BA, dim=-1)
    mean_B = (pi_BA * p.unit_BA).sum(dim=-1)
    return mean_B, (pi_BA * (p.unit_BA - mean_B[:, None]).square_()).sum(dim=-1)


def _solve_one(base_BA: Tensor, p: _Problem, bounds: Bounds) -> Solution:
    """The root of E[unit] in `bounds`: Newton in a shrinking bracket, bisecting when a step leaves it or stalls."""
    lower, upper = bounds
    low_B, high_B = torch.full_like(p.size_B, lower), torch.full_like(p.size_B, upper)
    g_low_B, _ = _moments(base_BA, p, low_B)
    g_high_B, _ = _moments(base_BA, p, high_B)
    slack_B = g_low_B <= p.noise_B
    beyond_B = ~slack_B & (g_high_B >= 0)
    done_B = p.flat_B | slack_B | beyond_B

    # Regula falsi gives the first guess; rows that are done hold their answer from here on.
    share_B = (g_low_B / (g_low_B - g_high_B)).clamp(0.0, 1.0).nan_to_num(0.5)
    lam_B = torch.where(beyond_B, high_B, torch.where(slack_B, low_B, low_B + share_B * (high_B - low_B)))
    lam_B = torch.where(p.flat_B, min(max(0.0, lower), upper), lam_B)
    last_step_B = high_B - low_B
    iterations_B = torch.zeros_like(lam_B, dtype=torch.int64)
    for _ in range(MAX_ITERATIONS):
        if bool(done_B.all()):
            break
        iterations_B += ~done_B
        g_B, variance_B = _moments(base_BA, p, lam_B)
        low_B = torch.where(g_B >= 0, lam_B, low_B)
        high_B = torch.where(g_B <= 0, lam_B, high_B)
        step_B = torch.where(g_B == 0, 0.0, g_B / (p.size_B * variance_B))
        newton_B = lam_B + step_B
        # <= and not <: a converged row steps onto its own bracket, and must not be thrown back to the middle.
        good_B = (newton_B >= low_B) & (newton_B <= high_B) & (2 * step_B.abs() <= last_step_B)
        resolution_B = lam_B.abs().clamp(min=1.0)
        settled_B = (step_B.abs() <= STEP_TOLERANCE * resolution_B) | (high_B - low_B <= _EPS * lam_B.abs())
        next_B = torch.where(good_B, newton_B, (low_B + high_B) / 2)
        next_B = torch.where(settled_B, newton_B.clamp(low_B, high_B), next_B)
        last_step_B = (next_B - lam_B).abs()
        lam_B = torch.where(done_B, lam_B, next_B)
        done_B = done_B | settled_B
    g_B, _ = _moments(base_BA, p, lam_B)
    return Solution(lam_B, g_B * p.scale_B, iterations_B, lam_B == lower, lam_B == upper)


# --- two constraints -------------------------------------------------------------------------------------------------


def _solve_two(base_BA: Tensor, first: _Problem, second: _Problem, max_iterations: int = MAX_ITERATIONS) -> Solution:
    """Projected Newton on D(y) = logsumexp(base - y1 u1 - y2 u2) over the box 0 <= y_i <= size_i, y = lambda * size."""
    unit_BKA = torch.stack((first.unit_BA, second.unit_BA), dim=1)
    size_BK = torch.stack((first.size_B, second.size_B), dim=1)
    noise_BK = torch.stack((first.noise_B, second.noise_B), dim=1)
    frozen_BK = torch.stack((first.flat_B, second.flat_B), dim=1)
    y_BK = torch.zeros_like(size_BK)
    done_B = frozen_BK.all(dim=1)
    iterations_B = torch.zeros(len(base_BA), dtype=torch.int64, device=base_BA.device)
    dual_B = torch.logsumexp(base_BA, dim=-1)
    for iteration in range(max_iterations):
        g_BK, covariance = _joint_moments(base_BA, unit_BKA, y_BK)
        held_BK = _held(y_BK, g_BK, size_BK, noise_BK) | frozen_BK
        done_B = done_B | (held_BK | (g_BK.abs() <= _EPS)).all(dim=1)
        if bool(done_B.all()):
            break
        iterations_B += ~done_B
        direction_BK, pushed_B = _inward_direction(y_BK, g_BK, covariance, held_BK, size_BK)
        # Far out the dual is exponential and Newton's steps are too short: try longer ones, while D can tell.
        far_B = (g_BK * direction_BK).sum(dim=1) > 1e-9 * dual_B.abs().clamp(min=1.0)
        step_B = torch.where(far_B & (iteration >= 12), 64.0, 1.0).double()
        next_BK, dual_B = _line_search(base_BA, unit_BKA, size_BK, y_BK, g_BK, dual_B, direction_BK, done_B, step_B)
        still_B = (direction_BK.abs() <= STEP_TOLERANCE * size_BK).all(dim=1)
        same_B = (((y_BK <= 0) == (next_BK <= 0)) & ((y_BK >= size_BK) == (next_BK >= size_BK))).all(dim=1)
        done_B = done_B | (still_B & same_B & ~pushed_B)  # a small step onto a bound is not the last
        y_BK = next_BK
    value_BK = y_BK / size_BK
    if not bool(done_B.all()):
        rest_B = (~done_B).nonzero().squeeze(1)
        value_BK[rest_B] = _nested_bisection(base_BA, first, second, rest_B)
        y_BK = value_BK * size_BK
    g_BK, _ = _joint_moments(base_BA, unit_BKA, y_BK)
    scale_BK = torch.stack((first.scale_B, second.scale_B), dim=1)
    return Solution(value_BK, g_BK * scale_BK, iterations_B, value_BK == 0, value_BK == 1)


def _joint_moments(base_BA: Tensor, unit_BKA: Tensor, y_BK: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor, Tensor]]:
    """E[u] [B, 2], and Var[u1], Cov[u1, u2], Var[u2] under pi(y)."""
    pi_BA = torch.softmax(base_BA - (y_BK[:, :, None] * unit_BKA).sum(dim=1), dim=-1)
    mean_BK = (pi_BA[:, None, :] * unit_BKA).sum(dim=-1)
    centred_BKA = unit_BKA - mean_BK[:, :, None]
    one_BA, two_BA = centred_BKA[:, 0], centred_BKA[:, 1]
    covariance = tuple((pi_BA * x_BA).sum(dim=-1) for x_BA in (one_BA * one_BA, one_BA * two_BA, two_BA * two_BA))
    return mean_BK, (covariance[0], covariance[1], covariance[2])


def _held(y_BK: Tensor, g_BK: Tensor, size_BK: Tensor, noise_BK: Tensor) -> Tensor:
    """Coordinates that a bound holds: at 0 with the constraint met, at the top with it still violated."""
    return ((y_BK <= 0) & (g_BK <= noise_BK)) | ((y_BK >= size_BK) & (g_BK >= 0))


def _inward_direction(
    y_BK: Tensor, g_BK: Tensor, covariance: tuple[Tensor, Tensor, Tensor], held_BK: Tensor, size_BK: Tensor
) -> tuple[Tensor, Tensor]:
    """Newton's direction, no longer than the box, and whether a bound bent it.

    A coordinate that would be pushed through its bound is held and the rest solved again: a step that was projected
    instead need not descend.
    """
    direction_BK = _newton_direction(g_BK, covariance, held_BK)
    pushed_BK = ((y_BK <= 0) & (direction_BK < 0)) | ((y_BK >= size_BK) & (direction_BK > 0))
    direction_BK = _newton_direction(g_BK, covariance, held_BK | pushed_BK)
    longest_B = (direction_BK.abs() / size_BK).amax(dim=1).clamp(min=1.0)
    return direction_BK / longest_B[:, None], (pushed_BK & ~held_BK).any(dim=1)


def _newton_direction(g_BK: Tensor, covariance: tuple[Tensor, Tensor, Tensor], held_BK: Tensor) -> Tensor:
    """Solve Cov p = E[u] (the dual's gradient is -E[u]) in the free coordinates; a held one stays."""
    free_BK = (~held_BK).double()
    rhs_BK = g_BK * free_BK
    ridge = 1e-14  # two actions, or all mass on one: the covariance is singular
    a = torch.where(held_BK[:, 0], 1.0, covariance[0] + ridge)
    c = torch.where(held_BK[:, 1], 1.0, covariance[2] + ridge)
    b = covariance[1] * free_BK.prod(dim=1)
    determinant = torch.clamp(a * c - b * b, min=ridge * torch.maximum(a, c))
    x = (c * rhs_BK[:, 0] - b * rhs_BK[:, 1]) / determinant
    y = (a * rhs_BK[:, 1] - b * rhs_BK[:, 0]) / determinant
    return torch.stack((x, y), dim=1)


def _line_search(
    base_BA: Tensor,
    unit_BKA: Tensor,
    size_BK: Tensor,
    y_BK: Tensor,
    g_BK: Tensor,
    dual_B: Tensor,
    direction_BK: Tensor,
    done_B: Tensor,
    step_B: Tensor,
) -> tuple[Tensor, Tensor]:
    """Halve the projected step until the dual falls enough (Armijo); returns the point and its dual.

    A row that cannot fall any more stays where it is.
    """
    settled_B = done_B.clone()
    best_BK, best_dual_B = y_BK.clone(), dual_B.clone()
    for _ in range(60):
        trial_BK = (y_BK + step_B[:, None] * direction_BK).clamp(torch.zeros_like(size_BK), size_BK)
        trial_B = torch.logsumexp(base_BA - (trial_BK[:, :, None] * unit_BKA).sum(dim=1), dim=-1)
        expected_B = (g_BK * (trial_BK - y_BK)).sum(dim=1)  # the first-order fall
        enough_B = trial_B <= dual_B - 1e-4 * expected_B + 4 * _EPS * dual_B.abs().clamp(min=1.0)
        take_B = enough_B & ~settled_B
        best_BK = torch.where(take_B[:, None], trial_BK, best_BK)
        best_dual_B = torch.where(take_B, trial_B, best_dual_B)
        settled_B = settled_B | enough_B
        if bool(settled_B.all()):
            break
        step_B = step_B / 2
    return best_BK, best_dual_B


def _rows(p: _Problem, rows: Tensor) -> _Problem:
    return _Problem(p.unit_BA[rows], p.size_B[rows], p.scale_B[rows], p.noise_B[rows], p.flat_B[rows])


def _nested_bisection(base_BA: Tensor, first: _Problem, second: _Problem, rows: Tensor) -> Tensor:
    """Bisect lambda_2 on g_2 at the best lambda_1 for it, which also falls monotonically. Slow, and cannot fail."""
    base_BA, first, second = base_BA[rows], _rows(first, rows), _rows(second, rows)

    def at(lam2_B: Tensor) -> tuple[Tensor, Tensor]:
        exponent_BA = base_BA - (lam2_B * second.size_B)[:, None] * second.unit_BA
        lam1_B = _solve_one(exponent_BA, first, (0.0, 1.0)).value
        pi_BA = torch.softmax(exponent_BA - (lam1_B * first.size_B)[:, None] * first.unit_BA, dim=-1)
        return lam1_B, (pi_BA * second.unit_BA).sum(dim=-1)

    low_B, high_B = torch.zeros_like(second.size_B), torch.ones_like(second.size_B)
    slack_B = (at(low_B)[1] <= second.noise_B) | second.flat_B
    beyond_B = ~slack_B & (at(high_B)[1] >= 0)
    for _ in range(60):
        middle_B = (low_B + high_B) / 2
        above_B = at(middle_B)[1] > 0
        low_B, high_B = torch.where(above_B, middle_B, low_B), torch.where(above_B, high_B, middle_B)
    lam2_B = torch.where(slack_B, 0.0, torch.where(beyond_B, 1.0, (low_B + high_B) / 2))
    return torch.stack((at(lam2_B)[0], lam2_B), dim=1)
