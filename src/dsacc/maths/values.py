"""Soft state values, and the targets that the critics are trained towards."""

from typing import Literal

import torch
from torch import Tensor

from dsacc.maths.policies import Number

Combine = Literal["average", "min"]


def combine_critics(q1_BA: Tensor, q2_BA: Tensor, how: Combine = "average") -> Tensor:
    """One Q from two critics: the `average` (the paper, after Zhou 2022) or the `min` (vanilla). [B, A] -> [B, A]."""
    if how == "average":
        return (q1_BA + q2_BA) / 2
    if how == "min":
        return torch.minimum(q1_BA, q2_BA)
    raise ValueError(f"critics must be combined by 'average' or 'min', not {how!r}")


def dueling(value_B: Tensor, advantage_BA: Tensor) -> Tensor:
    """Q(s,a) = V(s) + A(s,a) - mean_a A(s,a) (Wang et al. 2016). [B], [B, A] -> [B, A]; or [B, K], [B, A, K].

    What every action has in common is learned from every action. Of the others' values only the difference to their
    mean is learned apart.
    """
    return value_B[:, None] + advantage_BA - advantage_BA.mean(dim=1, keepdim=True)


def soft_value(pi_BA: Tensor, log_pi_BA: Tensor, q_BA: Tensor, alpha: Number, entropy_weight: float = 1.0) -> Tensor:
    """V(s) = sum_a pi(a|s) (Q(s,a) - w alpha log pi(a|s)). [B, A] -> [B].

    w = 1 is soft actor-critic; w = 0 leaves the entropy bonus out of the critic (decoupled critic entropy). The paper
    combines Q at s_{t+1} with pi at s_t; here both are at the same state.
    """
    return (pi_BA * (q_BA - entropy_weight * alpha * log_pi_BA)).sum(dim=-1)


def value_range(target_B: Tensor) -> Tensor:
    """P95(y) - P5(y): the range of the targets y of a minibatch, without a twentieth on either side. [B] -> scalar.

    Percentiles between two states are interpolated linearly.
    """
    ends: Tensor = torch.quantile(target_B, target_B.new_tensor((0.05, 0.95)))
    return ends[1] - ends[0]


def n_step_return(rewards_BN: Tensor, gamma: float) -> Tensor:
    """sum_k gamma^k r_k over the columns; rewards after an episode's end are zero. [B, N] -> [B].

    There is no entropy bonus between the steps and no off-policy correction.
    """
    powers_N = gamma ** torch.arange(rewards_BN.shape[-1], dtype=rewards_BN.dtype, device=rewards_BN.device)
    return (rewards_BN * powers_N).sum(dim=-1)


def bellman_target(return_B: Tensor, discount_B: Tensor, terminated_B: Tensor, value_B: Tensor) -> Tensor:
    """y = R + gamma^m (1 - terminated) V(s_{t+m}). [B] -> [B]. A truncated episode still bootstraps."""
    return return_B + discount_B * (1 - terminated_B) * value_B
