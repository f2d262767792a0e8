"""The policies of the method as functions of Q, used to solve for lambda; only the actor chooses actions.

Also the actor's softmax, and the same with its natural gradient. `mask` says which actions are allowed
(`dsacc.maths.masks`); without one all are.
"""

import math

import torch
from torch import Tensor

from dsacc.maths.masks import Mask, allowed_mean, excluded, neutral

Number = Tensor | float


def column(x: Number, like_BA: Tensor) -> Tensor:
    """A number, [B] or [B, 1], in a shape that broadcasts against [B, A]."""
    x = torch.as_tensor(x, dtype=like_BA.dtype, device=like_BA.device)
    return x.unsqueeze(-1) if x.dim() == 1 else x


def _softmax_at(temperature: Number, exponent_BA: Tensor, mask: Mask) -> Tensor:
    """softmax(exponent / temperature). Subtracting the row's maximum first keeps the division from overflowing."""
    exponent_BA = neutral(exponent_BA, mask)
    shifted_BA = exponent_BA - exponent_BA.amax(dim=-1, keepdim=True)
    return torch.softmax(excluded(shifted_BA / column(temperature, exponent_BA), mask), dim=-1)


def policy_of(logits_BA: Tensor, mask: Mask = None) -> tuple[Tensor, Tensor]:
    """The policy of logits and its logarithm, pi(a|s) = exp(logit_a) / sum_allowed exp. [B, A] -> [B, A], [B, A].

    Where an action is not allowed, pi is 0, and log pi is given as 0: 0 log 0 = 0 in every sum that weights by pi.
    """
    log_pi_BA = torch.log_softmax(excluded(logits_BA, mask), dim=-1)
    return log_pi_BA.exp(), log_pi_BA if mask is None else log_pi_BA.masked_fill(~mask, 0.0)


def boltzmann(q_BA: Tensor, alpha: Number, mask: Mask = None) -> Tensor:
    """Surrogate critic policy, pi_theta(a|s) ∝ exp(Q(s,a) / alpha). [B, A] -> [B, A].

    Computed as softmax((Q - max Q) / alpha); the paper's stable form lacks the parentheses.
    """
    return _softmax_at(alpha, q_BA, mask)


def mean_constrained(q_BA: Tensor, lam: Number, alpha: Number, mask: Mask = None) -> Tensor:
    """Mean-constrained policy, pi(a|s) ∝ exp((1 - lambda_1) Q(s,a) / alpha). [B, A] -> [B, A].

    The `plain` form of the appendix is the same function with alpha = 1.
    """
    q_BA = neutral(q_BA, mask)
    centred_BA = q_BA - q_BA.amax(dim=-1, keepdim=True)  # before the product: an offset would cost digits
    return _softmax_at(alpha, (1 - column(lam, q_BA)) * centred_BA, mask)


def variance_constrained(q_BA: Tensor, lam: Number, mu: Number, alpha: Number, mask: Mask = None) -> Tensor:
    """Variance-constrained policy, pi(a|s) ∝ exp((Q - lambda_2 (Q - mu)^2) / alpha). [B, A] -> [B, A].

    `mu` is the actor's mean mu_phi (as in the appendix; the main text writes mu), minus eps where the constraint is
    perturbed. Squares are taken in float64: the square of a float32 Q of 1e30 does not fit float32.
    """
    q64_BA = q_BA.double()
    deviation_BA = ((q64_BA - column(mu, q64_BA)) ** 2).clamp(max=1e300)
    return _softmax_at(alpha, q64_BA - column(lam, q64_BA) * deviation_BA, mask).to(q_BA.dtype)


def natural_softmax(logits_BA: Tensor, mask: Mask = None, share: float = 1.0) -> tuple[Tensor, Tensor]:
    """As `policy_of`, with the natural gradient. [B, A] -> [B, A], [B, A].

    The ordinary gradient of a loss J(pi) in the logits is F dJ/dpi. F = diag(pi) - pi pi^T is the softmax's Jacobian
    and also its Fisher matrix. Where pi is nearly certain, F is nearly zero, and what the loss says about the other
    actions is lost. The natural gradient F^+ F dJ/dpi is dJ/dpi minus its mean over the allowed actions: it has no
    factor pi, even where pi has underflowed. For sum_a pi (alpha log pi - Q) it is alpha log pi - Q, centred, so the
    logits approach Q / alpha at the same rate everywhere. Here pi carries that gradient and log pi is a constant. The
    gradient of log pi would only add a constant to dJ/dpi, in the actor's loss and in the entropy, because sum_a pi
    is 1.

    With a `share` s below 1 the gradient is s times this one and 1 - s times the ordinary one. An action then counts
    by about (1 - s) pi + s: by how probable it is, and by a little even where the policy has given it up.
    """
    pi_BA, log_pi_BA = policy_of(logits_BA.detach(), mask)
    centred_BA = logits_BA - allowed_mean(logits_BA, mask)
    if mask is not None:
        centred_BA = centred_BA.masked_fill(~mask, 0.0)
    carrier_BA = centred_BA if share == 1 else share * centred_BA + (1 - share) * policy_of(logits_BA, mask)[0]
    return pi_BA + (carrier_BA - carrier_BA.detach()), log_pi_BA


def entropy(pi_BA: Tensor) -> Tensor:
    """H(pi) = -sum_a pi(a) log pi(a), with 0 log 0 = 0. [B, A] -> [B]."""
    summand_BA: Tensor = torch.special.xlogy(pi_BA, pi_BA)
    return -summand_BA.sum(dim=-1)


def target_entropy(actions: Number, ratio: float) -> float:
    """H_target = ratio * log A: the temperature aims for this share of a uniform policy's entropy.

    With masks A is the number of allowed actions of each state, [B], and H_target the mean over states.
    """
    return ratio * float(torch.as_tensor(actions, dtype=torch.float64).log().mean())


def linear_schedule(start: float, end: float, fraction: float) -> float:
    """start + (end - start) * fraction for `fraction` from 0 to 1; constant outside that range."""
    return start + (end - start) * min(max(fraction, 0.0), 1.0)


def exponential_schedule(start: float, end: float, fraction: float) -> float:
    """start^(1-x) end^x for x = `fraction` from 0 to 1, by equal factors; constant outside that range. Both above 0."""
    x: float = min(max(fraction, 0.0), 1.0)
    return math.exp((1 - x) * math.log(start) + x * math.log(end))
