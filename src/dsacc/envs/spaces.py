"""From Gymnasium's spaces to what the networks see, with checks that refuse numbers nobody can learn from."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from dsacc.agent.observation import ObservationSpec
from dsacc.agent.parts import dict_spec, packed
from dsacc.envs.actions import combinations, count_actions
from dsacc.envs.filters import filtered
from dsacc.envs.pictures import float_pictures, has_picture_shape
from dsacc.errors import BadInput, EnvError, ModelError
from dsacc.system.types import Array

MOST_NUMBERS = 2**26  # in one observation of a saved agent; a space of them takes 0.7 GB


class Observations:
    """Turns an environment's observations into network input, one at a time or as a batch.

    Pictures go through `picture_filter` (see `dsacc.envs.filters`). Pictures of floats become bytes first
    (`dsacc.envs.pictures`). A Dict is encoded part by part, into one row of bytes (see `dsacc.agent.parts`).

    >>> space = spaces.Box(0, 255, (96, 96, 3), np.uint8)
    >>> Observations(space).spec
    ObservationSpec(kind='image', shape=(3, 96, 96), categories=(), parts=())
    """

    def __init__(self, space: spaces.Space[Any], picture_filter: str = "none") -> None:
        self.space, self.picture_filter = space, picture_filter
        self.spec: ObservationSpec
        self.parts: dict[str, Observations] = {}  # of a Dict
        if isinstance(space, spaces.Dict):
            self.parts = {_part(name, space[name]): Observations(space[name], picture_filter) for name in space}
            self.spec = dict_spec({name: part.spec for name, part in self.parts.items()})
        else:
            self.spec, self._convert = _understand(space)
        self.raw_shape: tuple[int, ...] = () if isinstance(space, spaces.Discrete) else tuple(space.shape or ())

    def encode(self, observation: Any) -> Array:
        """One observation or a batch, as [B, *spec.shape]. Refuses other shapes, NaN and infinity."""
        if self.parts:
            return self._encode_parts(observation)
        array = np.asarray(observation)
        if array.shape == self.raw_shape:
            array = array[None]
        elif array.shape[1:] != self.raw_shape:
            raise ModelError(
                f"an observation of shape {array.shape} does not fit: this agent sees {self.raw_shape or 'a number'}, "
                "or a batch of these"
            )
        encoded = self._convert(array)
        return filtered(encoded, self.picture_filter) if self.is_image else encoded

    def _encode_parts(self, observation: Any) -> Array:
        """A dict of observations, or a dict of batches, as rows."""
        if not isinstance(observation, Mapping) or observation.keys() != self.parts.keys():
            found = f"{', '.join(map(str, observation))}" if isinstance(observation, Mapping) else "no dict"
            raise ModelError(f"an observation must be a dict of {', '.join(self.parts)}; this one has {found}")
        encoded = {}
        for name, part in self.parts.items():
            try:
                encoded[name] = part.encode(observation[name])
            except BadInput as error:
                raise type(error)(f"{name}: {error}") from error
        if len({(len(encoded[name]), part.is_single(observation[name])) for name, part in self.parts.items()}) > 1:
            counts = ", ".join(f"{len(x)} of {name}" for name, x in encoded.items())
            raise ModelError(f"the parts of an observation must be one each, or batches of one size, not {counts}")
        return packed(encoded, self.spec)

    @property
    def is_image(self) -> bool:
        return self.spec.kind == "image"

    def are_flat(self, there: "Observations") -> bool:
        """Whether an agent that was made for these sees the pictures of floats of `there` as vectors. Agents that were
        saved before such observations counted as pictures do."""
        same = self.spec.kind == "vector" and self.raw_shape == there.raw_shape
        return same and float_pictures(there.space) is not None

    def note(self) -> str | None:
        """A sentence where these may be pictures, but nothing tells how to read them."""
        shape = self.raw_shape
        if self.is_image or len(shape) < 3 or not has_picture_shape(self.space):
            return None
        return (
            f"observations of shape {shape} are taken as {np.prod(shape):,} numbers, not as pictures; pictures of "
            "floats need the bounds 0 and 1, or 0 and 255, in the observation_space"
        )

    @property
    def described(self) -> str:
        """The shape of one observation in words."""
        if self.parts:
            return ", ".join(f"{name} {part.described}" for name, part in self.parts.items())
        return str(self.raw_shape or "a number")

    def is_single(self, observation: Any) -> bool:
        if self.parts:
            return all(part.is_single(observation[name]) for name, part in self.parts.items())
        return bool(np.shape(observation) == self.raw_shape)


def stacked(seen: Sequence[Any]) -> Any:
    """Raw observations as a batch: an array, or a dict of arrays."""
    if isinstance(seen[0], Mapping):
        return {name: np.stack([one[name] for one in seen]) for name in seen[0]}
    return np.stack(seen)


def batch_size(batch: Any) -> int:
    """How many observations a batch holds, as `stacked` makes it."""
    return len(next(iter(batch.values())) if isinstance(batch, Mapping) else batch)


def picture_part(space: spaces.Space[Any]) -> str | None:
    """The key of the picture in a Dict of observations that has exactly one; None for anything else."""
    if not isinstance(space, spaces.Dict):
        return None
    found = [name for name, part in Observations(space).parts.items() if part.is_image]
    return found[0] if len(found) == 1 else None


def shows_pictures(space: spaces.Space[Any]) -> bool:
    """Whether there is a picture to look at and to change: the whole observation, or the one in a Dict."""
    return Observations(space).is_image or picture_part(space) is not None


def _part(name: Any, space: spaces.Space[Any]) -> str:
    if not isinstance(name, str):
        raise EnvError(f"the parts of a Dict observation must be named by texts, not by {name!r}")
    if isinstance(space, (spaces.Dict, spaces.Tuple)):
        raise EnvError(f"the part {name!r} of a Dict observation is a {type(space).__name__}; make its parts flat")
    return name


def _understand(space: spaces.Space[Any]) -> tuple[ObservationSpec, Callable[[Array], Array]]:
    """The spec, and the function from a raw batch [B, ...] to network input."""
    if isinstance(space, spaces.Discrete):
        start, n = int(space.start), int(space.n)
        return ObservationSpec("discrete", (1,), (n,)), lambda x: _indices(x[:, None] - start, (n,))
    if isinstance(space, spaces.MultiDiscrete):
        starts = np.asarray(space.start).reshape(-1)
        counts = tuple(int(n) for n in np.asarray(space.nvec).reshape(-1))
        return ObservationSpec("discrete", (len(counts),), counts), (
            lambda x: _indices(x.reshape(len(x), -1) - starts, counts)
        )
    if isinstance(space, spaces.MultiBinary):
        return ObservationSpec("vector", (int(np.prod(space.shape)),)), lambda x: _floats(x.reshape(len(x), -1))
    if isinstance(space, spaces.Box):
        if space.dtype == np.uint8 and len(space.shape) in (2, 3, 4):
            return _image(space.shape)
        floats = float_pictures(space)
        if floats is not None:
            spec, convert = _image(space.shape)
            return spec, lambda x: convert(floats.to_bytes(x))
        size = int(np.prod(space.shape))
        scale = np.float32(1 / 255 if space.dtype == np.uint8 else 1)
        return ObservationSpec("vector", (size,)), lambda x: _floats(x.reshape(len(x), -1)) * scale
    hint = "use Box, Discrete, MultiDiscrete, MultiBinary, or a Dict of these"
    if isinstance(space, spaces.Tuple):
        hint = "wrap it with gymnasium.wrappers.FlattenObservation"
    raise EnvError(f"observations of type {type(space).__name__} are not supported; {hint}")


def _image(shape: tuple[int, ...]) -> tuple[ObservationSpec, Callable[[Array], Array]]:
    """[H, W], [H, W, C], [C, H, W], or a stack of any of these in front, all to [C, H, W]. The short side is C."""
    if len(shape) == 2:
        return ObservationSpec("image", (1, *shape)), lambda x: _bytes(x[:, None])
    if len(shape) == 3:
        if shape[0] < shape[2]:
            return ObservationSpec("image", shape), _bytes
        return ObservationSpec("image", (shape[2], *shape[:2])), lambda x: _bytes(x.transpose(0, 3, 1, 2))
    stack, *frame = shape
    if frame[0] < frame[2]:
        c, h, w = frame
        return ObservationSpec("image", (stack * c, h, w)), lambda x: _bytes(x.reshape(len(x), stack * c, h, w))
    h, w, c = frame
    return ObservationSpec("image", (stack * c, h, w)), (
        lambda x: _bytes(x.transpose(0, 1, 4, 2, 3).reshape(len(x), stack * c, h, w))
    )


def _bytes(x: Array) -> Array:
    if x.dtype != np.uint8:
        raise EnvError(f"the environment gave a picture of type {x.dtype}, but its observation space says uint8")
    return np.ascontiguousarray(x)


def _floats(x: Array) -> Array:
    with np.errstate(over="ignore"):
        x = x.astype(np.float32)
    if not np.isfinite(x).all():
        raise EnvError("the observation holds NaN or infinity, from which nothing can be learned; fix the environment")
    return x


def _indices(x: Array, counts: tuple[int, ...]) -> Array:
    if (x < 0).any() or (x >= np.asarray(counts)).any():
        raise EnvError("a discrete observation is outside its space; fix the environment")
    return x.astype(np.int64)


def check_actions(env: gym.Env[Any, Any]) -> int:
    """The number of actions: of Discrete ones, or of all combinations of several choices. Refuses anything else."""
    return count_actions(env.action_space)


def action_names(env: gym.Env[Any, Any]) -> list[str]:
    """The environment's names of its actions, or their numbers where it has none."""
    meanings = getattr(env.unwrapped, "get_action_meanings", None)
    names = [str(name) for name in meanings()] if callable(meanings) else []
    count = check_actions(env)
    return names if len(names) == count else combinations(env.action_space)


def space_to_json(space: spaces.Space[Any]) -> dict[str, Any]:
    """A space as data, for a saved agent."""
    if isinstance(space, spaces.Box):
        floats = float_pictures(space)
        top = {} if floats is None else {"top": floats.top}  # without it, floats are a vector
        return {"type": "Box", "shape": list(space.shape), "dtype": str(space.dtype), **top}
    if isinstance(space, spaces.Discrete):
        return {"type": "Discrete", "n": int(space.n), "start": int(space.start)}
    if isinstance(space, spaces.MultiDiscrete):
        return {"type": "MultiDiscrete", "nvec": space.nvec.tolist(), "start": np.asarray(space.start).tolist()}
    if isinstance(space, spaces.Dict):
        return {"type": "Dict", "spaces": {name: space_to_json(part) for name, part in space.items()}}
    return {"type": "MultiBinary", "n": list(space.shape or ())}


def space_from_json(data: dict[str, Any]) -> spaces.Space[Any]:
    """The space of a saved agent. A Box comes back with its shape and type; only pictures have their bounds again."""
    kind = data["type"]
    shape = np.asarray(data.get("shape", data.get("n", 0)), float) if kind in ("Box", "MultiBinary") else np.zeros(1)
    if shape.prod() > MOST_NUMBERS:
        raise ModelError(f"a saved agent sees more than {MOST_NUMBERS:,} numbers at once, which no agent does")
    if kind == "Box":
        dtype = np.dtype(data["dtype"])
        low, high = (0, data.get("top", 255)) if dtype == np.uint8 or "top" in data else (-1, 1)
        return spaces.Box(low, high, tuple(data["shape"]), dtype.type)
    if kind == "Discrete":
        return spaces.Discrete(data["n"], start=data["start"])
    if kind == "MultiDiscrete":
        return spaces.MultiDiscrete(data["nvec"], start=data["start"])
    if kind == "MultiBinary":
        return spaces.MultiBinary(data["n"])
    if kind == "Dict":
        return spaces.Dict({name: space_from_json(part) for name, part in data["spaces"].items()})
    raise ModelError(f"a saved agent names the observation space {kind!r}, which this version does not know")
