"""The constraints that critics put on the actor, one object each: the only place where the agents differ.

At a minibatch of states a constraint has a function f(s, a) of the critics' Q and a target per state. Its multiplier
lambda is solved per state, and the actor's loss adds lambda * (sum_a pi f - target).

To add a constraint: write its solve in `dsacc.maths`, its object here, and its agent's name in `dsacc.config.AGENTS`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor

from dsacc.config import Config
from dsacc.maths import (
    Mask,
    Solution,
    Targets,
    constraint_penalty,
    expected_value,
    joint_multipliers,
    mean_multiplier,
    perturbed_targets,
    spread,
    variance_multiplier,
)
from dsacc.maths.multipliers import Form
from dsacc.maths.newton import Bounds

CLIP: Bounds = (0.0, 1.0)  # lambda's bounds, the paper's
Solve = Callable[[Tensor, Tensor, Tensor, Tensor, Form, Bounds, Mask], Solution]
Value = TypeVar("Value")


@dataclass(frozen=True)
class Constraint:
    """E_pi[f] should be at most the target, at the price lambda for each unit above it.

    `centre` below is the actor's mean of Q, mu_phi, less the noise eps where the constraint is perturbed.
    """

    name: str  # its name in settings
    order: int  # 1 for lambda_1: tells its symbol and its metrics from the others'
    f: Callable[[Tensor, Tensor], Tensor]  # Q [B, A] and centre [B] to f [B, A]
    target: Callable[[Targets], Tensor]  # what the critics ask for, [B]
    solve: Solve  # Q, target, centre, alpha, form, bounds and mask to lambda

    @property
    def symbol(self) -> str:
        """`λ₁`, `λ₂`."""
        return f"λ{chr(ord('₀') + self.order)}"

    @property
    def title(self) -> str:
        """The multiplier in tables and figures: `λ` for the first, `λ₂ (variance)`."""
        return "λ" if self.order == 1 else f"{self.symbol} ({self.name})"

    def key(self, quantity: str, alone: bool) -> str:
        """The name of one of its metrics. The mean's multiplier is `lambda` where it is the only one, else `lambda_1`;
        the variance's is `lambda_2` always, because its units are others."""
        return quantity if alone and self.order == 1 else f"{quantity}_{self.order}"

    def keys(self, quantity: str) -> tuple[str, ...]:
        """Every name that a run may have logged it under."""
        return tuple(dict.fromkeys(self.key(quantity, alone) for alone in (True, False)))


MEAN = Constraint(
    "mean",
    1,
    f=lambda q_BA, centre_B: q_BA,
    target=lambda targets: targets.mean_B,
    solve=lambda q, target, centre, alpha, form, bounds, mask: mean_multiplier(
        q, target, alpha, form=form, bounds=bounds, mask=mask
    ),
)
VARIANCE = Constraint(
    "variance",
    2,
    f=lambda q_BA, centre_B: (q_BA - centre_B[:, None]) ** 2,
    target=lambda targets: targets.variance_B,
    solve=lambda q, target, centre, alpha, form, bounds, mask: variance_multiplier(
        q, target, centre, alpha, form=form, bounds=bounds, mask=mask
    ),
)
ALL = (MEAN, VARIANCE)


def constraints_of(setting: str | None) -> tuple[Constraint, ...]:
    """The constraints behind the setting `constraint`: none, one, or (for "both") mean and variance."""
    return (MEAN, VARIANCE) if setting == "both" else tuple(c for c in ALL if c.name == setting)


def with_current_keys(setting: str | None, logged: dict[str, Value]) -> dict[str, Value]:
    """Metrics of a run of any age under today's names: a single multiplier was once `lambda`, whichever it was."""
    chosen = constraints_of(setting)
    if len(chosen) != 1:
        return logged
    names = {q: chosen[0].key(q, alone=True) for q in QUANTITIES}
    return {names.get(key, key): value for key, value in logged.items()}


QUANTITIES = ("lambda", "lambda_at_lower", "lambda_at_upper", "constraint_residual", "constraint_violation")


@dataclass(frozen=True)
class Term:
    """A constraint at the states of one minibatch, solved."""

    constraint: Constraint
    f_BA: Tensor
    target_B: Tensor
    lam_B: Tensor
    at_lower_B: Tensor
    at_upper_B: Tensor
    residual_B: Tensor  # g at lambda: what the constrained policy leaves unmet
    iterations_B: Tensor
    converged_B: Tensor  # the solve met its conditions of optimality


def exact(x: Tensor) -> Tensor:
    """In float64 on the CPU, detached."""
    return x.detach().cpu().double()


def noise_shape(config: Config, batch: int, actions: int) -> tuple[int, ...]:
    """Shape of the noise: one draw per state, or one for the whole update; a single number, or one per action where the
    noise goes into the surrogate's softmax."""
    rows = 1 if config.noise_scope == "update" else batch
    return (rows, actions) if config.perturbation in ("weights", "values") else (rows,)


def constraint_terms(
    config: Config,
    q_BA: Tensor,
    pi_BA: Tensor,
    alpha: Tensor,
    noise: Tensor,
    bounds: Bounds = CLIP,
    mask: Mask = None,
) -> list[Term]:
    """The actor's constraints at these states; none for plain DSAC. `noise` is standard normal, of `noise_shape`.
    `mask` says which actions are allowed; `pi_BA` is 0 elsewhere.

    Everything is computed in float64 from the one Q, and nothing here carries a gradient. It runs on the CPU: the
    arrays are small, the solve asks after every iteration whether it is done, and not every device has float64.
    Other `bounds` than the method's show what the clip does; the joint solve of two constraints has [0, 1] only.
    """
    chosen = constraints_of(config.constraint)
    if not chosen:
        return []
    q_BA, pi_BA, alpha, noise = (exact(x) for x in (q_BA, pi_BA, alpha, noise))
    mask = None if mask is None else mask.cpu()
    eps = config.noise_std * noise
    if config.noise_relative and config.perturbation != "none":
        eps = eps * (spread(q_BA, mask)[:, None] if eps.dim() == 2 else spread(q_BA, mask))
    targets = perturbed_targets(q_BA, alpha, eps, config.perturbation, mask)
    centre_B = expected_value(pi_BA, q_BA) - targets.shift_B
    target_K = [c.target(targets) for c in chosen]
    solution = _solve(config, chosen, q_BA, target_K, centre_B, alpha, bounds, mask)
    parts = (solution.value, solution.at_lower, solution.at_upper, solution.residual)
    terms = []
    for k, (constraint, target_B) in enumerate(zip(chosen, target_K, strict=True)):
        value, low, high, residual = (x[:, k] if x.dim() == 2 else x for x in parts)
        f_BA = constraint.f(q_BA, centre_B)
        solve = (value, low, high, residual, solution.iterations, solution.converged)
        terms.append(Term(constraint, f_BA, target_B, *solve))
    return terms


def _solve(
    config: Config,
    chosen: tuple[Constraint, ...],
    q_BA: Tensor,
    target_K: list[Tensor],
    centre_B: Tensor,
    alpha: Tensor,
    bounds: Bounds,
    mask: Mask,
) -> Solution:
    held, form = config.fixed_lambda, config.multiplier_form
    if len(chosen) == 1:
        bounds = bounds if held is None else (held, held)
        return chosen[0].solve(q_BA, target_K[0], centre_B, alpha, form, bounds, mask)
    if held is not None:
        lam = q_BA.new_full((len(q_BA), len(chosen)), held)
        none_B = torch.zeros(len(q_BA), dtype=torch.int64)
        return Solution(lam, lam * torch.nan, none_B, lam == 0, lam == 1, none_B == 0)
    mean_B, variance_B = target_K
    return joint_multipliers(q_BA, mean_B, variance_B, centre_B, alpha, form=form, mask=mask)


def penalty(terms: list[Term], pi_BA: Tensor) -> Tensor:
    """sum_k E_s[lambda_k (E_pi[f_k] - target_k)], in pi's precision, with its gradient through pi alone.

    `pi_BA` may have fewer rows than the terms; it then belongs to the first of their states.
    """
    total, count = pi_BA.new_zeros(()), len(pi_BA)
    for t in terms:
        f_BA, target_B, lam_B = (x[:count].to(pi_BA.dtype).to(pi_BA.device) for x in (t.f_BA, t.target_B, t.lam_B))
        total = total + constraint_penalty(pi_BA, f_BA, target_B, lam_B)
    return total


def report(terms: list[Term], pi_BA: Tensor) -> dict[str, Tensor]:
    """What a run logs of its constraints, averaged over states.

    `constraint_residual` is the solve's, E_pi(lambda)[f] - target. `constraint_violation` is the actor's,
    E_phi[f] - target. `lambda_unsolved` is there only where a state's lambda is not known to be right; it is used all
    the same, as the best that was found.
    """
    out = {}
    for t in terms:
        values = (
            t.lam_B,
            t.at_lower_B.double(),
            t.at_upper_B.double(),
            t.residual_B,
            expected_value(exact(pi_BA), t.f_BA) - t.target_B,
        )
        for quantity, value_B in zip(QUANTITIES, values, strict=True):
            out[t.constraint.key(quantity, alone=len(terms) == 1)] = value_B.mean()
    if terms:
        out["lambda_iterations"] = terms[0].iterations_B.double().mean()
        if not bool(terms[0].converged_B.all()):
            out["lambda_unsolved"] = (~terms[0].converged_B).double().mean()
    return out
