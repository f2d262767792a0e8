"""Both constraints at once: the same convex dual in two unknowns, minimised over a box."""

import torch
from torch import Tensor

from dsacc.maths.newton import (
    EPS,
    EXPONENT_TOLERANCE,
    MAX_ITERATIONS,
    STEP_TOLERANCE,
    Problem,
    Solution,
    solve_one,
    solved,
)


def solve_two(base_BA: Tensor, first: Problem, second: Problem, max_iterations: int = MAX_ITERATIONS) -> Solution:
    """The smallest D(y) = logsumexp(base - y1 u1 - y2 u2) over the box 0 <= y_i <= size_i, y = lambda * size.

    Projected Newton finds it. States where it stops early, or where the conditions of optimality do not hold (`solved`
    for both constraints), are solved by nested bisection and checked again: `converged`.
    """
    unit_BKA = torch.stack((first.unit_BA, second.unit_BA), dim=1)
    size_BK = torch.stack((first.size_B, second.size_B), dim=1)
    y_BK, iterations_B, done_B = _projected_newton(base_BA, first, second, unit_BKA, size_BK, max_iterations)
    value_BK = y_BK / size_BK
    g_BK, converged_B = _checked(base_BA, first, second, unit_BKA, y_BK, value_BK)
    good_B = done_B & converged_B
    if not bool(good_B.all()):
        rest_B = (~good_B).nonzero().squeeze(1)
        value_BK[rest_B] = _nested_bisection(base_BA[rest_B], first.rows(rest_B), second.rows(rest_B))
        g_BK, converged_B = _checked(base_BA, first, second, unit_BKA, value_BK * size_BK, value_BK)
    scale_BK = torch.stack((first.scale_B, second.scale_B), dim=1)
    return Solution(value_BK, g_BK * scale_BK, iterations_B, value_BK == 0, value_BK == 1, converged_B)


def _checked(
    base_BA: Tensor, first: Problem, second: Problem, unit_BKA: Tensor, y_BK: Tensor, value_BK: Tensor
) -> tuple[Tensor, Tensor]:
    """E[u] [B, 2] at y, and whether both constraints are solved there [B]."""
    push_BKA = y_BK[:, :, None] * unit_BKA
    pi_BA = torch.softmax(base_BA - push_BKA.sum(dim=1), dim=-1)
    g_BK = (pi_BA[:, None, :] * unit_BKA).sum(dim=-1)
    size_BA = base_BA.abs() + push_BKA.abs().sum(dim=1)
    one_B = solved(first, g_BK[:, 0], pi_BA, size_BA, value_BK[:, 0] == 0, value_BK[:, 0] == 1)
    two_B = solved(second, g_BK[:, 1], pi_BA, size_BA, value_BK[:, 1] == 0, value_BK[:, 1] == 1)
    return g_BK, one_B & two_B


def _projected_newton(
    base_BA: Tensor, first: Problem, second: Problem, unit_BKA: Tensor, size_BK: Tensor, max_iterations: int
) -> tuple[Tensor, Tensor, Tensor]:
    """From y = 0: y [B, 2], the iterations [B], and the states that it is done with [B]."""
    noise_BK = torch.stack((first.noise_B, second.noise_B), dim=1)
    frozen_BK = torch.stack((first.flat_B, second.flat_B), dim=1)
    small_BK = (STEP_TOLERANCE * size_BK).clamp(max=EXPONENT_TOLERANCE)
    y_BK = torch.zeros_like(size_BK)
    done_B = frozen_BK.all(dim=1)
    iterations_B = torch.zeros(len(base_BA), dtype=torch.int64, device=base_BA.device)
    dual_B = torch.logsumexp(base_BA, dim=-1)
    for iteration in range(max_iterations):
        g_BK, covariance = _joint_moments(base_BA, unit_BKA, y_BK)
        held_BK = _held(y_BK, g_BK, size_BK, noise_BK) | frozen_BK
        done_B = done_B | (held_BK | (g_BK.abs() <= EPS)).all(dim=1)
        if bool(done_B.all()):
            break
        iterations_B += ~done_B
        direction_BK = _inward_direction(y_BK, g_BK, covariance, held_BK, size_BK)
        # Far out the dual is exponential and Newton's steps are too short. Try longer ones while D falls measurably.
        far_B = (g_BK * direction_BK).sum(dim=1) > 1e-9 * dual_B.abs().clamp(min=1.0)
        step_B = torch.where(far_B & (iteration >= 12), 64.0, 1.0).double()
        y_BK, dual_B = _line_search(base_BA, unit_BKA, size_BK, y_BK, g_BK, dual_B, direction_BK, done_B, step_B)
        done_B = done_B | (direction_BK.abs() <= small_BK).all(dim=1)
    return y_BK, iterations_B, done_B


def _joint_moments(base_BA: Tensor, unit_BKA: Tensor, y_BK: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor, Tensor]]:
    """E[u] [B, 2], and Var[u1], Cov[u1, u2], Var[u2] under pi(y)."""
    pi_BA = torch.softmax(base_BA - (y_BK[:, :, None] * unit_BKA).sum(dim=1), dim=-1)
    mean_BK = (pi_BA[:, None, :] * unit_BKA).sum(dim=-1)
    centred_BKA = unit_BKA - mean_BK[:, :, None]
    one_BA, two_BA = centred_BKA[:, 0], centred_BKA[:, 1]
    covariance = tuple((pi_BA * x_BA).sum(dim=-1) for x_BA in (one_BA * one_BA, one_BA * two_BA, two_BA * two_BA))
    return mean_BK, (covariance[0], covariance[1], covariance[2])


def _held(y_BK: Tensor, g_BK: Tensor, size_BK: Tensor, noise_BK: Tensor) -> Tensor:
    """Coordinates that stay on a bound: at 0 because the constraint is met, at the top because it is still violated."""
    return ((y_BK <= 0) & (g_BK <= noise_BK)) | ((y_BK >= size_BK) & (g_BK >= 0))


def _inward_direction(
    y_BK: Tensor, g_BK: Tensor, covariance: tuple[Tensor, Tensor, Tensor], held_BK: Tensor, size_BK: Tensor
) -> Tensor:
    """Newton's direction, no longer than the box.

    A coordinate that would leave the box is held, and the others are solved again. Projecting the step instead might
    not descend.
    """
    direction_BK = _newton_direction(g_BK, covariance, held_BK)
    pushed_BK = ((y_BK <= 0) & (direction_BK < 0)) | ((y_BK >= size_BK) & (direction_BK > 0))
    direction_BK = _newton_direction(g_BK, covariance, held_BK | pushed_BK)
    longest_B = (direction_BK.abs() / size_BK).amax(dim=1).clamp(min=1.0)
    return direction_BK / longest_B[:, None]


def _newton_direction(g_BK: Tensor, covariance: tuple[Tensor, Tensor, Tensor], held_BK: Tensor) -> Tensor:
    """Solve Cov p = E[u] (the dual's gradient is -E[u]) in the free coordinates; held ones do not move."""
    free_BK = (~held_BK).double()
    rhs_BK = g_BK * free_BK
    ridge = 1e-14  # the covariance is singular with two actions, or with all probability on one
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
    """Halve the projected step until the dual falls enough (Armijo). Returns the point and its dual.

    A row whose dual cannot fall any further keeps its point.
    """
    settled_B = done_B.clone()
    best_BK, best_dual_B = y_BK.clone(), dual_B.clone()
    for _ in range(60):
        trial_BK = (y_BK + step_B[:, None] * direction_BK).clamp(torch.zeros_like(size_BK), size_BK)
        trial_B = torch.logsumexp(base_BA - (trial_BK[:, :, None] * unit_BKA).sum(dim=1), dim=-1)
        expected_B = (g_BK * (trial_BK - y_BK)).sum(dim=1)  # the fall to first order
        enough_B = trial_B <= dual_B - 1e-4 * expected_B + 4 * EPS * dual_B.abs().clamp(min=1.0)
        take_B = enough_B & ~settled_B
        best_BK = torch.where(take_B[:, None], trial_BK, best_BK)
        best_dual_B = torch.where(take_B, trial_B, best_dual_B)
        settled_B = settled_B | enough_B
        if bool(settled_B.all()):
            break
        step_B = step_B / 2
    return best_BK, best_dual_B


def _nested_bisection(base_BA: Tensor, first: Problem, second: Problem) -> Tensor:
    """Bisect lambda_2 on g_2, with the best lambda_1 for each lambda_2: g_2 still falls. Slow, but never stuck."""

    def at(lam2_B: Tensor) -> tuple[Tensor, Tensor]:
        exponent_BA = base_BA - (lam2_B * second.size_B)[:, None] * second.unit_BA
        lam1_B = solve_one(exponent_BA, first, (0.0, 1.0)).value
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
