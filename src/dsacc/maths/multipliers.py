"""One lambda per state: the exact root of g(lambda) = E_pi(lambda)[f] - target, clipped to its bounds.

This module holds the three solves that the method needs and checks their input. The iteration is in `newton`; the one
for both constraints is in `joint`. `mask` says which actions are allowed (`dsacc.maths.masks`); without one all are.
"""

from typing import Literal

import torch
from torch import Tensor

from dsacc.maths.joint import solve_two
from dsacc.maths.masks import Mask, excluded, neutral
from dsacc.maths.newton import Bounds, Problem, Solution, bounded, make_problem, solve_one
from dsacc.maths.policies import Number

Form = Literal["tempered", "plain"]


def mean_multiplier(
    q: Tensor,
    target: Number,
    alpha: Number,
    *,
    form: Form = "tempered",
    bounds: Bounds = (0.0, 1.0),
    mask: Mask = None,
) -> Solution:
    """lambda_1 with E_pi[Q] = target under pi ∝ exp((1 - lambda_1) Q / T), clipped to `bounds`. [B, A], [B] -> [B].

    T is alpha in the `tempered` form and 1 in the `plain` form. Solved in float64 by safeguarded Newton steps:
    g(lambda) = E_pi[Q] - target is decreasing, g' = -Var_pi[Q] / T. `converged` [B] certifies that g is zero, or holds
    lambda on its bound. NaN and infinity raise a ValueError.
    """
    q_BA, T_B = _checked(q, alpha, form, bounds, mask)
    return solve_one(_base(q_BA, T_B, mask), _mean_problem(q_BA, _row(target, q_BA, "target"), T_B), bounds)


def variance_multiplier(
    q: Tensor,
    target: Number,
    mu: Number,
    alpha: Number,
    *,
    form: Form = "tempered",
    bounds: Bounds = (0.0, 1.0),
    mask: Mask = None,
) -> Solution:
    """lambda_2 with E_pi[v] = target under pi ∝ exp((Q - lambda_2 v) / T), v = (Q - mu)^2, clipped to `bounds`.

    [B, A], [B], [B] -> [B]. `mu` is the actor's mean mu_phi; for a perturbed constraint pass mu - eps. T is alpha in
    the `tempered` form and 1 in the `plain` form. g(lambda) = E_pi[v] - target is decreasing, g' = -Var_pi[v] / T.
    """
    q_BA, T_B = _checked(q, alpha, form, bounds, mask)
    problem = _variance_problem(q_BA, _row(target, q_BA, "target"), _row(mu, q_BA, "mu"), T_B)
    return solve_one(_base(q_BA, T_B, mask), problem, bounds)


def joint_multipliers(
    q: Tensor,
    mean_target: Number,
    variance_target: Number,
    mu: Number,
    alpha: Number,
    *,
    form: Form = "tempered",
    mask: Mask = None,
) -> Solution:
    """(lambda_1, lambda_2) in [0, 1]^2 for both constraints at once, pi ∝ exp(((1 - l1) Q - l2 (Q - mu)^2) / T).

    [B, A], [B] -> [B, 2]. Minimises the convex dual
    D(l1, l2) = T logsumexp((Q - l1 Q - l2 (Q - mu)^2) / T) + l1 mean_target + l2 variance_target by projected
    Newton steps with a line search. Nested bisection solves the rows that do not converge. With two actions the policy
    is unique but lambda is not.

    `converged` [B] certifies a row: with g_i = E_pi[f_i] - target_i it has |g_i| <= tol_i where 0 < lambda_i < 1,
    g_i <= tol_i where lambda_i = 0 and g_i >= -tol_i where lambda_i = 1, for both i. These conditions are sufficient,
    because D is convex. tol_i is the rounding of f_i plus at least 1e-6 E_pi|f_i - target_i| (`dsacc.maths.newton`).
    """
    q_BA, T_B = _checked(q, alpha, form, (0.0, 1.0), mask)
    first = _mean_problem(q_BA, _row(mean_target, q_BA, "mean_target"), T_B)
    second = _variance_problem(q_BA, _row(variance_target, q_BA, "variance_target"), _row(mu, q_BA, "mu"), T_B)
    return solve_two(_base(q_BA, T_B, mask), first, second)


def _checked(q: Tensor, alpha: Number, form: Form, bounds: Bounds, mask: Mask) -> tuple[Tensor, Tensor]:
    """Q in float64 (neutral where not allowed) and the exponent's temperature per row. Bad input: a ValueError."""
    if q.dim() != 2 or q.shape[1] < 1:
        raise ValueError(f"q must be [B, A] with at least one action, not of shape {tuple(q.shape)}")
    if form not in ("tempered", "plain"):
        raise ValueError(f"the multiplier's form must be 'tempered' or 'plain', not {form!r}")
    lower, upper = bounds
    if not (-float("inf") < lower <= upper < float("inf")):
        raise ValueError(f"bounds must be two finite numbers, the smaller one first, not {bounds}")
    if mask is not None and (mask.dtype != torch.bool or mask.shape != q.shape or not mask.any(dim=-1).all()):
        raise ValueError(f"mask must be bool of shape {tuple(q.shape)}, with at least one allowed action per row")
    q_BA = neutral(q.detach().double(), mask)
    if not torch.isfinite(q_BA).all():
        raise ValueError("q contains NaN or infinity, for which no multiplier is defined")
    alpha_B = _row(alpha, q_BA, "alpha")
    if not (alpha_B > 0).all():
        raise ValueError("alpha must be above 0: the constrained policy divides by it")
    return q_BA, alpha_B if form == "tempered" else torch.ones_like(alpha_B)


def _row(x: Number, q_BA: Tensor, name: str) -> Tensor:
    # A Python number goes straight to float64: as float32 it would lose half of its digits.
    x_B = torch.as_tensor(x, dtype=torch.float64, device=q_BA.device).detach()
    if x_B.dim() > 1 or (x_B.dim() == 1 and x_B.shape[0] not in (1, q_BA.shape[0])):
        raise ValueError(f"{name} must be a number or have the shape [{q_BA.shape[0]}], not {tuple(x_B.shape)}")
    if not torch.isfinite(x_B).all():
        raise ValueError(f"{name} contains NaN or infinity, for which no multiplier is defined")
    return x_B.expand(q_BA.shape[0])


def _base(q_BA: Tensor, T_B: Tensor, mask: Mask) -> Tensor:
    """The exponent at lambda = 0: Q / T minus its maximum. The policies of every lambda leave out what it does."""
    return excluded(bounded((q_BA - q_BA.amax(dim=-1, keepdim=True)) / T_B[:, None]), mask)


def _mean_problem(q_BA: Tensor, target_B: Tensor, T_B: Tensor) -> Problem:
    """f = Q - max Q: an offset of any size cancels before anything is multiplied."""
    peak_B = q_BA.amax(dim=-1)
    magnitude_B = torch.maximum(q_BA.abs().amax(dim=-1), target_B.abs())
    return make_problem(bounded(q_BA - peak_B[:, None]), bounded(target_B - peak_B), magnitude_B, T_B)


def _variance_problem(q_BA: Tensor, target_B: Tensor, mu_B: Tensor, T_B: Tensor) -> Problem:
    """f = (Q - mu)^2."""
    v_BA = bounded((q_BA - mu_B[:, None]) ** 2)
    return make_problem(v_BA, target_B, torch.maximum(v_BA.amax(dim=-1), target_B.abs()), T_B)
