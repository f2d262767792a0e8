"""The Newton iteration behind every multiplier, in dimensionless units.

Both constraints have the same form. T is the temperature in the constrained policy's exponent: alpha in the `tempered`
form, 1 in the `plain` form of the appendix. With d = (f - target) / T,

    pi(lambda) ∝ exp(Q / T - lambda d)        (the target shifts every exponent equally and cancels)
    g / T      = E_pi(lambda)[d]              (decreasing in lambda)
    g' / T     = -Var_pi(lambda)[d]
    D / T      = logsumexp(Q / T - lambda d)  (convex; its gradient is -g / T)

so one iteration on d serves them all, and one certificate (`solved`) says whether an answer is right. The paper runs
Newton's method without a bracket until g < 1e-15, without an absolute value and without a limit on iterations. That
overshoots where g is flat, and never stops where rounding exceeds 1e-15.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from dsacc.system.types import Array

Bounds = tuple[float, float]

MAX_ITERATIONS = 80
STEP_TOLERANCE = 1e-13  # a Newton step this small is the last one,
EXPONENT_TOLERANCE = 1e-4  # if it also moves no exponent by more than this: else g is not straight along the step
ROUNDING = 16 * 2.0**-52  # a residual this small, relative to the numbers it came from, is rounding
EPS = 2.0**-52
KKT_TOLERANCE = 1e-6  # share of each probability that may be wrong at an answer
KKT_ROUNDING = 1e-3  # the same where rounding is coarser than that
HUGE = 1e300  # limit of exponents; it only affects |Q| or 1/alpha beyond 1e150


@dataclass(frozen=True)
class Solution:
    """The result per state: [B], or [B, 2] (mean, variance) for the joint solve. `iterations` is always [B]."""

    value: Tensor  # lambda, float64, within the bounds
    residual: Tensor  # signed g at that value, in units of f: about 0 inside the bounds, of either sign on one
    iterations: Tensor  # [B], Newton or bisection steps taken
    at_lower: Tensor  # lambda is the lower bound
    at_upper: Tensor  # lambda is the upper bound
    converged: Tensor  # [B], bool: the conditions of optimality hold, for both constraints where there are two


@dataclass(frozen=True)
class Problem:
    """One constraint in dimensionless units: the exponent base - lambda * size * unit, g = scale * E[unit]."""

    unit_BA: Tensor  # d, scaled to [-1, 1]
    size_B: Tensor  # the largest |d| of the row
    scale_B: Tensor  # T * size: from E[unit] back to g in units of f
    noise_B: Tensor  # E[unit] at most this large is rounding
    flat_B: Tensor  # every action has the same f: lambda has no effect

    def rows(self, rows: Tensor) -> "Problem":
        """The problem of some of the states."""
        return Problem(self.unit_BA[rows], self.size_B[rows], self.scale_B[rows], self.noise_B[rows], self.flat_B[rows])


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


def solved(p: Problem, g_B: Tensor, pi_BA: Tensor, size_BA: Tensor, lower_B: Tensor, upper_B: Tensor) -> Tensor:
    """Whether lambda meets the conditions of optimality of its constraint (Karush, Kuhn and Tucker's). -> [B], bool.

    The dual is convex, so lambda is right where g = E_pi(lambda)[f] - target has

        g <= tolerance, unless lambda is the upper bound, and g >= -tolerance, unless lambda is the lower bound;
        tolerance = 16 eps max(|f|, |target|) + sum_a pi(a) |f(a) - target| min(1e-6 + 8 eps |x(a)|, 1e-3).

    The first term is the rounding of f. The second is how far g moves if each probability changes by a millionth of
    itself, and by what rounding its exponent x does to it; `size_BA` is |x|, the sum of the sizes of its parts. Where
    that exceeds a thousandth, float64 may hold no lambda that meets the conditions. If all actions have the same f, any
    lambda is right. `g_B` is E[unit], g in units of `p.scale_B`.
    """
    doubt_BA = (KKT_TOLERANCE + 8 * EPS * size_BA).clamp(max=KKT_ROUNDING)
    tolerance_B = p.noise_B + (pi_BA * p.unit_BA.abs() * doubt_BA).sum(dim=-1)
    return p.flat_B | (((g_B <= tolerance_B) | upper_B) & ((g_B >= -tolerance_B) | lower_B))


def _mean(base_BA: Tensor, p: Problem, lam_B: Tensor) -> tuple[Tensor, Tensor]:
    """E[unit] under pi(lambda), and pi(lambda). torch's softmax subtracts the maximum of the exponent itself."""
    pi_BA = torch.softmax(base_BA - (lam_B * p.size_B)[:, None] * p.unit_BA, dim=-1)
    return (pi_BA * p.unit_BA).sum(dim=-1), pi_BA


def solve_one(base_BA: Tensor, p: Problem, bounds: Bounds) -> Solution:
    """The root of E[unit] in `bounds`: Newton in a shrinking bracket, bisection where a step leaves it or stalls."""
    lower, upper = bounds
    g_low_B, _ = _mean(base_BA, p, torch.full_like(p.size_B, lower))
    g_high_B, _ = _mean(base_BA, p, torch.full_like(p.size_B, upper))
    with np.errstate(all="ignore"):  # as in torch: what is not finite is dealt with where it is used
        lam_B, iterations_B = _search(base_BA, p, bounds, _array(g_low_B), _array(g_high_B))
    g_B, pi_BA = _mean(base_BA, p, lam_B)
    lower_B, upper_B = lam_B == lower, lam_B == upper
    exponent_BA = base_BA.abs() + (lam_B.abs() * p.size_B)[:, None] * p.unit_BA.abs()
    solved_B = solved(p, g_B, pi_BA, exponent_BA, lower_B, upper_B)
    return Solution(lam_B, g_B * p.scale_B, iterations_B, lower_B, upper_B, solved_B)


def _search(base_BA: Tensor, p: Problem, bounds: Bounds, g_low_B: Array, g_high_B: Array) -> tuple[Tensor, Tensor]:
    """lambda and how many iterations it took, per state, from g at both bounds.

    Sums over actions are torch's. The decisions about a state are NumPy's, which gives the same numbers to the bit and
    takes less time on arrays of this size.
    """
    lower, upper = bounds
    flat_B, size_of_B, noise_B = _array(p.flat_B), _array(p.size_B), _array(p.noise_B)
    low_B, high_B = np.full_like(size_of_B, lower), np.full_like(size_of_B, upper)
    slack_B = g_low_B <= noise_B
    beyond_B = ~slack_B & (g_high_B >= 0)
    done_B = slack_B | beyond_B  # also where all values are equal: g does not change then

    # Regula falsi gives the first guess; rows that are done keep their answer from here on.
    share_B = np.clip(g_low_B / (g_low_B - g_high_B), 0.0, 1.0)
    share_B = np.where(np.isnan(share_B), 0.5, share_B)
    lam_B = np.where(beyond_B, high_B, np.where(slack_B, low_B, low_B + share_B * (high_B - low_B)))
    lam_B = np.where(flat_B, min(max(0.0, lower), upper), lam_B)
    last_step_B = high_B - low_B
    furthest_B = EXPONENT_TOLERANCE / size_of_B
    iterations_B = np.zeros(lam_B.shape, np.int64)
    for _ in range(MAX_ITERATIONS):
        if done_B.all():
            break
        iterations_B += ~done_B
        g, pi_BA = _mean(base_BA, p, torch.from_numpy(lam_B).to(base_BA.device))
        variance_B = _array((pi_BA * (p.unit_BA - g[:, None]).square_()).sum(dim=-1))
        g_B = _array(g)
        low_B = np.where(g_B >= 0, lam_B, low_B)
        high_B = np.where(g_B <= 0, lam_B, high_B)
        step_B = np.where(g_B == 0, 0.0, g_B / (size_of_B * variance_B))
        newton_B = lam_B + step_B
        length_B, size_B = np.abs(step_B), np.abs(lam_B)
        # A step onto an end of the bracket counts as inside. The answer does not depend on it: a row that has converged
        # is settled below, and one that has not is halved at its next step.
        good_B = (newton_B >= low_B) & (newton_B <= high_B) & (2 * length_B <= last_step_B)
        small_B = length_B <= np.minimum(STEP_TOLERANCE * np.maximum(size_B, 1.0), furthest_B)
        settled_B = small_B | (high_B - low_B <= EPS * size_B)
        next_B = np.where(good_B, newton_B, (low_B + high_B) / 2)
        next_B = np.where(settled_B, np.clip(newton_B, low_B, high_B), next_B)
        last_step_B = np.abs(next_B - lam_B)
        lam_B = np.where(done_B, lam_B, next_B)
        done_B = done_B | settled_B
    return torch.from_numpy(lam_B).to(base_BA.device), torch.from_numpy(iterations_B).to(base_BA.device)


def _array(x: Tensor) -> Array:
    return x.cpu().numpy()
