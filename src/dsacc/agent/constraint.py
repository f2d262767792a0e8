"""none | mean | variance | both: the only place where the agents differ.

Given the critics' Q at a minibatch of states, a constraint computes its targets, solves lambda, and hands the actor the
terms that its loss adds: lambda * (sum_a pi f - target).
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from dsacc.config import Config
from dsacc.maths import (
    Solution,
    expected_value,
    joint_multipliers,
    mean_multiplier,
    perturbed_targets,
    spread,
    variance_multiplier,
)
from dsacc.maths.losses import constraint_penalty
from dsacc.maths.newton import Bounds

CLIP: Bounds = (0.0, 1.0)  # lambda's bounds, the paper's


@dataclass(frozen=True)
class Term:
    """One constraint on the actor: E_pi[f] should be at most `target`, at the price `lam` for each unit above it."""

    name: str
    f_BA: Tensor
    target_B: Tensor
    lam_B: Tensor
    at_lower_B: Tensor
    at_upper_B: Tensor
    residual_B: Tensor  # g at lambda: what the constrained policy leaves unmet
    iterations_B: Tensor


def exact(x: Tensor) -> Tensor:
    """In float64 on the CPU, without its history."""
    return x.detach().cpu().double()


def noise_shape(config: Config, batch: int, actions: int) -> tuple[int, ...]:
    """One draw a state or an update; one number, or one an action where the noise goes into the surrogate's softmax."""
    rows = 1 if config.noise_scope == "update" else batch
    return (rows, actions) if config.perturbation in ("weights", "values") else (rows,)


def constraint_terms(
    config: Config, q_BA: Tensor, pi_BA: Tensor, alpha: Tensor, noise: Tensor, bounds: Bounds = CLIP
) -> list[Term]:
    """The actor's constraints at these states; none for plain DSAC. `noise` is standard normal, of `noise_shape`.

    Everything is computed in float64 from the one Q, and nothing here carries a gradient. It is done on the CPU: the
    arrays are small, the solve asks after every iteration whether it is done, and not every device has float64.
    Other `bounds` of lambda than the method's are for looking at what they do; two constraints know no others.
    """
    if config.constraint is None:
        return []
    q_BA, pi_BA, alpha, noise = (exact(x) for x in (q_BA, pi_BA, alpha, noise))
    eps = config.noise_std * noise
    if config.noise_relative and config.perturbation != "none":
        eps = eps * (spread(q_BA)[:, None] if eps.dim() == 2 else spread(q_BA))
    targets = perturbed_targets(q_BA, alpha, eps, config.perturbation)  # type: ignore[arg-type]
    centre_B = expected_value(pi_BA, q_BA) - targets.shift_B
    deviation_BA = (q_BA - centre_B[:, None]) ** 2
    shares = {"mean": (q_BA, targets.mean_B), "variance": (deviation_BA, targets.variance_B)}
    names = ["mean", "variance"] if config.constraint == "both" else [config.constraint]
    solution = _solve(config, q_BA, centre_B, targets.mean_B, targets.variance_B, alpha, bounds)
    terms = []
    for k, name in enumerate(names):
        f_BA, target_B = shares[name]
        value, low, high, residual = (
            x[:, k] if x.dim() == 2 else x
            for x in (solution.value, solution.at_lower, solution.at_upper, solution.residual)
        )
        terms.append(Term(name, f_BA, target_B, value, low, high, residual, solution.iterations))
    return terms


def _solve(
    config: Config, q_BA: Tensor, mu_B: Tensor, mean_B: Tensor, variance_B: Tensor, alpha: Tensor, bounds: Bounds
) -> Solution:
    form = config.multiplier_form
    if config.fixed_lambda is not None:
        if config.constraint == "both":
            lam = q_BA.new_full((len(q_BA), 2), config.fixed_lambda)
            return Solution(lam, lam * torch.nan, torch.zeros(len(q_BA)).long(), lam == 0, lam == 1)
        bounds = (config.fixed_lambda, config.fixed_lambda)
    if config.constraint == "mean":
        return mean_multiplier(q_BA, mean_B, alpha, form=form, bounds=bounds)  # type: ignore[arg-type]
    if config.constraint == "variance":
        return variance_multiplier(q_BA, variance_B, mu_B, alpha, form=form, bounds=bounds)  # type: ignore[arg-type]
    return joint_multipliers(q_BA, mean_B, variance_B, mu_B, alpha, form=form)  # type: ignore[arg-type]


def penalty(terms: list[Term], pi_BA: Tensor) -> Tensor:
    """sum_k E_s[lambda_k (E_pi[f_k] - target_k)], in pi's precision, with its gradient through pi alone."""
    total = pi_BA.new_zeros(())
    for t in terms:
        f_BA, target_B, lam_B = (x.to(pi_BA.dtype).to(pi_BA.device) for x in (t.f_BA, t.target_B, t.lam_B))
        total = total + constraint_penalty(pi_BA, f_BA, target_B, lam_B)
    return total


def report(terms: list[Term], pi_BA: Tensor) -> dict[str, Tensor]:
    """What a run logs of its constraints, averaged over states.

    `constraint_residual` is the solve's, E_pi(lambda)[f] - target; `constraint_violation` the actor's,
    E_phi[f] - target.
    """
    out = {}
    for k, t in enumerate(terms, start=1):
        tag = "" if len(terms) == 1 else f"_{k}"
        out[f"lambda{tag}"] = t.lam_B.mean()
        out[f"lambda_at_lower{tag}"] = t.at_lower_B.double().mean()
        out[f"lambda_at_upper{tag}"] = t.at_upper_B.double().mean()
        out[f"constraint_residual{tag}"] = t.residual_B.mean()
        out[f"constraint_violation{tag}"] = (expected_value(exact(pi_BA), t.f_BA) - t.target_B).mean()
    if terms:
        out["lambda_iterations"] = terms[0].iterations_B.double().mean()
    return out
