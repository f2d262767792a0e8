"""Encoders of one's own: a function that builds a module, registered by name.

A run saves the name of its encoder, never its code. Code is imported only where a user names its module or trusts the
file: a saved file must not choose what is executed.
"""

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor, nn

from dsacc.agent.observation import ObservationSpec
from dsacc.agent.parts import one_hot, split
from dsacc.agent.scaling import standardised
from dsacc.config import ENCODERS, OWN_ENCODERS, Config
from dsacc.errors import ConfigError, first_line
from dsacc.system.imports import import_here
from dsacc.system.text import nearest
from dsacc.system.trust import require

Build = Callable[[spaces.Space[Any], Config], nn.Module]
_NEVER = (nn.modules.dropout._DropoutNd, nn.modules.batchnorm._BatchNorm)  # see OwnEncoder
_BUILDS: dict[str, Build] = {}


def register_encoder(name: str, build: Build) -> None:
    """Add an encoder, or replace the one of that name. `encoder=name` then means it, in every network of an agent.

    `build(space, config)` returns a new `nn.Module` from a batch of observations to features [B, F]; F is up to it.
    `space` is what the module is given, as floats: `Box` [C, H, W] from 0 to 1 for pictures, `Box` [n] for vectors,
    indices one-hot, and a `Dict` of these for observations of several parts, which arrive as a dict of tensors. The
    module's weights start as its own code draws them from torch's random numbers, which are seeded by the run's seed.

    >>> register_encoder("flat", lambda space, config: nn.Sequential(nn.Flatten(), nn.LazyLinear(config.hidden)))
    """
    if not isinstance(name, str) or not name.replace("-", "_").isidentifier():
        raise ConfigError(f"an encoder's name has letters, digits, - and _, unlike {name!r}")
    if name in ENCODERS:
        raise ConfigError(f"{name!r} is an encoder of dsacc; give yours another name")
    if not callable(build):
        raise ConfigError(f"an encoder is a function of a space and the settings, not a {type(build).__name__}")
    _BUILDS[name] = build
    OWN_ENCODERS.add(name)


def import_encoder(name: str) -> None:
    """Import the module of `MODULE:name`, because a user has named it."""
    module, colon, _ = name.partition(":")
    if colon and module not in sys.modules:
        import_here(module, f"encoder {name!r} needs the module {module!r}, neither in this folder nor installed")


def import_stored_encoder(name: str, file: str) -> None:
    """The same for a name that was read from `file`: only where the user trusts it. A module that was imported before
    is used as it is."""
    require(name, "encoder", file, "--import {module}", "first import {module}")
    import_encoder(name)


def find_encoder(name: str) -> Build | None:
    """The registered function behind a setting `encoder`; None for the encoders of dsacc. Imports nothing."""
    if name in ENCODERS:
        return None
    module, colon, own = name.rpartition(":")
    if colon and module not in sys.modules:
        raise ConfigError(
            f"encoder {name!r} is in the module {module!r}, which is not imported; a saved agent imports nothing by "
            f"itself, so first `import {module}` in Python, or give --import {module} on the command line"
        )
    if own not in _BUILDS:
        near = nearest(own, _BUILDS)
        hint = f"; did you mean {near!r}?" if near else f"; it must call register_encoder({own!r}, ...)"
        raise ConfigError(f"the module {module!r} registers no encoder {own!r}{hint}")
    return _BUILDS[own]


def seen_space(spec: ObservationSpec, centred: bool = False) -> spaces.Space[Any]:
    """What an encoder is given, as a space."""
    if spec.kind == "dict":
        return spaces.Dict({name: seen_space(part, centred) for name, part in spec.parts})
    if spec.kind == "image":
        return spaces.Box(-1.0 if centred else 0.0, 1.0, spec.shape, np.float32)
    if spec.kind == "discrete":
        return spaces.Box(0.0, 1.0, (spec.width,), np.float32)
    return spaces.Box(-np.inf, np.inf, spec.shape, np.float32)


class OwnEncoder(nn.Module):
    """A user's module, given observations as `seen_space` describes them. It keeps the weights that it was made with.

    Layers that behave differently while learning are refused: dropout draws random numbers that no checkpoint keeps,
    and batch statistics would change while the agent acts.
    """

    def __init__(self, config: Config, spec: ObservationSpec, build: Build) -> None:
        super().__init__()
        self.spec = spec
        self.kind = config.encoder
        self.standardise = config.standardise_pictures
        self.body = self._built(build, seen_space(spec, config.picture_filter != "none"), config)
        for module in self.body.modules():
            if isinstance(module, _NEVER):
                raise ConfigError(
                    f"encoder {self.kind!r} has a layer {type(module).__name__}, with which a run could not be "
                    "repeated or continued exactly; use LayerNorm or GroupNorm, or none"
                )
        self.features = self._tried(spec)

    def _built(self, build: Build, space: Any, config: Config) -> nn.Module:
        try:
            body = build(space, config)
        except Exception as error:
            raise ConfigError(f"encoder {self.kind!r} cannot be built for {space}: {first_line(error)}") from error
        if not isinstance(body, nn.Module):
            raise ConfigError(f"encoder {self.kind!r} must be an nn.Module, not a {type(body).__name__}")
        return body

    def _tried(self, spec: ObservationSpec) -> int:
        """How many features it gives, by a run on zeros."""
        shape = (spec.width,) if spec.kind == "dict" else spec.shape
        zeros = torch.zeros(2, *shape, dtype=torch.int64 if spec.kind == "discrete" else torch.float32)
        try:
            with torch.no_grad():
                found: Any = self(zeros)
        except Exception as error:
            raise ConfigError(f"encoder {self.kind!r} failed on a batch of 2: {first_line(error)}") from error
        if not isinstance(found, Tensor) or found.dim() != 2 or len(found) != 2 or not found.is_floating_point():
            what = f"{found.dtype} of shape {tuple(found.shape)}" if isinstance(found, Tensor) else type(found).__name__
            raise ConfigError(f"encoder {self.kind!r} must turn a batch of 2 into floats [2, features], not {what}")
        return found.shape[1]

    def forward(self, observation: Tensor) -> Tensor:
        if self.spec.kind == "dict":
            parts = split(observation, self.spec)
            kinds = dict(self.spec.parts)
            return self.body({name: self._prepared(x, kinds[name].kind == "image") for name, x in parts.items()})
        if self.spec.kind == "discrete":
            return self.body(one_hot(observation, self.spec.categories))
        return self.body(self._prepared(observation, self.spec.kind == "image"))

    def _prepared(self, x: Tensor, picture: bool) -> Tensor:
        """In plain memory order, which `view` of a user's code relies on."""
        return (standardised(x) if picture and self.standardise else x).contiguous()
