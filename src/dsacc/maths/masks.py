"""Actions that a state does not allow, and how they leave the equations.

A mask is bool [B, A], True where an action is allowed, with at least one True per row. None allows everything. All
equations are sums over actions, weighted by a policy, so a policy that is exactly zero elsewhere is nearly all that is
needed: `excluded` makes it so. What is not weighted (a maximum, a mean over actions) asks `neutral` and `allowed_mean`.
With a mask every function gives what it would give if the other columns had been removed.
"""

import torch
from torch import Tensor

Mask = Tensor | None  # bool [B, A], True where an action is allowed; None allows all


def excluded(exponent_BA: Tensor, mask: Mask) -> Tensor:
    """Exponents or logits with -inf where an action is not allowed: its probability is exactly 0. [B, A] -> same."""
    return exponent_BA if mask is None else exponent_BA.masked_fill(~mask, -torch.inf)


def neutral(x_BA: Tensor, mask: Mask) -> Tensor:
    """x with the row's largest allowed value in place of those not allowed: no maximum, minimum or range changes."""
    return x_BA if mask is None else torch.where(mask, x_BA, excluded(x_BA, mask).amax(dim=-1, keepdim=True))


def allowed_mean(x_BA: Tensor, mask: Mask) -> Tensor:
    """The mean over the allowed actions, all weighted equally. [B, A] -> [B, 1]."""
    if mask is None:
        return x_BA.mean(dim=-1, keepdim=True)
    return x_BA.masked_fill(~mask, 0.0).sum(dim=-1, keepdim=True) / mask.sum(dim=-1, keepdim=True)
