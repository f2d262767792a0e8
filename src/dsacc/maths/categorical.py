"""Values as probabilities of bins: critics that classify instead of regressing.

HL-Gauss (Imani and White 2018; Farebrother et al. 2024). A value y becomes a Gaussian around it, and its mass in each
bin is the target of a classification. Q is the mean of what is predicted, so all else goes on as with one number.
"""

import torch
from torch import Tensor

from dsacc.maths.losses import weighted_mean


def bin_edges(limit: float, bins: int) -> Tensor:
    """The edges of K bins of one width from -limit to limit. -> [K + 1].

    Linear, unlike symlog: there the mean of a Gaussian's bins is not its centre, and every bootstrap adds that error.
    """
    return torch.linspace(-limit, limit, bins + 1)


def bin_centres(edges: Tensor) -> Tensor:
    """The middle of each bin. [K + 1] -> [K]."""
    return (edges[1:] + edges[:-1]) / 2


def expected_bin(logits: Tensor, centres_K: Tensor) -> Tensor:
    """Q = sum_k softmax(logits)_k centre_k. [..., K] -> [...]."""
    return (torch.softmax(logits, dim=-1) * centres_K).sum(dim=-1)


def gaussian_bins(target_B: Tensor, edges: Tensor, sigma: float) -> Tensor:
    """p_k = (F(e_k+1) - F(e_k)) / (F(e_K) - F(e_0)), F the distribution of N(y, sigma^2). [B], [K + 1] -> [B, K].

    y is clipped to the ends. Their mean is y, but for y within some two sigma of an end, where part of the Gaussian is
    cut off and the mean lies further inside.
    """
    y_B = target_B.clamp(edges[0], edges[-1])
    F_BK = torch.erf((edges - y_B[:, None]) / (sigma * 2**0.5))
    mass_BK = F_BK[:, 1:] - F_BK[:, :-1]
    return mass_BK / mass_BK.sum(dim=-1, keepdim=True)


def bin_loss(logits_BK: Tensor, target_BK: Tensor, weight_B: Tensor | None = None) -> Tensor:
    """J_Q = E[-w sum_k p_k log softmax(logits)_k], the cross-entropy to the target's bins p. [B, K] -> scalar."""
    return weighted_mean(-(target_BK * torch.log_softmax(logits_BK, dim=-1)).sum(dim=-1), weight_B)
