"""The Newton iteration behind every multiplier, in dimensionless units.

Both constraints have the same form. T is the temperature in the constrained policy's exponent: alpha in the `tempered`
form, 1 in the `plain` form of the appendix. With d = (f - target) / T,

    pi(lambda) ∝ exp(Q / T - lambda d)        (the target shifts every exponent equally and cancels)
    g / T      = E_pi(lambda)[d]              (decreasing in lambda)
    g' / T     = -Var_pi(lambda)[d]
    D / T      = logsumexp(Q / T - lambda d)  (convex; its gradient is -g / T)

so one iteration on d serves them all. The paper runs Newton's method without a bracket until g < 1e-15, without an
absolute value and without a limit on iterations. That overshoots where g is flat, and never stops where rounding
exceeds 1e-15.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

Bounds = tuple[float, float]

MAX_ITERATIONS = 80
STEP_TOLERANCE = 1e-13  # a Newton step this small is the last one
ROUNDING = 16 * 2.0**-52  # a residual this small, relative to the numbers it came from, is rounding
EPS = 2.0**-52
HUGE = 1e300  # limit of exponents; it only affects |Q| or 1/alpha beyond 1e150


@dataclass(frozen=True)
class Solution:
    """The result per state: [B], or [B, 2] (mean, variance) for the joint solve. `iterations` is always [B]."""

    value: Tensor  # lambda, float64, within the bounds
    residual: Tensor  # signed g at that value, in units of f: about 0 inside the bounds, of either sign on one
    iterations: Tensor  # [B], Newton or bisection steps taken
    at_lower: Tensor  # lambda is the lower bound
    at_upper: Tensor  # lambda is the upper bound


@dataclass(frozen=True)
class Problem:
    """One constraint in dimensionless units: the exponent base - lambda * size * unit, g = scale * E[unit]."""

    unit_BA: Tensor  # d, scaled to [-1, 1]
    size_B: Tensor  # the largest |d| of the row
    scale_B: Tensor  # T * size: from E[unit] back to g in units of f
    noise_B: Tensor  # E[unit] at most this large is rounding
    flat_B: Tensor  # every action has the same f: lambda has no effect


def bounded(x: Tensor) -> Tensor:
    """Keep exponents finite."""
    return x.clamp(-HUGE, HUGE)


def make_problem(f_BA: Tensor, target_B: Tensor, magnitude_B: Tensor, T_B: Tensor) -> Problem:
    """f and its target in dimensionless units. `magnitude_B` is the size of the numbers that they were made from."""
    d_BA = bounded((f_BA - target_B[:, None]) / T_B[:, None])
    size_B = d_BA.abs().amax(dim=-1)
    safe_B = torch.where(size_B > 0, size_B, 1.0)
    noise_B = bounded(ROUNDING * magnitude_B / T_B) / safe_B
    flat_B = f_BA.amax(dim=-1) == f_BA.amin(dim=-1)
    return Problem(d_BA / safe_B[:, None], safe_B, T_B * safe_B, noise_B, flat_B)


def _moments(base_BA: Tensor, p: Problem, lam_B: Tensor) -> tuple[Tensor, Tensor]:
    """E[unit] and Var[unit] under pi(lambda). torch's softmax subtracts the maximum of the exponent itself."""
    pi_BA = torch.softmax(base_BA - (lam_B * p.size_B)[:, None] * p.unit_BA, dim=-1)
    mean_B = (pi_BA * p.unit_BA).sum(dim=-1)
    return mean_B, (pi_BA * (p.unit_BA - mean_B[:, None]).square_()).sum(dim=-1)


def solve_one(base_BA: Tensor, p: Problem, bounds: Bounds) -> Solution:
    """The root of E[unit] in `bounds`: Newton in a shrinking bracket, bisection where a step leaves it or stalls."""
    lower, upper = bounds
    low_B, high_B = torch.full_like(p.size_B, lower), torch.full_like(p.size_B, upper)
    g_low_B, _ = _moments(base_BA, p, low_B)
    g_high_B, _ = _moments(base_BA, p, high_B)
    slack_B = g_low_B <= p.noise_B
    beyond_B = ~slack_B & (g_high_B >= 0)
    done_B = p.flat_B | slack_B | beyond_B

    # Regula falsi gives the first guess; rows that are done keep their answer from here on.
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
        # <=, not <: a converged row steps onto the end of its bracket and must not be sent back to the middle.
        good_B = (newton_B >= low_B) & (newton_B <= high_B) & (2 * step_B.abs() <= last_step_B)
        resolution_B = lam_B.abs().clamp(min=1.0)
        settled_B = (step_B.abs() <= STEP_TOLERANCE * resolution_B) | (high_B - low_B <= EPS * lam_B.abs())
        next_B = torch.where(good_B, newton_B, (low_B + high_B) / 2)
        next_B = torch.where(settled_B, newton_B.clamp(low_B, high_B), next_B)
        last_step_B = (next_B - lam_B).abs()
        lam_B = torch.where(done_B, lam_B, next_B)
        done_B = done_B | settled_B
    g_B, _ = _moments(base_BA, p, lam_B)
    return Solution(lam_B, g_B * p.scale_B, iterations_B, lam_B == lower, lam_B == upper)
