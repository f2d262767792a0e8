"""Where the pictures are in an observation: grey or coloured, stacked or not, channels first or last."""

from collections.abc import Callable

import numpy as np
from gymnasium import spaces

from dsacc.envs.pictures import SMALLEST, float_pictures
from dsacc.errors import ConfigError, EnvError
from dsacc.system.types import Array


class Layout:
    """Turns observations of one shape into pictures [N, H, W, C], oldest first, and back.

    The short axis holds the channels, as everywhere in this package. One channel is a grey picture, three are a colour
    picture. With more, a multiple of 3 is a stack of colour pictures, and any other number is a stack of grey pictures.
    `channels` (1 or 3 per picture) overrides that. A fourth axis in front is a stack too, newest picture last.

    >>> Layout((84, 84, 12)).pictures
    (4, 84, 84, 3)
    >>> Layout((4, 84, 84)).pictures
    (4, 84, 84, 1)
    """

    def __init__(self, shape: tuple[int, ...], channels: int | None = None) -> None:
        self.shape = shape
        stack, frame = (shape[0], shape[1:]) if len(shape) == 4 else (1, shape)
        if len(frame) == 2:
            total, height, width, first = 1, *frame, True
        elif first := frame[0] < frame[2]:
            total, height, width = frame
        else:
            height, width, total = frame
        if min(height, width) < SMALLEST:
            raise ConfigError(f"a shift needs at least {SMALLEST} pixels per side; these pictures are {height}x{width}")
        if channels is None:
            channels = 3 if total % 3 == 0 else 1
        if channels not in (1, 3) or total % channels:
            raise ConfigError(f"channels must be 1 or 3 and divide the observation's {total}; {channels!r} does not")
        each = total // channels
        self.pictures = (stack * each, height, width, channels)
        # In both orders a transpose of five axes brings the pictures to the front.
        if first:
            self._apart, self._order = (stack, each, channels, height, width), (0, 1, 3, 4, 2)
        else:
            self._apart, self._order = (stack, height, width, each, channels), (0, 3, 1, 2, 4)
        self._back = tuple(int(i) for i in np.argsort(self._order))
        self._ordered = tuple(self._apart[i] for i in self._order)

    def split(self, observation: Array) -> Array:
        """The pictures, copied: an environment may write its next observation into the same memory."""
        observation = np.asarray(observation)
        if observation.shape != self.shape or observation.dtype != np.uint8:
            raise EnvError(
                f"the environment returned an observation of shape {observation.shape} and type {observation.dtype}, "
                f"but its space says {self.shape} of uint8"
            )
        return np.array(observation.reshape(self._apart).transpose(self._order), order="C").reshape(self.pictures)

    def join(self, pictures: Array) -> Array:
        """The observation that these pictures make, in new memory."""
        return np.array(pictures.reshape(self._ordered).transpose(self._back), order="C").reshape(self.shape)


def is_picture(space: spaces.Space[object]) -> bool:
    """True for a space of pictures, False for vectors. A space of anything else raises a ConfigError."""
    if isinstance(space, spaces.Dict):
        raise ConfigError("in a Dict of observations a shift can change one picture, but this one has none, or several")
    if not isinstance(space, spaces.Box):
        raise ConfigError(f"a shift can change pictures and vectors, not observations of type {type(space).__name__}")
    if space.dtype == np.uint8 and len(space.shape) in (2, 3, 4):
        return True
    if not np.issubdtype(space.dtype, np.floating) or not space.shape:
        raise ConfigError(
            f"a shift can change pictures and vectors of floats, not {space.dtype} of shape {space.shape}"
        )
    return float_pictures(space) is not None


def unit_scale(space: spaces.Box) -> Array:
    """Half of each entry's range, so that dividing by it makes the range 2. [n] float64.

    It is 1 where the range is not known, which includes ranges of 1e4 and more."""
    half = (space.high.astype(np.float64) - space.low.astype(np.float64)).reshape(-1) / 2
    return np.where((half > 0) & (half < 1e4), half, 1.0)


def shift_vector(change: Callable[[Array], Array], x: Array, space: spaces.Box, scale: Array) -> Array:
    """Apply `change` in units of `scale`, and clip to the space. Entries that it leaves alone keep their exact bits."""
    flat = np.asarray(x).reshape(-1)
    unit = (flat / scale).astype(np.float32)
    changed = change(unit)
    out = np.clip(changed * scale, space.low.reshape(-1), space.high.reshape(-1)).astype(flat.dtype)
    return np.where(changed == unit, flat, out).reshape(np.shape(x))
