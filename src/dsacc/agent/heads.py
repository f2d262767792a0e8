"""What critics end in: one number per action, or the probabilities of bins of values (`critic_loss="hl-gauss"`).

Only the loss needs the bins. Everybody else asks for Q, which is their mean.
"""

import torch
from torch import Tensor, nn

from dsacc.config import Config
from dsacc.maths import bin_centres, bin_edges, bin_loss, dueling, expected_bin, gaussian_bins

SMALL = 0.01  # of Kaiming's initial weights: Q begins near 0, and the twins still differ


class Head(nn.Linear):
    """The last layer of a critic: features [B, F] to Q [B, A], or to logits [B, A, K] of K bins from -value_limit to
    value_limit. With `dueling` it gives V and an advantage for each action, which `dsacc.maths.dueling` puts together.
    """

    def __init__(self, config: Config, features: int, actions: int) -> None:
        self.bins = config.value_bins if config.critic_loss == "hl-gauss" else None
        self.dueling = config.dueling
        super().__init__(features, (actions + self.dueling) * (self.bins or 1))

    def forward(self, features: Tensor) -> Tensor:
        out = super().forward(features)
        if self.bins is not None:
            out = out.reshape(len(features), -1, self.bins)
        return dueling(out[:, 0], out[:, 1:]) if self.dueling else out


class Bins(nn.Module):
    """The bins of the settings: from logits to Q, and the loss of logits. Nothing here is learned or saved."""

    edges: Tensor
    centres: Tensor

    def __init__(self, config: Config) -> None:
        super().__init__()
        edges = bin_edges(config.value_limit, config.value_bins)
        self.register_buffer("edges", edges, persistent=False)
        self.register_buffer("centres", bin_centres(edges), persistent=False)
        self.sigma = config.value_sigma * 2 * config.value_limit / config.value_bins

    def forward(self, logits: Tensor) -> Tensor:
        """Q [B, A] from logits [B, A, K]."""
        return expected_bin(logits, self.centres)

    def loss(
        self, logits1_BAK: Tensor, logits2_BAK: Tensor, action_B: Tensor, target_B: Tensor, weight_B: Tensor
    ) -> Tensor:
        """Both critics' losses, added."""
        goal_BK = gaussian_bins(target_B, self.edges, self.sigma)
        rows_B = torch.arange(len(action_B), device=action_B.device)
        said = (logits_BAK[rows_B, action_B] for logits_BAK in (logits1_BAK, logits2_BAK))
        first, second = (bin_loss(logits_BK, goal_BK, weight_B) for logits_BK in said)
        return first + second

    def outside(self, target_B: Tensor) -> Tensor:
        """The share of targets beyond the bins, which are learned as the last bin: more than a few, and value_limit is
        too small."""
        return (target_B.abs() > self.edges[-1]).double().mean()
