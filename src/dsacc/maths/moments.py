"""Mean and variance of Q under a policy, and the perturbed targets of the constraints."""

from typing import Literal, NamedTuple

import torch
from torch import Tensor

from dsacc.maths.masks import Mask, allowed_mean
from dsacc.maths.policies import Number, boltzmann, column

Perturbation = Literal["target", "weights", "values", "none"]


class Targets(NamedTuple):
    """What the critic asks of the actor per state: E[Q] and Var[Q] under the (perturbed) surrogate policy."""

    mean_B: Tensor  # mu_theta, or mu_theta - eps
    variance_B: Tensor  # var_theta
    shift_B: Tensor  # eps where the variance constraint subtracts it from the actor's mean; else 0


def expected_value(pi_BA: Tensor, q_BA: Tensor) -> Tensor:
    """E_pi[Q] = sum_a pi(a) Q(a). [B, A], [B, A] -> [B]."""
    return (pi_BA * q_BA).sum(dim=-1)


def expected_variance(pi_BA: Tensor, q_BA: Tensor, mu: Number | None = None) -> Tensor:
    """sum_a pi(a) (Q(a) - mu)^2, with mu = E_pi[Q] by default. [B, A], [B, A] -> [B]."""
    centre = expected_value(pi_BA, q_BA) if mu is None else mu
    return (pi_BA * (q_BA - column(centre, q_BA)) ** 2).sum(dim=-1)


def spread(q_BA: Tensor, mask: Mask = None) -> Tensor:
    """Standard deviation of Q over the (allowed) actions, all weighted equally. [B, A] -> [B]."""
    if mask is None:
        return q_BA.std(dim=-1, correction=0)
    return allowed_mean((q_BA - allowed_mean(q_BA, mask)) ** 2, mask).sqrt().squeeze(-1)


def perturbed_targets(
    q_BA: Tensor, alpha: Number, eps: Tensor, perturbation: Perturbation = "target", mask: Mask = None
) -> Targets:
    """mu_theta and var_theta of the surrogate policy; `perturbation` says where the noise goes.

    - `target` (the equation): eps [B] moves the target of the mean to mu_theta - eps. The variance constraint adds eps
      to the actor's deviation instead, so it is returned as `shift_B`.
    - `weights`: eps [B, A] goes into the surrogate's softmax only: E_softmax((Q+eps)/alpha)[Q].
    - `values`: the same noise goes into weights and values: E_softmax((Q+eps)/alpha)[Q + eps].
    - `none`: eps is ignored.

    One draw for the whole batch is eps [1] or [1, A]. Pass Q in float64: float32 targets alone move lambda by 1e-3.
    """
    zero_B = torch.zeros_like(q_BA[:, 0])
    if perturbation in ("weights", "values"):
        weights_BA = boltzmann(q_BA + eps, alpha, mask)
        values_BA = q_BA + eps if perturbation == "values" else q_BA
        shift_B = zero_B
    elif perturbation in ("target", "none"):
        weights_BA = boltzmann(q_BA, alpha, mask)
        values_BA = q_BA
        shift_B = zero_B + eps if perturbation == "target" else zero_B
    else:
        raise ValueError(f"perturbation must be 'target', 'weights', 'values' or 'none', not {perturbation!r}")
    mean_B = expected_value(weights_BA, values_BA)
    return Targets(mean_B - shift_B, expected_variance(weights_BA, values_BA, mean_B), shift_B)
