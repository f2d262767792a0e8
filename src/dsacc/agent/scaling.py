"""From what the replay holds to what encoders take: floats of an ordinary size."""

from functools import partial

import torch
from torch import Tensor

from dsacc.agent.observation import ObservationSpec
from dsacc.agent.parts import unpacked


def scaled(observation: Tensor, centred: bool, spec: ObservationSpec | None = None) -> Tensor:
    """Pictures from uint8 to [0, 1], or to [-1, 1] where a filter has `centred` them on 128; rows of several parts
    (where `spec` is of the kind `dict`) to floats; anything else unchanged. Done once per minibatch, for all networks.

    Convolutions are fastest on channels-last memory ([B, H, W, C] under the shape [B, C, H, W]).
    """
    if observation.dtype != torch.uint8:
        return observation
    if spec is not None and spec.kind == "dict":
        return unpacked(observation, spec, partial(scaled, centred=centred))
    order = torch.channels_last if observation.dim() == 4 else torch.contiguous_format
    pixels = observation.contiguous(memory_format=order).float()
    return pixels.sub_(128).div_(127) if centred else pixels.div_(255)


def standardised(x: Tensor) -> Tensor:
    """(x - mean x) / (std x + 0.01), per channel of each sample [B, C, H, W]: every frame has its own weather."""
    std, mean = torch.std_mean(x, (2, 3), correction=0, keepdim=True)
    return (x - mean) / (std + 0.01)


def rescaled(x: Tensor) -> Tensor:
    """(x - min x) / (max x - min x) per sample, as in SPR (Schwarzer et al. 2021)."""
    low, high = x.amin((1, 2, 3), keepdim=True), x.amax((1, 2, 3), keepdim=True)
    return (x - low) / (high - low + 1e-5)
