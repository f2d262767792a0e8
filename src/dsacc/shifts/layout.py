"""Where the pictures are in an observation: grey or in colour, stacked or not, channels first or last."""

from collections.abc import Callable

import numpy as np
from gymnasium import spaces

from dsacc.errors import ConfigError, EnvError
from dsacc.system.types import Array

SMALLEST = 16  # pixels a side


class Layout:
    """From observations of one shape to their pictures [N, H, W, C], oldest first, and back.

    The short side is the channels, as everywhere in this package. One channel is a grey picture and three are a
    coloured one; of more, a multiple of 3 is a stack of coloured pictures, and any other number one of grey pictures.
    `channels` (1 or 3, of a picture) overrides that. An axis before them is a stack too, its newest picture last.

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
            raise ConfigError(f"pictures of {height}x{width} are too small for a shift; it needs {SMALLEST} px a side")
        if channels is None:
            channels = 3 if total % 3 == 0 else 1
        if channels not in (1, 3) or total % channels:
            raise ConfigError(f"channels is 1 or 3 and divides the {total} of the observation, so not {channels!r}")
        each = total // channels
        self.pictures = (stack * each, height, width, channels)
        # Both orders have the pictures in front after a transpose of five axes.
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
                f"an observation of shape {observation.shape} and type {observation.dtype} came where the space says "
                f"{self.shape} of uint8"
            )
        return np.array(observation.reshape(self._apart).transpose(self._order), order="C").reshape(self.pictures)

    def join(self, pictures: Array) -> Array:
        """An observation of these pictures, in memory of its own."""
        return np.array(pictures.reshape(self._ordered).transpose(self._back), order="C").reshape(self.shape)


def is_picture(space: spaces.Space[object]) -> bool:
    """Whether a space holds pictures; False for vectors, and a refusal for what is neither."""
    if not isinstance(space, spaces.Box):
        raise ConfigError(f"a shift changes pictures and vectors, not observations of type {type(space).__name__}")
    if space.dtype == np.uint8 and len(space.shape) in (2, 3, 4):
        return True
    if not np.issubdtype(space.dtype, np.floating) or not space.shape:
        raise ConfigError(
            f"a shift changes pictures of uint8 and vectors of floats, not {space.shape} of {space.dtype}"
        )
    if len(space.shape) in (2, 3, 4) and (space.low == 0).all() and np.isin(space.high, (1, 255)).all():
        try:
            Layout(space.shape)
        except ConfigError:
            return False
        raise ConfigError(f"a shift changes pictures of uint8, and these are of {space.dtype}; scale them after it")
    return False


def unit_scale(space: spaces.Box) -> Array:
    """What makes an entry's range 2: half of it where it is known, else 1. A range of 1e4 and more is a way of saying
    that there is none. [n] float64."""
    half = (space.high.astype(np.float64) - space.low.astype(np.float64)).reshape(-1) / 2
    return np.where((half > 0) & (half < 1e4), half, 1.0)


def shift_vector(change: Callable[[Array], Array], x: Array, space: spaces.Box, scale: Array) -> Array:
    """`change` in units of `scale`, cut off at the bounds of the space; an entry left alone comes back bit for bit."""
    flat = np.asarray(x).reshape(-1)
    unit = (flat / scale).astype(np.float32)
    changed = change(unit)
    out = np.clip(changed * scale, space.low.reshape(-1), space.high.reshape(-1)).astype(flat.dtype)
    return np.where(changed == unit, flat, out).reshape(np.shape(x))
