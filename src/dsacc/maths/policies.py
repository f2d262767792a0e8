"""The policies of the method as functions of Q, used to solve for lambda; only the actor chooses actions.

Also the actor's softmax with its natural gradient.
"""

import torch
from torch import Tensor

Number = Tensor | float


def column(x: Number, like_BA: Tensor) -> Tensor:
    """A number, [B] or [B, 1], in a shape that broadcasts against [B, A]."""
    x = torch.as_tensor(x, dtype=like_BA.dtype, device=like_BA.device)
    return x.unsqueeze(-1) if x.dim() == 1 else x


def _softmax_at(temperature: Number, exponent_BA: Tensor) -> Tensor:
    """softmax(exponent / temperature). Subtracting the row's maximum first keeps the division from overflowing."""
    shifted_BA = exponent_BA - exponent_BA.amax(dim=-1, keepdim=True)
    return torch.softmax(shifted_BA / column(temperature, exponent_BA), dim=-1)


def boltzmann(q_BA: Tensor, alpha: Number) -> Tensor:
    """Surrogate critic policy, pi_theta(a|s) ∝ exp(Q(s,a) / alpha). [B, A] -> [B, A].

    Computed as softmax((Q - max Q) / alpha); the paper's stable form lacks the parentheses.
    """
    return _softmax_at(alpha, q_BA)


def mean_constrained(q_BA: Tensor, lam: Number, alpha: Number) -> Tensor:
    """Mean-constrained policy, pi(a|s) ∝ exp((1 - lambda_1) Q(s,a) / alpha). [B, A] -> [B, A].

    The `plain` form of the appendix is the same function with alpha = 1.
    """
    centred_BA = q_BA - q_BA.amax(dim=-1, keepdim=True)  # before the product: an offset would cost digits
    return _softmax_at(alpha, (1 - column(lam, q_BA)) * centred_BA)


def variance_constrained(q_BA: Tensor, lam: Number, mu: Number, alpha: Number) -> Tensor:
    """Variance-constrained policy, pi(a|s) ∝ exp((Q - lambda_2 (Q - mu)^2) / alpha). [B, A] -> [B, A].

    `mu` is the actor's mean mu_phi (as in the appendix; the main text writes mu), minus eps where the constraint is
    perturbed. Squares are taken in float64: the square of a float32 Q of 1e30 does not fit float32.
    """
    q64_BA = q_BA.double()
    deviation_BA = ((q64_BA - column(mu, q64_BA)) ** 2).clamp(max=1e300)
    return _softmax_at(alpha, q64_BA - column(lam, q64_BA) * deviation_BA).to(q_BA.dtype)


def natural_softmax(logits_BA: Tensor) -> tuple[Tensor, Tensor]:
    """Softmax and its logarithm, with the natural gradient. [B, A] -> [B, A], [B, A].

    The ordinary gradient of a loss J(pi) in the logits is F dJ/dpi. F = diag(pi) - pi pi^T is the softmax's Jacobian
    and also its Fisher matrix. Where pi is nearly certain, F is nearly zero, and what the loss says about the other
    actions is lost. The natural gradient F^+ F dJ/dpi is dJ/dpi minus its mean over actions: it has no factor pi, even
    where pi has underflowed. For sum_a pi (alpha log pi - Q) it is alpha log pi - Q, centred, so the logits approach
    Q / alpha at the same rate everywhere. Here pi carries that gradient and log pi is a constant. The gradient of
    log pi would only add a constant to dJ/dpi, in the actor's loss and in the entropy, because sum_a pi is 1.
    """
    log_pi_BA = torch.log_softmax(logits_BA.detach(), dim=-1)
    centred_BA = logits_BA - logits_BA.mean(dim=-1, keepdim=True)
    return log_pi_BA.exp() + (centred_BA - centred_BA.detach()), log_pi_BA


def entropy(pi_BA: Tensor) -> Tensor:
    """H(pi) = -sum_a pi(a) log pi(a), with 0 log 0 = 0. [B, A] -> [B]."""
    summand_BA: Tensor = torch.special.xlogy(pi_BA, pi_BA)
    return -summand_BA.sum(dim=-1)


def target_entropy(actions: int, ratio: float) -> float:
    """H_target = ratio * log A: the temperature aims for this share of a uniform policy's entropy."""
    return ratio * float(torch.tensor(float(actions), dtype=torch.float64).log())


def linear_schedule(start: float, end: float, fraction: float) -> float:
    """start + (end - start) * fraction for `fraction` from 0 to 1; constant outside that range."""
    return start + (end - start) * min(max(fraction, 0.0), 1.0)
