"""Snow, rain and fog with the distribution of imgaug 0.4.0 (`Snowflakes`, `Rain`, `Fog`).

A draw is reduced once to two planes and then takes about 0.05 ms per picture. All channels get the same weather. At
level None every parameter comes from the tool's default range. Levels 1 to 5 fix the density of fog, and the number and
density of the layers of snow and rain; the rest is drawn.

The tool's layers are deep copies that start with the same random numbers. A new one lays the same layer up to three
times over itself (median level of snow on black: 10 of 255); the copies only drift apart with use (15). Here layers are
independent, as they are there in the long run.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from dsacc.shifts.kinds import LEVELS, Change, Level, register
from dsacc.shifts.noise import Range, blur_by_fall, bridge, cut, frequency_noise, gated_dots, streak, upscale
from dsacc.system.imports import Later
from dsacc.system.types import Array

if TYPE_CHECKING:
    import cv2
else:
    cv2 = Later("cv2")  # a third of a second, which vectors do not need

Velocity = tuple[float, float]  # rows and columns per frame; positive is down and to the right


@dataclass(frozen=True, eq=False)
class _Planes:
    """Two planes [2, H + .., W + ..] without a seam; the picture sees a window [H, W] of them.

    At t = 0 the window is at `origin`. At time t the weather has moved by round(t velocity): the window has moved the
    opposite way around the torus.
    """

    planes: Array
    origin: tuple[int, int]
    velocity: Velocity

    @property
    def nbytes(self) -> int:
        return self.planes.nbytes

    def window(self, shape: tuple[int, ...], t: int) -> tuple[Array, Array]:
        """Both planes as the picture meets them at time t, [H, W, C] each. They may be views: do not write to them."""
        (height, width, channels), (rows, columns) = shape, self.planes.shape[1:]
        top, left = (
            int(o - round(v * t)) % n for o, v, n in zip(self.origin, self.velocity, (rows, columns), strict=True)
        )
        down, right = min(height, rows - top), min(width, columns - left)
        seen = self.planes[:, top : top + down, left : left + right]
        if (down, right) != (height, width):
            parts, seen = seen, np.empty((2, height, width), self.planes.dtype)
            seen[:, :down, :right] = parts
            seen[:, down:, :right] = self.planes[:, : height - down, left : left + right]
            seen[:, :down, right:] = self.planes[:, top : top + down, : width - right]
            seen[:, down:, right:] = self.planes[:, : height - down, : width - right]
        if channels == 1:
            return seen[0, ..., None], seen[1, ..., None]
        return cv2.cvtColor(seen[0], cv2.COLOR_GRAY2RGB), cv2.cvtColor(seen[1], cv2.COLOR_GRAY2RGB)


class _Veil(_Planes):
    """x -> (x A + B) >> 8 in 16 bits: a picture behind something translucent."""

    def __call__(self, seen: Array, t: int = 0) -> Array:
        a, b = self.window(seen.shape, t)
        out: Array = np.multiply(seen, a, dtype=np.uint16)
        out += b
        out >>= 8
        return out.astype(np.uint8)


class _Flakes(_Planes):
    """x -> max(min(x + S, 255), M) in 8 bits: a picture with a glow added and flakes in front."""

    def __call__(self, seen: Array, t: int = 0) -> Array:
        s, m = self.window(seen.shape, t)
        out = cv2.add(seen, s)
        return cv2.max(out, m, dst=out).reshape(seen.shape)


def fog(rng: np.random.Generator, shape: tuple[int, ...], level: Level = None) -> Change:
    """out = (1 - a) x + a i, with opacity a and intensity i [H, W] from noise n of spectrum |f|^e.

    i = clip(g + m (2 n₁ - 1) / 5, 0, 255), g an upscaled 8x8 grid of N(m, 2), m ~ U(220, 255), e₁ ~ U(-2, -1.5);
    a = clip((a₀ + 0.3 n₂)^0.9 d, 0, 1), a₀ ~ U(0.7, 0.9), e₂ ~ U(-4, -2), n₂ of 2 to 8 pixels (the tool makes it at
    least 4), upscaled; density d ~ U(0.4, 0.9), or from 0.4 at level 1 to 0.9 at level 5.

    In the mode `falling` it drifts left or right by 0.2 to 0.6 % of the width per frame.
    """
    size = shape[0], shape[1]
    mean, least = rng.uniform(220, 255), rng.uniform(0.7, 0.9)
    density = _at((0.4, 0.9), level) if level else rng.uniform(0.4, 0.9)
    coarse = upscale(rng.normal(mean, 2, (8, 8)).astype(np.float32), size)
    fine = frequency_noise(rng, size, rng.uniform(-2, -1.5), longest=max(size))
    intensity = np.clip(coarse + mean * (2 * fine - 1) / 5, 0, 255)
    thickness = frequency_noise(rng, size, rng.uniform(-4, -2), longest=int(rng.integers(2, 9)))
    opacity = np.clip((least + 0.3 * thickness) ** 0.9 * density, 0, 1)
    drift = size[1] * rng.uniform(0.002, 0.006) * rng.choice((-1, 1))
    band = size[1] // 4
    return _Veil(_veils([(bridge(opacity, band), bridge(intensity, band))]), (0, 0), (0.0, float(drift)))


@dataclass(frozen=True)
class _Fall:
    """The ranges from which a layer of falling things is drawn."""

    density: Range  # share of the cells that are lit
    evenness: Range  # 1 is equally dense everywhere
    size: Range  # 1 - size is the scale of the grid
    speed: Range  # length of the blur and distance per frame, as a share of the longer side
    tilt: float  # degrees to either side

    def at(self, level: Level, rng: np.random.Generator) -> tuple[int, "_Fall"]:
        """How many layers there are, and their ranges."""
        if not level:
            return int(rng.integers(1, 4)), self
        density = _at(self.density, level)
        return (1, 1, 2, 3, 3)[level - 1], replace(self, density=(density, density))

    def margin(self, size: tuple[int, int]) -> tuple[int, int]:
        """How far the longest blur reaches, in rows and columns."""
        reach = (max(int(self.speed[1] * max(size)), 3) | 1) // 2
        return reach, min(reach, math.ceil(reach * math.sin(math.radians(self.tilt))) + 1)

    def layer(self, rng: np.random.Generator, size: tuple[int, int], sigma: float) -> tuple[Array, float, Velocity]:
        """Streaked dots v [H + 2 my, W + 2 mx] uint8, their speed and their velocity.

        A Gaussian blur comes before the streaks, unless sigma is 0. Streaks of one pixel or less are left out.
        """
        dots = gated_dots(
            rng, size, 1 - rng.uniform(*self.size), rng.uniform(*self.density), rng.uniform(*self.evenness)
        )
        if sigma:
            width = max(int((3.3 if sigma < 3 else 2.9) * sigma), 5) | 1
            dots = cv2.GaussianBlur(dots, (width, width), sigma, borderType=cv2.BORDER_REFLECT_101)
        speed, angle = rng.uniform(*self.speed), rng.uniform(-self.tilt, self.tilt)
        way = speed * max(size)
        kernel = streak(int(way), angle) if int(way) > 1 else None
        towards = math.cos(math.radians(angle)), -math.sin(math.radians(angle))
        return blur_by_fall(dots, kernel, self.margin(size)), speed, (way * towards[0], way * towards[1])


SNOW = _Fall(density=(0.005, 0.075), evenness=(0.3, 0.9), size=(0.2, 0.7), speed=(0.007, 0.03), tilt=30)
RAIN = _Fall(density=(0.03, 0.14), evenness=(0.8, 1.0), size=(0.01, 0.02), speed=(0.04, 0.20), tilt=15)


def snow(rng: np.random.Generator, shape: tuple[int, ...], level: Level = None) -> Change:
    """One to three layers x -> max(min(x + s, 255), m) in turn, which equal a single one.

    S' = min(S + s, 255) and M' = max(min(M + s, 255), m) combine two bit for bit: the tool cuts to 8 bits after each
    step. From the streaked dots v: w = 255 (v / 255)^(1 + 2 c) cut to 8 bits, c = 1 - U(0.4, 0.8), times 1 + 5 c;
    s = (0.1 + 20 speed) w, m = (1 + 20 speed) w. Before the streaks the dots are blurred by a Gaussian of
    sigma = clip(max(H, W) U(1e-4, 1e-3), 0.5, 3.75).

    In the mode `falling` it moves along the streaks by their length per frame, averaged over the layers.
    """
    size = shape[0], shape[1]
    count, fall = SNOW.at(level, rng)
    layers, velocities, levels = [], [], np.linspace(0, 1, 256)
    for _ in range(count):
        sigma = float(np.clip(max(size) * rng.uniform(1e-4, 1e-3), 0.5, 3.75))
        dots, speed, velocity = fall.layer(rng, size, sigma)
        contrast = 1 - rng.uniform(0.4, 0.8)
        bright = cut(255 * levels ** (1 + 2 * contrast)) * (1 + 5 * contrast)
        glow, flake = (cv2.LUT(dots, cut((least + 20 * speed) * bright)) for least in (0.1, 1.0))
        layers.append((glow, flake))
        velocities.append(velocity)
    return _Flakes(_flakes(layers), fall.margin(size), _mean(velocities))


def rain(rng: np.random.Generator, shape: tuple[int, ...], level: Level = None) -> Change:
    """One to three layers x -> (1 - a) x + a c in turn, which equal one affine map; a = min(1.3 v / 255, 1).

    v are the streaked dots. The colour c is 240. The tool takes 110 + (130 mod q), q being the sum of the first 1000
    values of v (over all channels). That differs from 240 only where q <= 130: hardly any rain at the top. The tool
    cuts to 8 bits after each layer, so a single map differs by up to 3 levels. On black it does not differ, because B
    is kept to what the layers make of black.

    In the mode `falling` it moves along the streaks by their length per frame, averaged over the layers.
    """
    size = shape[0], shape[1]
    count, fall = RAIN.at(level, rng)
    my, mx = fall.margin(size)
    layers, velocities = [], []
    opacity = np.minimum(np.arange(256, dtype=np.float32) * np.float32(1.3 / 255), 1)
    for _ in range(count):
        drops, _speed, velocity = fall.layer(rng, size, sigma=0)
        first = drops[my : my + size[0], mx : mx + size[1]].ravel()[:1000]
        total = int(np.repeat(first, shape[2])[:1000].sum()) or 1
        layers.append((opacity[drops], 110 + 130 % total))
        velocities.append(velocity)
    return _Veil(_veils(layers), (my, mx), _mean(velocities))


def _veils(layers: Sequence[tuple[Array, Array | int]]) -> Array:
    """Layers x -> (1 - a) x + a c in turn, as A and B of x -> (x A + B) >> 8. float32 -> [2, ...] uint16.

    Black becomes what it becomes under layers that are each cut to 8 bits. x A + B stays below 2^16.
    """
    keep: Array = np.ones_like(layers[0][0])
    add = np.zeros_like(keep)
    black = add
    for a, colour in layers:
        rest, light = 1 - a, a * colour
        keep, add, black = keep * rest, add * rest + light, np.floor(black * rest + light)
    return np.stack((np.rint(256 * keep), np.clip(256 * add, 256 * black, 256 * black + 255))).astype(np.uint16)


def _flakes(layers: Sequence[tuple[Array, Array]]) -> Array:
    """Layers x -> max(min(x + s, 255), m) in turn, as S and M of a single one. uint8 -> [2, ...] uint8."""
    sums, most = layers[0]
    for s, m in layers[1:]:
        sums, most = cv2.add(sums, s), cv2.max(cv2.add(most, s), m)
    return np.stack((sums, most))


def _at(bounds: Range, level: int) -> float:
    """The value of a level, from the lower bound at level 1 to the upper bound at level 5."""
    return bounds[0] + (bounds[1] - bounds[0]) * (level - LEVELS[0]) / (LEVELS[-1] - LEVELS[0])


def _mean(velocities: list[Velocity]) -> Velocity:
    rows, columns = zip(*velocities, strict=True)
    return sum(rows) / len(rows), sum(columns) / len(columns)


for kind in (snow, rain, fog):
    register(kind.__name__, kind, look="veil" if kind is fog else "specks")
