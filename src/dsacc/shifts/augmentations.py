"""Augmentations: what pictures are changed by while an agent is hardened, so that it need not see the real shifts.

An augmentation is one function. From a random generator and the shape of a picture it draws an `Alter`, which is then
applied to one picture or to all pictures of a stack. `register_augmentation` adds one. Every shift of pictures can be
named as an augmentation too, for people who know what will come.

Each has a `look`. An agent that was hardened with something of the same look as a shift has met it `near`; one that was
hardened with the shift itself was `trained on` it; any other shift is `unseen`.
"""

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dsacc.errors import ConfigError
from dsacc.shifts.bank import bank
from dsacc.shifts.kinds import find_kind, names
from dsacc.shifts.layout import Layout
from dsacc.system.imports import Later
from dsacc.system.text import nearest
from dsacc.system.types import Array, Exposure

if TYPE_CHECKING:
    import cv2
else:
    cv2 = Later("cv2")  # a third of a second, which vectors do not need

Alter = Callable[[Array, Array], Array]  # a picture [H, W, C] uint8 and another one of the same game, to a changed one
Draw = Callable[[np.random.Generator, tuple[int, ...]], Alter]
KEPT = 256  # draws that are kept for reuse where drawing takes longer than applying
TOGETHER = 0.25  # share of the stacks whose pictures are all changed alike: weather may also stand still


@dataclass(frozen=True)
class Augmentation:
    """A registered augmentation."""

    name: str
    look: str
    draw: Draw
    kept: bool = False  # drawn once and reused


_AUGMENTATIONS: dict[str, Augmentation] = {}


def register_augmentation(name: str, draw: Draw, look: str | None = None, *, kept: bool = False) -> None:
    """Add an augmentation, or replace the one of that name. `harden` and the command line then accept it.

    `draw(rng, shape)` draws one change for pictures [H, W, C]. All randomness must come from `rng`. The change gets a
    picture and another one of the same game, and returns a new picture. `look` (default: the name) is what it looks
    like: shifts of the same look are then called `near`, not `unseen`. With `kept`, 256 draws are reused again and
    again, because drawing takes longer than applying.
    """
    _AUGMENTATIONS[name] = Augmentation(name, look or name, draw, kept)


def augmentation_names() -> list[str]:
    """Everything that can be named: sets, augmentations and shifts of pictures."""
    return [*SETS, *_AUGMENTATIONS, *names()]


def resolve(wanted: str | Sequence[str]) -> tuple[str, ...]:
    """The augmentations and shifts that `wanted` names, each once, with sets written out.

    >>> resolve("generic")
    ('convolution', 'light', 'overlay', 'patches', 'rectangle', 'soften', 'grain')
    >>> resolve(["light", "fog"])
    ('light', 'fog')
    """
    kinds: list[str] = []
    for name in [wanted] if isinstance(wanted, str) else wanted:
        if name not in SETS and name not in _AUGMENTATIONS and name not in names():
            near = nearest(name, augmentation_names())
            hint = f"did you mean {near!r}?" if near else f"choose among {', '.join(augmentation_names())}"
            raise ConfigError(f"unknown augmentation {name!r}; {hint}")
        kinds += SETS.get(name, (name,))
    if not kinds:
        raise ConfigError(f"no augmentation is named; choose among {', '.join(augmentation_names())}")
    return tuple(dict.fromkeys(kinds))


def exposure(shift: str, kinds: Sequence[str]) -> Exposure:
    """What an agent that was trained under `kinds` has met of this shift.

    >>> exposure("fog", resolve("generic")), exposure("fog", resolve("near")), exposure("fog", ["fog"])
    ('unseen', 'near', 'trained on')
    """
    if shift in kinds:
        return "trained on"
    return "near" if _look(shift) in map(_look, kinds) else "unseen"


def _look(name: str) -> str:
    if name in _AUGMENTATIONS:
        return _AUGMENTATIONS[name].look
    return find_kind(name).look if name in names() else name


class Augmenter:
    """Changes batches of observations, each with one or two of `kinds`.

    Pictures of a stack are changed each by itself, because weather is new in each frame; a quarter of the stacks is
    changed alike, because weather may also stand still. `shape` is that of one observation, as for `Shift`.
    """

    def __init__(self, kinds: Sequence[str], shape: tuple[int, ...], channels: int | None = None) -> None:
        self.kinds = resolve(kinds)
        self._layout = Layout(shape, channels)
        self._picture = self._layout.pictures[1:]
        self._draws = [self._drawer(name) for name in self.kinds]

    def _drawer(self, name: str) -> Draw:
        if name in _AUGMENTATIONS:
            found = _AUGMENTATIONS[name]
            return _kept(found) if found.kept else found.draw
        drawn = bank(find_kind(name), None, self._picture, seed=0, size=KEPT)

        def draw(rng: np.random.Generator, shape: tuple[int, ...]) -> Alter:
            change = drawn[int(rng.integers(len(drawn)))]
            return lambda picture, other: change(picture)

        return draw

    def __call__(self, observations: Array, others: Array, rng: np.random.Generator) -> Array:
        """Changed copies of [B, ...]. `others` [N, ...] are observations of the same game, for what mixes two."""
        out = np.empty_like(observations)
        for i, observation in enumerate(observations):
            pictures = self._layout.split(observation)
            strangers = self._layout.split(others[int(rng.integers(len(others)))])
            together = rng.random() < TOGETHER
            alters = self._draw(rng)
            for k in range(len(pictures)):
                for alter in alters:
                    pictures[k] = alter(pictures[k], strangers[k]).reshape(self._picture)
                if not together:
                    alters = self._draw(rng)
            out[i] = self._layout.join(pictures)
        return out

    def _draw(self, rng: np.random.Generator) -> list[Alter]:
        """One or two changes, of different kinds where there are two."""
        count = min(1 + int(rng.integers(2)), len(self._draws))
        first = int(rng.integers(len(self._draws)))
        chosen = [first, (first + 1 + int(rng.integers(max(len(self._draws) - 1, 1)))) % len(self._draws)]
        return [self._draws[i](rng, self._picture) for i in chosen[:count]]


def _kept(augmentation: Augmentation) -> Draw:
    """Its draws, of which each is made once. Each has its own generator, so it does not matter which come first."""
    word, made = zlib.crc32(augmentation.name.encode()), dict[int, Alter]()

    def draw(rng: np.random.Generator, shape: tuple[int, ...]) -> Alter:
        i = int(rng.integers(KEPT))
        if i not in made:
            made[i] = augmentation.draw(np.random.default_rng(np.random.SeedSequence([word, i])), shape)
        return made[i]

    return draw


# --- generic: nothing here looks like weather -------------------------------------------------------------------------


def convolution(rng: np.random.Generator, shape: tuple[int, ...]) -> Alter:
    """A random 3x3 filter mixed with the picture (after Lee et al. 2020): textures change, shapes stay."""
    share = rng.random()
    kernel = rng.standard_normal((3, 3)) * (share / 3)
    kernel[1, 1] += 1 - share
    offset = 255 * min(max(-kernel.sum(), 0), 1)  # a filter that inverts gives a negative, not black
    mix = None
    if shape[2] == 3:  # colours too
        mix = share * rng.dirichlet(np.ones(3), 3) + (1 - share) * np.eye(3)

    def alter(picture: Array, other: Array) -> Array:
        mixed = picture if mix is None else cv2.transform(picture, mix)
        return cv2.filter2D(mixed, -1, kernel, delta=offset)

    return alter


def light(rng: np.random.Generator, shape: tuple[int, ...]) -> Alter:
    """Contrast around the picture's mean, 0.4 to 1.6 times, and brightness, up to a quarter of the range."""
    factor, more = rng.uniform(0.4, 1.6), rng.uniform(-64, 64)

    def alter(picture: Array, other: Array) -> Array:
        mean = sum(cv2.mean(picture)) / shape[2]
        return cv2.addWeighted(picture, factor, picture, 0.0, (1 - factor) * mean + more)

    return alter


def overlay(rng: np.random.Generator, shape: tuple[int, ...]) -> Alter:
    """Another picture of the same game laid over this one, at most half."""
    share = rng.uniform(0.1, 0.5)
    return lambda picture, other: cv2.addWeighted(picture, 1 - share, other, share, 0.0)


def patches(rng: np.random.Generator, shape: tuple[int, ...]) -> Alter:
    """Up to four rectangles show another picture of the same game (after CutMix, Yun et al. 2019)."""
    places = [_place(rng, shape, 0.03, 0.2) for _ in range(1 + int(rng.integers(4)))]

    def alter(picture: Array, other: Array) -> Array:
        out = picture.copy()
        for rows, columns in places:
            out[rows, columns] = other[rows, columns]
        return out

    return alter


def rectangle(rng: np.random.Generator, shape: tuple[int, ...]) -> Alter:
    """A rectangle of one grey, up to two fifths of each side."""
    rows, columns = _place(rng, shape, 0.05, 0.4)
    grey = int(rng.integers(256))

    def alter(picture: Array, other: Array) -> Array:
        out = picture.copy()
        out[rows, columns] = grey
        return out

    return alter


def soften(rng: np.random.Generator, shape: tuple[int, ...]) -> Alter:
    """The mean over a small rectangle around each pixel: out of focus, or moved during the exposure."""
    most = max(round(max(shape[:2]) / 14), 2)
    size = (1 + int(rng.integers(most)), 1 + int(rng.integers(most)))
    return lambda picture, other: cv2.blur(picture, size)


def grain(rng: np.random.Generator, shape: tuple[int, ...]) -> Alter:
    """Noise as of a sensor in the dark: normal, fine or coarse (up to two pixels), the same in all directions."""
    height, width = shape[:2]
    noise = cv2.GaussianBlur(rng.standard_normal((height, width), np.float32), (0, 0), rng.uniform(0.3, 2.0))
    noise *= rng.uniform(8, 64) / noise.std()
    planes = [np.rint(np.clip(x, 0, 255)).astype(np.uint8)[..., None] for x in (noise, -noise)]
    more, less = (np.ascontiguousarray(np.broadcast_to(plane, shape)) for plane in planes)
    return lambda picture, other: cv2.subtract(cv2.add(picture, more), less)


def _place(rng: np.random.Generator, shape: tuple[int, ...], least: float, most: float) -> tuple[slice, slice]:
    """A rectangle at random, its sides between two shares of the picture's sides."""
    slices = []
    for side in shape[:2]:
        length = max(round(side * rng.uniform(least, most)), 1)
        start = int(rng.integers(side - length + 1))
        slices.append(slice(start, start + length))
    return slices[0], slices[1]


# --- near: relatives of weather, not its own code ---------------------------------------------------------------------


def veil(rng: np.random.Generator, shape: tuple[int, ...]) -> Alter:
    """A smooth field of random density in front of the picture, of one grey: x -> x + d (g - x)."""
    height, width = shape[:2]
    cells = int(rng.integers(2, 7))
    field = cv2.resize(rng.random((cells, cells), np.float32), (width, height), interpolation=cv2.INTER_CUBIC)
    density = np.clip(rng.uniform(0, 0.4) + rng.uniform(0.2, 0.6) * field, 0, 0.9)[..., None].astype(np.float32)
    added = density * np.float32(rng.uniform(120, 255))

    def alter(picture: Array, other: Array) -> Array:
        out: Array = picture * (1 - density)
        out += added
        return out.astype(np.uint8)

    return alter


def specks(rng: np.random.Generator, shape: tuple[int, ...]) -> Alter:
    """Bright dots of one to three pixels, sharp or soft."""
    dots = _dots(rng, shape)
    size = int(rng.integers(1, 4))
    if size > 1:
        dots = cv2.dilate(dots, np.ones((size, size), np.uint8))
    if rng.random() < 0.5:
        dots = cv2.GaussianBlur(dots, (3, 3), 0)
    return _brighter(dots, shape)


def streaks(rng: np.random.Generator, shape: tuple[int, ...]) -> Alter:
    """Bright lines, all of one length and slope."""
    length, slope = int(rng.integers(4, 12)), rng.uniform(-0.6, 0.6)
    kernel = np.zeros((length, length), np.float32)
    for y in range(length):
        kernel[y, int(np.clip(round(length / 2 + slope * (y - length / 2)), 0, length - 1))] = 1
    dots = cv2.filter2D(_dots(rng, shape), -1, kernel * rng.uniform(0.3, 1))
    return _brighter(dots, shape)


def _dots(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Single lit pixels [H, W], up to 4 % of them, each with its own light."""
    height, width = shape[:2]
    count = max(int(height * width * rng.uniform(0.002, 0.04)), 1)
    dots = np.zeros(height * width, np.uint8)
    dots[rng.integers(dots.size, size=count)] = rng.integers(80, 256, size=count)
    return dots.reshape(height, width)


def _brighter(dots: Array, shape: tuple[int, ...]) -> Alter:
    plane = np.ascontiguousarray(np.broadcast_to(dots[..., None], shape))
    return lambda picture, other: cv2.max(picture, plane)


for _function in (convolution, light, overlay, patches):
    register_augmentation(_function.__name__, _function)
register_augmentation("rectangle", rectangle, look="cover")
register_augmentation("soften", soften, look="blur")
register_augmentation("grain", grain, look="noise", kept=True)
register_augmentation("veil", veil, look="veil", kept=True)
for _function in (specks, streaks):
    register_augmentation(_function.__name__, _function, look="specks", kept=True)

_GENERIC = ("convolution", "light", "overlay", "patches", "rectangle", "soften", "grain")
SETS: dict[str, tuple[str, ...]] = {"generic": _GENERIC, "near": (*_GENERIC, "veil", "specks", "streaks")}
