"""A temperature in proportion to the range of the values (`alpha_scale="range"`), for rewards of any size.

    alpha_t = alpha * max(min_range, R_t),    R_t = (1 - rate) R_{t-1} + rate (P95(y) - P5(y))

y are the critics' targets in the minibatch of update t. After DreamerV3 (Hafner et al. 2023), which divides advantages
by this range of returns in place of multiplying the entropy's weight by it; for the policy that is the same.

Why y: it holds rewards that were earned, n steps of them, and costs nothing, because the critics need it anyway. The
differences of Q between the actions of a state would not do. They are noise at first, and a temperature in proportion
to them keeps the policy equally random whatever it has learned, as a target entropy does. y differs between states.

Why a lower limit: until a twentieth of the states have a reward ahead, R is the critics' noise. The limit of one
reward makes alpha the fixed temperature there, never a colder one.
"""

import torch
from torch import Tensor

from dsacc.config import Config
from dsacc.maths import value_range

RATE = 0.01  # DreamerV3's: the average reaches back some hundred updates, a few thousand states


class ValueRange:
    """The slow average R of the range of the critics' targets. It starts at the lower limit."""

    def __init__(self, config: Config, device: torch.device) -> None:
        self.limit = config.min_range
        self.average = torch.tensor(config.min_range, device=device)

    @torch.no_grad()
    def follow(self, target_B: Tensor, alpha: float) -> Tensor:
        """Take the targets of one update in, and return the temperature for the next one. [B] -> scalar."""
        self.average.lerp_(value_range(target_B), RATE)
        return alpha * self.average.clamp(min=self.limit)
