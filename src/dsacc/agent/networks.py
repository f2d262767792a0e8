"""Encoders and heads. An encoder turns observations into features, a head turns features into one number per action.

To add an encoder: its convolutions in `_CONVOLUTIONS`, and its name in `dsacc.config.ENCODERS`. Users add theirs by
`register_encoder` (see `dsacc.agent.encoders`).
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise

import torch
from torch import Tensor, nn

from dsacc.agent.encoders import OwnEncoder, find_encoder
from dsacc.agent.heads import SMALL, Bins, Head
from dsacc.agent.observation import ObservationSpec
from dsacc.agent.parts import one_hot, split
from dsacc.agent.scaling import rescaled, standardised
from dsacc.config import Config
from dsacc.errors import ConfigError

FIRST_GAIN = 0.15  # of a layer norm: Q begins about as large as with rescaled features, not six times as large
Layers = list[nn.Module]
# Convolutions by the name of the encoder: the fewest pixels per side that they need, and the layers for C channels.
_CONVOLUTIONS: dict[str, list[tuple[int, Callable[[int], Layers]]]] = {
    "nature": [(36, lambda c: [nn.Conv2d(c, 32, 8, 4), nn.Conv2d(32, 64, 4, 2), nn.Conv2d(64, 64, 3, 1)])],  # Mnih 2015
    "compact": [(36, lambda c: [nn.Conv2d(c, 16, 8, 4), nn.Conv2d(16, 32, 4, 2)])],  # Mnih 2013
    "small": [
        (25, lambda c: [nn.Conv2d(c, 32, 5, 5), nn.Conv2d(32, 64, 5, 5)]),  # data-efficient Rainbow
        (8, lambda c: [nn.Conv2d(c, 32, 3, 2), nn.Conv2d(32, 64, 3, 1)]),
    ],
    # MinAtar's own (Young 2019), behind a layer that reads each cell of four by four pixels.
    "cells": [(12, lambda c: [nn.Conv2d(c, 16, 4, 4), nn.Conv2d(16, 16, 3, 1)])],
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


class Encoder(nn.Module):
    """Observations, scaled by `scaled`, to features [B, F].

    With `layer_norm` the whole output of the convolutions x is normalised, for each picture by itself:
    gain (x - mean x) / std x + bias (Ba et al. 2016). One very bright spot then shrinks the others less than where
    `rescale_features` divides by the largest value. In the mlp every hidden layer is normalised before its ReLU.
    """

    def __init__(self, config: Config, spec: ObservationSpec) -> None:
        super().__init__()
        self.spec = spec
        self.kind = choose_encoder(config, spec)
        if self.kind == "mlp":
            widths = [spec.width] + [config.hidden] * config.hidden_layers
            self.body = nn.Sequential(*_dense(widths, config.layer_norm))
        else:
            self.convolutions = nn.Sequential(*_relu_layers(_convolutions(self.kind, spec)))
            self.convolutions.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
            flat = self.convolutions(torch.zeros(1, *spec.shape)).numel()
            self.norm = nn.LayerNorm(flat) if config.layer_norm else None
            if self.norm is not None:
                nn.init.constant_(self.norm.weight, FIRST_GAIN)
            self.body = nn.Sequential(nn.Linear(flat, config.hidden), nn.ReLU())
        self.features = config.hidden
        self.rescale = config.rescale_features
        self.standardise = config.standardise_pictures and spec.kind == "image"

    def forward(self, observation: Tensor) -> Tensor:
        if self.spec.kind == "discrete":
            return self.body(one_hot(observation, self.spec.categories))
        if self.standardise:
            observation = standardised(observation)
        if self.kind != "mlp":
            observation = self.convolutions(observation).permute(0, 2, 3, 1)  # memory order: flattening is free
            if self.rescale:
                observation = rescaled(observation)
            if self.norm is not None:
                observation = self.norm(observation.flatten(1))
        return self.body(observation.flatten(1))


class PartsEncoder(nn.Module):
    """Observations of several parts to features [B, F]: each picture through convolutions of its own, everything else
    together through the mlp; then one layer that sees all of their features, so that parts can explain each other."""

    def __init__(self, config: Config, spec: ObservationSpec) -> None:
        super().__init__()
        self.spec, self.features = spec, config.hidden
        self.pictures = [name for name, part in spec.parts if part.kind == "image"]
        self.numbers = [name for name, part in spec.parts if part.kind != "image"]
        parts = dict(spec.parts)
        if not self.pictures:
            choose_encoder(config, spec)  # refuses convolutions
        self.encoders = nn.ModuleList(Encoder(config, parts[name]) for name in self.pictures)
        if self.numbers:
            numbers = ObservationSpec("vector", (sum(parts[name].width for name in self.numbers),))
            self.encoders.append(Encoder(replace(config, encoder="mlp"), numbers))
        self.kind = ", ".join(str(encoder.kind) for encoder in self.encoders)
        joint = [nn.Linear(len(self.encoders) * config.hidden, config.hidden), nn.ReLU()]
        self.joint = nn.Sequential(*joint if len(self.encoders) > 1 else [])

    def forward(self, observation: Tensor) -> Tensor:
        parts = split(observation, self.spec)
        seen = [parts[name] for name in self.pictures]
        if self.numbers:
            seen.append(torch.cat([parts[name] for name in self.numbers], dim=1))
        features = [encoder(x) for encoder, x in zip(self.encoders, seen, strict=True)]
        return self.joint(torch.cat(features, dim=1))


def make_encoder(config: Config, spec: ObservationSpec) -> Encoder | PartsEncoder | OwnEncoder:
    """The encoder that the settings name, for observations of this form."""
    build = find_encoder(config.encoder)
    if build is not None:
        return OwnEncoder(config, spec, build)
    return (PartsEncoder if spec.kind == "dict" else Encoder)(config, spec)


def _dense(widths: list[int], normalised: bool) -> Iterator[nn.Module]:
    """Hidden layers of these widths, each with a ReLU."""
    for before, after in pairwise(widths):
        yield nn.Linear(before, after)
        if normalised:
            yield nn.LayerNorm(after)
        yield nn.ReLU(inplace=True)


def _relu_layers(layers: Iterable[nn.Module]) -> Iterator[nn.Module]:
    for layer in layers:
        yield layer
        yield nn.ReLU(inplace=True)


class Critics(nn.Module):
    """Twin critics, each with its own encoder or with one that both (and the actor) share."""

    def __init__(self, config: Config, spec: ObservationSpec, actions: int) -> None:
        super().__init__()
        encoders = [make_encoder(config, spec) for _ in range(1 if config.shared_trunk else 2)]
        self.width = encoders[0].features
        self.encoders = nn.ModuleList(encoders)
        self.heads = nn.ModuleList(Head(config, self.width, actions) for _ in range(2))
        self.bins = Bins(config) if config.critic_loss == "hl-gauss" else None

    def features(self, observation: Tensor) -> tuple[Tensor, Tensor]:
        """Features [B, F] per critic; the same tensor twice where the encoder is shared."""
        first = self.encoders[0](observation)
        return first, first if len(self.encoders) == 1 else self.encoders[1](observation)

    def outputs(self, features: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        """What the heads give: Q_1 and Q_2, [B, A] each, or logits of bins, [B, A, K] each."""
        return self.heads[0](features[0]), self.heads[1](features[1])

    def values(self, outputs: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        """Q_1 and Q_2, [B, A] each, from what the heads give."""
        return outputs if self.bins is None else (self.bins(outputs[0]), self.bins(outputs[1]))

    def q_values(self, features: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        """Q_1 and Q_2, [B, A] each."""
        return self.values(self.outputs(features))

    def forward(self, observation: Tensor) -> tuple[Tensor, Tensor]:
        return self.q_values(self.features(observation))


class Actor(nn.Module):
    """The policy: logits [B, A] from its own encoder, or from the critics' features, which it does not train."""

    def __init__(self, config: Config, spec: ObservationSpec, actions: int, critic_features: int | None = None) -> None:
        """`critic_features` is how many features a shared encoder gives, where it is not `hidden`."""
        super().__init__()
        self.encoder = None if config.shared_trunk else make_encoder(config, spec)
        features = (critic_features or config.hidden) if self.encoder is None else self.encoder.features
        self.head = nn.Linear(features, actions)

    def forward(self, observation: Tensor, critic_features: Tensor) -> Tensor:
        features = critic_features.detach() if self.encoder is None else self.encoder(observation)
        return self.head(features)


def numbers_to_act(config: Config, spec: ObservationSpec, actions: int) -> int:
    """How many numbers the networks hold that an agent acts with. They are not allocated: a file may name any size."""
    with torch.device("meta"):
        shared = [make_encoder(config, spec)] if config.shared_trunk else []
        networks: list[nn.Module] = [*shared, Actor(config, spec, actions)]
    return sum(parameter.numel() for network in networks for parameter in network.parameters())


def initialise(network: nn.Module, generator: torch.Generator) -> None:
    """Kaiming-normal weights and zero biases, drawn from `generator` in the order of the modules. What users have built
    is left as it is."""
    own = {m for encoder in network.modules() if isinstance(encoder, OwnEncoder) for m in encoder.modules()}
    for module in network.modules():
        if isinstance(module, (nn.Linear, nn.Conv2d)) and module not in own:
            nn.init.kaiming_normal_(module.weight, generator=generator)
            nn.init.zeros_(module.bias)  # type: ignore[arg-type]
        if isinstance(module, Head) and module.bins is not None:
            module.weight.data.mul_(SMALL)


@contextmanager
def seeded(config: Config, generator: torch.Generator) -> Iterator[None]:
    """Where an encoder is a user's own, torch's global random numbers follow `generator` inside this block and are as
    before after it. Nothing is drawn for the encoders of dsacc."""
    if find_encoder(config.encoder) is None:
        yield
        return
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(torch.randint(2**62, (), generator=generator)))
        yield
