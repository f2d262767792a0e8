"""The three losses, and optional terms that users of discrete SAC ask for. Sums over actions, means over states."""

from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from dsacc.maths.masks import Mask
from dsacc.maths.policies import Number, policy_of

CriticLoss = Literal["mse", "huber"]


def td_error(prediction_B: Tensor, target_B: Tensor, kind: CriticLoss = "mse") -> Tensor:
    """(Q - y)^2, or Huber's loss: half the square for errors up to 1, linear beyond. [B] -> [B]."""
    if kind == "mse":
        return F.mse_loss(prediction_B, target_B, reduction="none")
    if kind == "huber":
        return F.huber_loss(prediction_B, target_B, reduction="none")
    raise ValueError(f"the critic loss must be 'mse' or 'huber', not {kind!r}")


def critic_loss(
    prediction_B: Tensor, target_B: Tensor, kind: CriticLoss = "mse", weight_B: Tensor | None = None
) -> Tensor:
    """J_Q = E[w (Q(s,a) - y)^2], or Huber's loss, which is linear for errors above 1. [B] -> scalar."""
    return weighted_mean(td_error(prediction_B, target_B, kind), weight_B)


def weighted_mean(loss_B: Tensor, weight_B: Tensor | None) -> Tensor:
    """E[w l], where w = 1 if no weights are given. It is not divided by E[w]. [B] -> scalar."""
    return loss_B.mean() if weight_B is None else (weight_B * loss_B).mean()


def clipped_critic_loss(
    prediction_B: Tensor,
    target_B: Tensor,
    anchor_B: Tensor,
    clip: float,
    kind: CriticLoss = "mse",
    weight_B: Tensor | None = None,
) -> Tensor:
    """Q-clip of Zhou 2022: E[w max((Q - y)^2, (Q' + clip(Q - Q', -c, c) - y)^2)], Q' the target critic at (s, a).

    [B] -> scalar. Once Q has moved from Q' towards y by more than c, the larger term is constant: the gradient stops.
    """
    near_B = anchor_B + (prediction_B - anchor_B).clamp(-clip, clip)
    return weighted_mean(
        torch.maximum(td_error(prediction_B, target_B, kind), td_error(near_B, target_B, kind)), weight_B
    )


def actor_loss(pi_BA: Tensor, log_pi_BA: Tensor, q_BA: Tensor, alpha: Number) -> Tensor:
    """J_pi = E_s[sum_a pi(a|s) (alpha log pi(a|s) - Q(s,a))]. [B, A] -> scalar.

    CleanRL also averages over actions, which hides a factor 1/A. Here actions are summed.
    """
    return (pi_BA * (alpha * log_pi_BA - q_BA)).sum(dim=-1).mean()


def constraint_penalty(pi_BA: Tensor, f_BA: Tensor, target_B: Tensor, lam_B: Tensor) -> Tensor:
    """E_s[lambda(s) (sum_a pi(a|s) f(s,a) - target(s))]. [B, A], [B] -> scalar; gradient through pi only.

    f = Q for the mean constraint, f = (Q - mu_phi + eps)^2 for the variance constraint.
    """
    return (lam_B * ((pi_BA * f_BA).sum(dim=-1) - target_B)).mean()


def entropy_penalty(entropy_B: Tensor, old_entropy_B: Tensor) -> Tensor:
    """Zhou 2022: E_s[(H_old(s) - H(s))^2] / 2, where H_old belongs to the policy that collected s. [B] -> scalar."""
    return (old_entropy_B - entropy_B).square().mean() / 2


def surrogate_divergence(log_pi_BA: Tensor, q_BA: Tensor, alpha: Number, mask: Mask = None) -> Tensor:
    """alpha E_s[KL(pi_theta || pi)], pi_theta = softmax(Q/alpha). [B, A] -> scalar, in units of Q; gradient through pi.

    The other direction, alpha KL(pi || pi_theta), equals J_pi up to a constant. It would only scale the actor's loss.
    """
    surrogate_BA, log_surrogate_BA = policy_of(q_BA / alpha, mask)
    return alpha * (surrogate_BA * (log_surrogate_BA - log_pi_BA)).sum(dim=-1).mean()


def with_augmented(clean: Tensor, augmented: Tensor, states: int, copies: int) -> Tensor:
    """J = (B J_clean + M J_augmented) / (B + M), the mean over all states shown. Two scalars -> scalar.

    After SVEA (Hansen et al. 2021) and SADA (Almuzairee et al. 2024). The first M of B states are shown a second time:
    s~_j is s_j, augmented. Only the network that is trained sees s~_j. All constants are those of the clean s_j:

        critics, SVEA and SADA:  J_augmented = 1/M sum_j (Q(s~_j, a_j) - y_j)^2, y_j from the clean next state
        actor, SADA alone:       J_augmented = 1/M sum_j sum_a pi(a|s~_j) (alpha log pi(a|s~_j) - Q(s_j, a))

    Every other term of the two losses follows the same rule.
    """
    return (states * clean + copies * augmented) / (states + copies)


def temperature_loss(log_alpha: Tensor, entropy_B: Tensor, target: float) -> Tensor:
    """J_alpha = alpha (H(pi_phi) - H_target), minimised over log alpha; H is detached. scalar, [B] -> scalar."""
    return log_alpha.exp() * (entropy_B.detach().mean() - target)
