"""What a shift is, and the list of all shifts.

A kind of shift is one function. From a random generator, a shape and a level it draws a `Change`, which is then applied
to one picture or to thousands. `register` adds a kind; banks, modes, the wrapper, the command line and the preview then
know it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np

from dsacc.errors import ConfigError
from dsacc.system.text import nearest
from dsacc.system.types import Array

Level = int | None  # 1 to 5, mild to strong; None draws from the ranges of the paper's tool
LEVELS = (1, 2, 3, 4, 5)  # mild to strong
Severity = Literal["paper"] | int  # the ranges of the paper's tool, or a level
On = Literal["picture", "vector"]  # uint8 pictures, or vectors of floats


class Change(Protocol):
    """One drawn shift, ready to be applied.

    A picture is [H, W, C] uint8, contiguous, C = 1 or 3, of the shape that it was drawn for; a vector is [n] float32.
    `t` counts the frames since the change appeared: what moves has moved that far, and anything else ignores it. The
    input is never written to. Two calls with the same arguments return the same bytes.
    """

    @property
    def nbytes(self) -> int:
        """Memory that it takes, in bytes."""

    def __call__(self, seen: Array, t: int = 0) -> Array: ...


Draw = Callable[[np.random.Generator, tuple[int, ...], Level], Change]


@dataclass(frozen=True)
class Kind:
    """A registered kind of shift."""

    name: str
    on: On  # what it changes
    draw: Draw  # from a generator, a shape and a level to a Change
    look: str = ""  # what it looks like; an agent that trained under something of the same look has met it nearly


_KINDS: dict[tuple[str, On], Kind] = {}


def register(name: str, draw: Draw, on: On = "picture", look: str | None = None) -> None:
    """Add a kind of shift, or replace the one of that name. `Shift`, `evaluate` and the command line then accept it.

    `draw(rng, shape, level)` draws one `Change` for pictures [H, W, C] or vectors [n] of `shape`. All randomness must
    come from `rng`. `level` is 1 to 5, or None for the severity `paper`. A `Drawn` is the simplest change. `look`
    (default: the name) is shared by kinds and augmentations that look alike: see `dsacc.shifts.augmentations`.
    """
    _KINDS[name, on] = Kind(name, on, draw, look or name)


def names(on: On = "picture") -> list[str]:
    """All kinds for pictures or for vectors, in the order in which they were registered."""
    return [name for name, where in _KINDS if where == on]


def find_kind(name: str, on: On = "picture") -> Kind:
    """The kind of this name. Unknown names, and kinds for other observations, raise a ConfigError."""
    if (name, on) in _KINDS:
        return _KINDS[name, on]
    elsewhere = {kind for kind, _ in _KINDS}
    if name in elsewhere:
        what = {"picture": "pictures", "vector": "vectors"}[on]
        raise ConfigError(f"the shift {name!r} makes no sense for {what}; choose one of {', '.join(names(on))}")
    near = nearest(name, sorted(elsewhere))
    hint = f"did you mean {near!r}?" if near else f"choose one of {', '.join(names(on))}"
    raise ConfigError(f"unknown shift {name!r}; {hint}")


def as_level(severity: Severity | str) -> Level:
    """The level of a severity: `paper`, or 1 to 5 as a number or as text. Anything else raises a ConfigError."""
    if severity == "paper":
        return None
    if isinstance(severity, bool) or str(severity) not in map(str, LEVELS):
        raise ConfigError(f"severity is 'paper' or 1 to 5, not {severity!r}")
    return int(severity)


@dataclass(frozen=True, eq=False)
class Drawn:
    """A change that does not move: a function of the picture alone."""

    apply: Callable[[Array], Array]
    nbytes: int = 0  # of the arrays that `apply` holds

    def __call__(self, seen: Array, t: int = 0) -> Array:
        return self.apply(seen).reshape(seen.shape)  # OpenCV drops the axis of a single channel


def strength(rng: np.random.Generator, level: Level, strengths: tuple[float, ...]) -> float:
    """The strength of a level. The paper gives no ranges for these kinds: `paper` draws uniformly from level 1 to 5."""
    mild, strong = strengths[0], strengths[-1]
    return strengths[level - 1] if level else mild + (strong - mild) * rng.random()
