"""Shrink and perturb: a reset that forgets what networks have fitted too closely and keeps part of what they see.

After SR-SPR (D'Oro et al. 2023) and BBF (Schwarzer et al. 2023). With new weights w' drawn as at the start of a run,

    convolutions:     w <- keep w + (1 - keep) w'     Adam's moments stay
    everything else:  w <- w'                         Adam's moments start anew

Of an encoder without convolutions (vectors, or one of a user's own) all weights count as convolutions. The temperature
and the replay memory stay as they are.
"""

import torch
from torch import nn

from dsacc.agent.encoders import OwnEncoder
from dsacc.agent.networks import Encoder


def kept_parameters(network: nn.Module) -> set[str]:
    """The names of the parameters that a reset keeps a share of."""
    kept = set()
    for name, module in network.named_modules():
        if isinstance(module, OwnEncoder):
            kept |= {f"{name}.{inner}" for inner, _ in module.named_parameters()}
        elif isinstance(module, Encoder):
            part = "body" if module.kind == "mlp" else "convolutions"
            kept |= {f"{name}.{part}.{inner}" for inner, _ in getattr(module, part).named_parameters()}
    return kept


@torch.no_grad()
def shrink_and_perturb(network: nn.Module, fresh: nn.Module, keep: float) -> list[nn.Parameter]:
    """Reset `network` towards `fresh`, in place. Returns the parameters of which nothing was kept."""
    kept, new, replaced = kept_parameters(network), dict(fresh.named_parameters()), list[nn.Parameter]()
    for name, parameter in network.named_parameters():
        if name in kept and keep > 0:
            parameter.mul_(keep).add_(new[name], alpha=1 - keep)
        else:
            parameter.copy_(new[name])
            replaced.append(parameter)
    return replaced
