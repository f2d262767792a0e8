"""The parts of weather: noise of a given spectrum, gated dots, motion blur, seamless edges.

Each has the distribution of imgaug 0.4.0, quirks included. Everything is drawn from the generator that is passed in.
"""

import math
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from dsacc.system.imports import Later
from dsacc.system.types import Array

if TYPE_CHECKING:
    import cv2
else:
    cv2 = Later("cv2")  # a third of a second, which vectors do not need

Range = tuple[float, float]


def upscale(grid: Array, size: tuple[int, int]) -> Array:
    """Cubic interpolation to [H, W]; a grid that already has that size is returned as it is."""
    height, width = size
    return grid if grid.shape == size else cv2.resize(grid, (width, height), interpolation=cv2.INTER_CUBIC)


@lru_cache(maxsize=64)
def _log_frequency(height: int, width: int) -> Array:
    """log |f| [h, w], f being the distance from frequency zero on the torus; 0 at frequency zero itself."""
    y, x = np.arange(height), np.arange(width)
    squared = np.minimum(y, height - y)[:, None] ** 2 + np.minimum(x, width - x)[None, :] ** 2
    squared[0, 0] = 1
    log: Array = (0.5 * np.log(squared)).astype(np.float32)
    log.setflags(write=False)
    return log


def frequency_noise(rng: np.random.Generator, size: tuple[int, int], exponent: float, longest: int) -> Array:
    """n(x) = Re IFFT[ |f|^e z(f) ] scaled to [0, 1], with z = u (1 + i sin θ), u = r cos θ. [H, W] float32.

    r ~ U[0, 1) and θ ~ U[0, 2π) per frequency; frequency zero is left out. (That z is not a proper polar form is a
    quirk of the tool. Its factor max(h, w)^2 in r cancels in the scaling.) The longer side of the noise is `longest`,
    and no side is below 4. If that is smaller than `size`, the noise is cut to 8 bits and upscaled.
    """
    shrink = min(1.0, longest / max(size))
    height, width = (max(int(side * shrink), 4) for side in size)
    angle = rng.random((height, width), dtype=np.float32) * np.float32(2 * math.pi)
    real = rng.random((height, width), dtype=np.float32)
    real *= np.cos(angle)
    real *= np.exp(np.float32(exponent) * _log_frequency(height, width))
    spectrum = np.empty((height, width), np.complex64)
    spectrum.real, spectrum.imag = real, real * np.sin(angle)
    spectrum[0, 0] = 0
    noise: Array = np.fft.ifft2(spectrum).real
    low, high = noise.min(), noise.max()
    noise = (noise - low) / (high - low)
    if noise.shape == size:
        return noise
    return upscale((noise * 255).astype(np.uint8), size).astype(np.float32) / np.float32(255)


def gated_dots(rng: np.random.Generator, size: tuple[int, int], scale: float, density: float, evenness: float) -> Array:
    """Bright dots [H, W] uint8 of uneven density.

    The grid has `scale` times the size. Each cell is lit with probability `density`, at 255 (|b - 1/2| + 1/2) with
    b ~ Beta(1/2, 1/2), rounded. A gate in [0, 1] dims it: 8x8 values of Beta(1, 1 - evenness), upscaled. The grid is
    then upscaled, so a smaller scale gives bigger dots.
    """
    cells = tuple(max(1, int(side * scale)) for side in size)
    lit = np.flatnonzero(rng.random(math.prod(cells), dtype=np.float32) < density)
    # b = sin²(πu/2) for a uniform u, hence |b - 1/2| = |cos πu| / 2
    light = np.rint(127.5 * (1 + np.abs(np.cos(math.pi * rng.random(lit.size)))))
    gate = upscale(rng.beta(1.0, 1.0 - evenness, (8, 8)).astype(np.float32), (cells[0], cells[1]))
    dots = np.zeros(math.prod(cells), np.uint8)
    dots[lit] = light * np.clip(gate.ravel()[lit], 0, 1)
    return upscale(dots.reshape(cells), size)


def streak(length: int, angle: float) -> Array:
    """The motion blur of a fall, as a correlation kernel. [k, k] with sum 1; k is `length`, made odd and at least 3.

    It is a ramp from 1 at the top to 0 at the bottom, turned clockwise by `angle` degrees. A dot becomes a streak that
    is brightest at its lower end. The ramp is cut to 8 bits before and after the turn, as in the tool.
    """
    k = max(length, 3) | 1
    ramp = np.zeros((k, k), np.uint8)
    ramp[:, k // 2] = np.linspace(255, 0, k)
    turn = cv2.getRotationMatrix2D((k // 2, k // 2), -angle, 1.0)
    kernel: Array = cv2.warpAffine(ramp, turn, (k, k), flags=cv2.INTER_LINEAR).astype(np.float32)
    kernel /= kernel.sum()
    return kernel


@lru_cache(maxsize=256)
def _padded(side: int, margin: int, reach: int) -> Array:
    """The source index of each place of a padded axis: mirrored for `margin` places, then wrapped for `reach`."""
    index = np.arange(-reach, side + 2 * margin + reach) % (side + 2 * margin) - margin
    index = (side - 1) - np.abs((side - 1) - index % (2 * (side - 1)))
    index.setflags(write=False)
    return index


def blur_by_fall(dots: Array, kernel: Array | None, margin: tuple[int, int]) -> Array:
    """Correlate [H, W] with a kernel on the torus [H + 2 my, W + 2 mx], whose margin mirrors the edges.

    The middle equals the tool's correlation with mirrored edges, because the kernel reaches no further than the margin.
    The whole has no seam: what leaves it on one side enters on the other, streaks uncut.
    """
    (height, width), (my, mx) = dots.shape, margin
    if kernel is None:
        return dots[_padded(height, my, 0)][:, _padded(width, mx, 0)]
    reach = middle = len(kernel) // 2
    half = int(np.abs(np.flatnonzero(kernel.any(axis=0)) - middle).max())
    kernel = np.ascontiguousarray(kernel[:, middle - half : middle + half + 1])
    wide = dots[_padded(height, my, reach)][:, _padded(width, mx, half)]
    out = cv2.filter2D(wide, -1, kernel)
    return np.ascontiguousarray(out[reach : reach + height + 2 * my, half : half + width + 2 * mx])


def bridge(plane: Array, width: int) -> Array:
    """Make a plane [H, W] repeat sideways: `width` more columns blend its mirrored right edge into its left edge."""
    right = cv2.copyMakeBorder(plane, 0, 0, 0, width, cv2.BORDER_REFLECT_101)
    left = cv2.copyMakeBorder(plane, 0, 0, width, 0, cv2.BORDER_REFLECT_101)[:, :width]
    share = np.linspace(0, 1, width + 2, dtype=plane.dtype)[1:-1]
    right[:, -width:] = (1 - share) * right[:, -width:] + share * left
    return right


def cut(values: Array) -> Array:
    """To 8 bits as in the tool: values are clipped, fractions dropped."""
    return np.clip(values, 0, 255).astype(np.uint8)
