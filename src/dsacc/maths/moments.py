"""Mean and variance of Q under a policy, and the perturbed targets that the constraints aim for."""

from typing import Literal, NamedTuple

import torch
from torch import Tensor

from dsacc.maths.policies import Number, _column, boltzmann

Perturbation = Literal["target", "weights", "values", "none"]


class Targets(NamedTuple):
    """What the critic asks of the actor, per state: E[Q] and Var[Q] under the (perturbed) surrogate policy."""

    mean_B: Tensor  # mu_theta, or mu_theta - eps
    variance_B: Tensor  # var_theta
    shift_B: Tensor  # eps where it stands beside the actor's mean in the variance form; else 0


def expected_value(pi_BA: Tensor, q_BA: Tensor) -> Tensor:
    """E_pi[Q] = sum_a pi(a) Q(a). [B, A], [B, A] -> [B]."""
    return (pi_BA * q_BA).sum(dim=-1)


def expected_variance(pi_BA: Tensor, q_BA: Tensor, mu: Number | None = None) -> Tensor:
    """sum_a pi(a) (Q(a) - mu)^2, with mu = E_pi[Q] unless given. [B, A], [B, A] -> [B]."""
    centre = expected_value(pi_BA, q_BA) if mu is None else mu
    return (pi_BA * (q_BA - _column(centre, q_BA)) ** 2).sum(dim=-1)


def spread(q_BA: Tensor) -> Tensor:
    """The row's standard deviation of Q, every action weighing the same. [B, A] -> [B]."""
    return q_BA.std(dim=-1, correction=0)


def perturbed_targets(q_BA: Tensor, alpha: Number, eps: Tensor, perturbation: Perturbation = "target") -> Targets:
    """mu_theta and var_theta of the surrogate policy, with the noise where `perturbation` puts it.

    - `target` (the equation): eps [B] moves the mean's target to mu_theta - eps; in the variance form it is added to
      the actor's deviation, so it comes back as `shift_B`.
    - `weights`: eps [B, A] inside the surrogate's softmax, values clean: E_softmax((Q+eps)/alpha)[Q].
    - `values`: the same noise in weights and values: E_softmax((Q+eps)/alpha)[Q + eps].
    - `none`: eps is not looked at.

    A draw shared by the whole batch is eps [1] or [1, A]. Pass Q in float64: float32 targets alone move lambda by 1e-3.
    """
    zero_B = torch.zeros_like(q_BA[:, 0])
    if perturbation in ("weights", "values"):
        weights_BA = boltzmann(q_BA + eps, alpha)
        values_BA = q_BA + eps if perturbation == "values" else q_BA
        shift_B = zero_B
    elif perturbation in ("target", "none"):
        weights_BA = boltzmann(q_BA, alpha)
        values_BA = q_BA
        shift_B = zero_B + eps if perturbation == "target" else zero_B
    else:
        raise ValueError(f"perturbation is 'target', 'weights', 'values' or 'none', not {perturbation!r}")
    mean_B = expected_value(weights_BA, values_BA)
    return Targets(mean_B - shift_B, expected_variance(weights_BA, values_BA, mean_B), shift_B)
