"""Pictures whose pixels are floats. Everything behind the environment works with bytes, so they are kept as bytes."""

from dataclasses import dataclass
from typing import Any, TypeGuard

import numpy as np
from gymnasium import spaces

from dsacc.errors import EnvError
from dsacc.system.types import Array

SMALLEST = 16  # pixels per side; anything smaller may as well be a table of numbers
LEVELS = 255  # the highest byte


@dataclass(frozen=True)
class FloatPictures:
    """Pictures with values from 0 to `top`, which is 1 or 255.

    Whole numbers up to 255 are kept exactly. Anything else is rounded to the nearest of 256 levels: values in [0, 1] to
    the nearest 1/255.
    """

    top: int
    dtype: np.dtype[Any]

    def to_bytes(self, pictures: Any) -> Array:
        """Of any shape. Refuses NaN and values outside the space by more than half a level."""
        kind = np.float64 if self.dtype == np.float64 else np.float32
        levels: Array = np.rint(np.asarray(pictures, kind) * self._scale)
        if not ((levels >= 0) & (levels <= LEVELS)).all():  # NaN compares as False
            low, high = np.min(pictures), np.max(pictures)
            raise EnvError(
                f"the environment gave a picture with values from {low:g} to {high:g}, but its observation space says "
                f"0 to {self.top}"
            )
        return levels.astype(np.uint8)

    def from_bytes(self, pictures: Array) -> Array:
        """The environment's own values, of its own type. `to_bytes` gives exactly these bytes again."""
        return (pictures / self._scale).astype(self.dtype)

    @property
    def _scale(self) -> int:
        return LEVELS // self.top


def float_pictures(space: spaces.Space[Any]) -> FloatPictures | None:
    """How to read observations of this space, if they are pictures of floats; else None.

    They are if all bounds are 0 and 1, or 0 and 255, and each side has at least 16 pixels.

    >>> float_pictures(spaces.Box(0, 1, (84, 84, 3), np.float32)).top
    1
    >>> float_pictures(spaces.Box(-1, 1, (84, 84, 3), np.float32))
    """
    if not has_picture_shape(space) or not (space.low == 0).all():
        return None
    top = next((top for top in (1, LEVELS) if (space.high == top).all()), None)
    return None if top is None else FloatPictures(top, np.dtype(space.dtype))


def has_picture_shape(space: spaces.Space[Any]) -> TypeGuard[spaces.Box]:
    """Whether a space of floats has two sides of at least 16 pixels: [H, W], [H, W, C], [C, H, W] or a stack."""
    if not isinstance(space, spaces.Box) or not np.issubdtype(space.dtype, np.floating):
        return False
    if len(space.shape) == 2:
        return min(space.shape) >= SMALLEST
    frame = space.shape[-3:]
    sides = frame[1:] if len(frame) == 3 and frame[0] < frame[2] else frame[:2]
    return len(space.shape) in (3, 4) and min(sides) >= SMALLEST
