"""Shifts of light, colour, sharpness and sensor.

The paper names noise, contrast and saturation but not their strengths. Noise, contrast, brightness, impulses and blur
have the strengths of ImageNet-C (Hendrycks & Dietterich, 2019), which people know. The others grow as evenly.
"""

from typing import TYPE_CHECKING

import numpy as np

from dsacc.errors import ConfigError
from dsacc.shifts.kinds import Change, Drawn, Level, register, strength
from dsacc.system.imports import Later
from dsacc.system.types import Array

if TYPE_CHECKING:
    import cv2
else:
    cv2 = Later("cv2")  # a third of a second, which vectors do not need

NOISE = (0.08, 0.12, 0.18, 0.26, 0.38)  # standard deviation, as a share of a pixel's range
CONTRAST = (0.4, 0.3, 0.2, 0.1, 0.05)  # share of the distance from the mean that is left
SATURATION = (0.8, 0.6, 0.4, 0.2, 0.0)  # factor of the saturation in HSV
BRIGHTNESS = (0.1, 0.2, 0.3, 0.4, 0.5)  # added, as a share of a pixel's range
IMPULSES = (0.03, 0.06, 0.09, 0.17, 0.27)  # share of the pixels
OCCLUSION = (0.04, 0.08, 0.14, 0.22, 0.32)  # share of the picture's area
BLUR = (1 / 224, 2 / 224, 3 / 224, 4 / 224, 6 / 224)  # standard deviation, as a share of the longer side
SHARPEST = 84  # pixels; a smaller picture is blurred like one of this size, or mild levels would not change it
GREY = 127


def gaussian_noise(rng: np.random.Generator, shape: tuple[int, ...], level: Level) -> Change:
    """Normal noise on each pixel and channel."""
    noise = rng.standard_normal(shape, np.float32) * (255 * strength(rng, level, NOISE))
    # Positive and negative parts apart: two saturating operations in 8 bits, and no 16-bit arithmetic.
    more, less = (np.rint(np.clip(x, 0, 255)).astype(np.uint8) for x in (noise, -noise))
    return Drawn(lambda seen: cv2.subtract(cv2.add(seen, more), less), more.nbytes + less.nbytes)


def contrast(rng: np.random.Generator, shape: tuple[int, ...], level: Level) -> Change:
    """Every pixel moves towards the mean of its picture, so a dark game stays dark."""
    left = strength(rng, level, CONTRAST)

    def apply(seen: Array) -> Array:
        mean = sum(cv2.mean(seen)) / shape[2]
        return cv2.convertScaleAbs(seen, alpha=left, beta=(1 - left) * mean)

    return Drawn(apply)


def saturation(rng: np.random.Generator, shape: tuple[int, ...], level: Level) -> Change:
    """Paler colours with the same value in HSV: x -> V - f (V - x), V being the strongest channel. They also get
    brighter, so an agent that sees in grey is tested too."""
    if shape[2] == 1:
        raise ConfigError("saturation changes nothing in a grey picture; use it on coloured pictures")
    factor = strength(rng, level, SATURATION)

    def apply(seen: Array) -> Array:
        red, green, blue = cv2.split(seen)
        value = cv2.max(cv2.max(red, green), blue)
        return cv2.addWeighted(seen, factor, cv2.merge([value] * 3), 1 - factor, 0)

    return Drawn(apply)


def brightness(rng: np.random.Generator, shape: tuple[int, ...], level: Level) -> Change:
    """The same amount added to every pixel, clipped at white."""
    more = round(255 * strength(rng, level, BRIGHTNESS))
    return Drawn(lambda seen: cv2.convertScaleAbs(seen, alpha=1, beta=more))


def salt_pepper(rng: np.random.Generator, shape: tuple[int, ...], level: Level) -> Change:
    """Random pixels are white or black, equally often."""
    share, u = strength(rng, level, IMPULSES), rng.random(shape[:2])[..., None]
    salt, other = (np.broadcast_to(x, shape).astype(np.uint8) * 255 for x in (u < share / 2, u < 1 - share / 2))
    return Drawn(lambda seen: cv2.min(cv2.max(seen, salt), other), salt.nbytes + other.nbytes)


def occlusion(rng: np.random.Generator, shape: tuple[int, ...], level: Level) -> Change:
    """A grey rectangle at a random place, like an object in front of the lens; sides differ by up to a factor of 2."""
    height, width = shape[:2]
    area, ratio = strength(rng, level, OCCLUSION), 2 ** rng.uniform(-0.5, 0.5)
    h, w = max(round(height * area**0.5 * ratio), 1), max(round(width * area**0.5 / ratio), 1)
    y, x = int(rng.integers(height - h + 1)), int(rng.integers(width - w + 1))

    def apply(seen: Array) -> Array:
        out = seen.copy()
        out[y : y + h, x : x + w] = GREY
        return out

    return Drawn(apply)


def blur(rng: np.random.Generator, shape: tuple[int, ...], level: Level) -> Change:
    """Out of focus: a Gaussian blur that grows with the picture, so it hides as much at every resolution."""
    sigma = strength(rng, level, BLUR) * max(*shape[:2], SHARPEST)
    return Drawn(lambda seen: cv2.GaussianBlur(seen, (0, 0), sigma))


LOOKS = {
    "gaussian_noise": "noise",
    "contrast": "light",
    "brightness": "light",
    "salt_pepper": "specks",
    "occlusion": "cover",
}
for kind in (gaussian_noise, contrast, saturation, brightness, salt_pepper, occlusion, blur):
    register(kind.__name__, kind, look=LOOKS.get(kind.__name__))
