"""Encoders and heads. An encoder turns observations into features, a head turns features into one number per action.

To add an encoder: its convolutions in `_CONVOLUTIONS`, and its name in the type of `Config.encoder`.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dsacc.agent.observation import ObservationSpec
from dsacc.config import Config
from dsacc.errors import ConfigError

Layers = list[nn.Module]
# Convolutions by the name of the encoder: the fewest pixels per side that they need, and the layers for C channels.
_CONVOLUTIONS: dict[str, list[tuple[int, Callable[[int], Layers]]]] = {
    "nature": [(36, lambda c: [nn.Conv2d(c, 32, 8, 4), nn.Conv2d(32, 64, 4, 2), nn.Conv2d(64, 64, 3, 1)])],  # Mnih 2015
    "compact": [(36, lambda c: [nn.Conv2d(c, 16, 8, 4), nn.Conv2d(16, 32, 4, 2)])],  # Mnih 2013
    "small": [
        (25, lambda c: [nn.Conv2d(c, 32, 5, 5), nn.Conv2d(32, 64, 5, 5)]),  # data-efficient Rainbow
        (8, lambda c: [nn.Conv2d(c, 32, 3, 2), nn.Conv2d(32, 64, 3, 1)]),
    ],
}


def choose_encoder(config: Config, spec: ObservationSpec) -> str:
    """`auto` is the mlp for anything but pictures; for pictures `small` with a shared trunk, else `nature`.

    `compact` is for any observation too: `small` where a picture is too small for it, the mlp where there is none.
    """
    if config.encoder not in ("auto", "compact"):
        if config.encoder != "mlp" and spec.kind != "image":
            raise ConfigError(f"encoder {config.encoder!r} needs pictures, but this environment shows none; use mlp")
        return config.encoder
    if spec.kind != "image" or min(spec.shape[1:]) < 16:
        return "mlp"
    if min(spec.shape[1:]) < 36:
        return "small"
    if config.encoder == "compact":
        return "compact"
    return "small" if config.shared_trunk else "nature"


def _convolutions(kind: str, spec: ObservationSpec) -> Layers:
    """The layers of an encoder for pictures of this size."""
    smallest = min(spec.shape[1:])
    for least, layers in _CONVOLUTIONS[kind]:
        if smallest >= least:
            return layers(spec.shape[0])
    instead = "mlp" if kind == "small" else "small or mlp"
    raise ConfigError(
        f"encoder {kind!r} needs pictures of {least}x{least} pixels or more, not {spec.shape[1:]}; use {instead}"
    )


def scaled(observation: Tensor, centred: bool = False) -> Tensor:
    """Pictures from uint8 to [0, 1], or to [-1, 1] where a filter has `centred` them on 128; anything else unchanged.
    Done once per minibatch, for all networks.

    Convolutions are fastest on channels-last memory ([B, H, W, C] under the shape [B, C, H, W]).
    """
    if observation.dtype != torch.uint8:
        return observation
    pixels = observation.contiguous(memory_format=torch.channels_last).float()
    return pixels.sub_(128).div_(127) if centred else pixels.div_(255)


class Encoder(nn.Module):
    """Observations, scaled by `scaled`, to features [B, F]."""

    def __init__(self, config: Config, spec: ObservationSpec) -> None:
        super().__init__()
        self.spec = spec
        self.kind = choose_encoder(config, spec)
        if self.kind == "mlp":
            widths = [spec.width] + [config.hidden] * config.hidden_layers
            self.body = nn.Sequential(*_relu_layers(nn.Linear(a, b) for a, b in pairwise(widths)))
        else:
            self.convolutions = nn.Sequential(*_relu_layers(_convolutions(self.kind, spec)))
            self.convolutions.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
            flat = self.convolutions(torch.zeros(1, *spec.shape)).numel()
            self.body = nn.Sequential(nn.Linear(flat, config.hidden), nn.ReLU())
        self.features = config.hidden
        self.rescale = config.rescale_features
        self.standardise = config.standardise_pictures and spec.kind == "image"

    def forward(self, observation: Tensor) -> Tensor:
        if self.spec.kind == "discrete":
            parts = [F.one_hot(observation[:, i], n) for i, n in enumerate(self.spec.categories)]
            return self.body(torch.cat(parts, dim=1).float())
        if self.standardise:
            observation = standardised(observation)
        if self.kind != "mlp":
            observation = self.convolutions(observation).permute(0, 2, 3, 1)  # memory order: flattening is free
            if self.rescale:
                observation = rescaled(observation)
        return self.body(observation.flatten(1))


def standardised(x: Tensor) -> Tensor:
    """(x - mean x) / (std x + 0.01), per channel of each sample [B, C, H, W]: every frame has its own weather."""
    std, mean = torch.std_mean(x, (2, 3), correction=0, keepdim=True)
    return (x - mean) / (std + 0.01)


def rescaled(x: Tensor) -> Tensor:
    """(x - min x) / (max x - min x) per sample, as in SPR (Schwarzer et al. 2021)."""
    low, high = x.amin((1, 2, 3), keepdim=True), x.amax((1, 2, 3), keepdim=True)
    return (x - low) / (high - low + 1e-5)


def _relu_layers(layers: Iterable[nn.Module]) -> Iterator[nn.Module]:
    for layer in layers:
        yield layer
        yield nn.ReLU(inplace=True)


class Critics(nn.Module):
    """Twin critics, each with its own encoder or with one that both (and the actor) share."""

    def __init__(self, config: Config, spec: ObservationSpec, actions: int) -> None:
        super().__init__()
        self.encoders = nn.ModuleList(Encoder(config, spec) for _ in range(1 if config.shared_trunk else 2))
        self.heads = nn.ModuleList(nn.Linear(config.hidden, actions) for _ in range(2))

    def features(self, observation: Tensor) -> tuple[Tensor, Tensor]:
        """Features [B, F] per critic; the same tensor twice where the encoder is shared."""
        first = self.encoders[0](observation)
        return first, first if len(self.encoders) == 1 else self.encoders[1](observation)

    def q_values(self, features: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        """Q_1 and Q_2, [B, A] each."""
        return self.heads[0](features[0]), self.heads[1](features[1])

    def forward(self, observation: Tensor) -> tuple[Tensor, Tensor]:
        return self.q_values(self.features(observation))


class Actor(nn.Module):
    """The policy: logits [B, A] from its own encoder, or from the critics' features, which it does not train."""

    def __init__(self, config: Config, spec: ObservationSpec, actions: int) -> None:
        super().__init__()
        self.encoder = None if config.shared_trunk else Encoder(config, spec)
        self.head = nn.Linear(config.hidden, actions)

    def forward(self, observation: Tensor, critic_features: Tensor) -> Tensor:
        features = critic_features.detach() if self.encoder is None else self.encoder(observation)
        return self.head(features)


def initialise(network: nn.Module, generator: torch.Generator) -> None:
    """Kaiming-normal weights and zero biases, drawn from `generator` in the order of the modules."""
    for module in network.modules():
        if isinstance(module, (nn.Linear, nn.Conv2d)):
            nn.init.kaiming_normal_(module.weight, generator=generator)
            nn.init.zeros_(module.bias)  # type: ignore[arg-type]
