"""What a shift is, and the list of all of them.

A kind of shift is one function: from a random generator, a shape and a level it draws a `Change`, which is then applied
to one picture or to thousands. `register` adds it; everything else (banks, modes, the wrapper, the command line, the
preview) follows from that.
"""

import difflib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np

from dsacc.errors import ConfigError
from dsacc.system.types import Array

Level = int | None  # 1 to 5, mild to strong; None draws from the ranges of the paper's tool
LEVELS = (1, 2, 3, 4, 5)  # mild to strong
Severity = Literal["paper"] | int  # the ranges of the paper's tool, or a level
On = Literal["picture", "vector"]  # uint8 pictures, or vectors of floats


class Change(Protocol):
    """One drawn shift, ready to be applied.

    A picture is [H, W, C] uint8, contiguous, with C 1 or 3, of the shape that was asked for; a vector is [n] float32.
    `t` counts the frames since it appeared: what moves has moved that far, and anything else ignores it. What is given
    is never written to. Two calls with the same arguments give the same bytes.
    """

    @property
    def nbytes(self) -> int:
        """Memory that it holds."""

    def __call__(self, seen: Array, t: int = 0) -> Array: ...


Draw = Callable[[np.random.Generator, tuple[int, ...], Level], Change]


@dataclass(frozen=True)
class Kind:
    """A kind of shift, as `register` keeps it."""

    name: str
    on: On  # what it is for
    draw: Draw  # from a generator, a shape and a level to a Change


_KINDS: dict[tuple[str, On], Kind] = {}


def register(name: str, draw: Draw, on: On = "picture") -> None:
    """Add a kind of shift, or replace one of that name; `Shift`, `evaluate` and the command line know it from then on.

    `draw(rng, shape, level)` draws one `Change` for pictures [H, W, C] or vectors [n] of `shape`, with `rng` alone for
    randomness; `level` is 1 to 5, or None for the severity `paper`. A `Drawn` is the simplest change.
    """
    _KINDS[name, on] = Kind(name, on, draw)


def names(on: On = "picture") -> list[str]:
    """All kinds for pictures, or for vectors, in the order in which they were registered."""
    return [name for name, where in _KINDS if where == on]


def find_kind(name: str, on: On = "picture") -> Kind:
    """A kind by name; refuses an unknown one, and one that makes no sense for such observations."""
    if (name, on) in _KINDS:
        return _KINDS[name, on]
    elsewhere = {kind for kind, _ in _KINDS}
    if name in elsewhere:
        what = {"picture": "pictures", "vector": "vectors"}[on]
        raise ConfigError(f"the shift {name!r} makes no sense for {what}; for them there are {', '.join(names(on))}")
    near = difflib.get_close_matches(name, sorted(elsewhere), n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(names(on))}"
    raise ConfigError(f"unknown shift {name!r}; {hint}")


def as_level(severity: Severity | str) -> Level:
    """`paper`, or 1 to 5 as a number or as text; refuses anything else."""
    if severity == "paper":
        return None
    if isinstance(severity, bool) or str(severity) not in map(str, LEVELS):
        raise ConfigError(f"severity is 'paper' or 1 to 5, not {severity!r}")
    return int(severity)


@dataclass(frozen=True, eq=False)
class Drawn:
    """A change that stands still, as a function of the picture alone."""

    apply: Callable[[Array], Array]
    nbytes: int = 0  # of the planes that `apply` holds

    def __call__(self, seen: Array, t: int = 0) -> Array:
        return self.apply(seen).reshape(seen.shape)  # OpenCV drops the axis of a single channel


def strength(rng: np.random.Generator, level: Level, strengths: tuple[float, ...]) -> float:
    """That of a level; for `paper`, which gives no ranges for these kinds, uniform from level 1's to level 5's."""
    mild, strong = strengths[0], strengths[-1]
    return strengths[level - 1] if level else mild + (strong - mild) * rng.random()
