"""Filters of pictures: they keep what is the same in any light and remove the rest before a network sees it.

A filter is applied to what an environment shows, after any shift, in training, in tests and in an exported graph.
To add one: a function from a plane [H, W] uint8 to the same in `FILTERS`, and its name in the type of
`Config.picture_filter`.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from dsacc.system.imports import Later
from dsacc.system.types import Array

if TYPE_CHECKING:
    import cv2
else:
    cv2 = Later("cv2")  # a third of a second, which vectors do not need

WINDOW = 9 / 84  # side of the neighbourhood whose mean is taken away, as a share of the longer side
FLOOR = 2.0  # grey levels added to the deviation, so that faint noise on a flat picture stays faint
REACH = 3.0  # deviations at which values are clipped
SPAN = 72.0  # grey levels at which `detail` clips
FLAT = 128  # what a flat area becomes; the networks see (x - 128) / 127


def window(height: int, width: int) -> int:
    """Side of the neighbourhood in pixels, an odd number: 9 for 84x84."""
    return max(round(max(height, width) * WINDOW) | 1, 3)


def high_pass(plane: Array) -> Array:
    """d = x - (mean of x over a 9x9 neighbourhood), then 128 + 127/3 clip(d / (std(d) + 2), -3, 3), rounded.

    [H, W] uint8 -> [H, W] uint8. Adding a constant to x changes nothing. Fog varies slowly over the screen, so a local
    mean removes most of it where a global mean cannot. Everything is computed in whole numbers and in float64, in which
    these sums are exact: an exported graph gives the same bytes.
    """
    d, area = _difference(plane)
    n, flat = d.size, d.ravel()
    std = np.sqrt((flat @ flat - flat.sum() ** 2 / n) / n) / area
    d *= 127 / REACH / (std + FLOOR) / area
    return _shown(d)


def detail(plane: Array) -> Array:
    """d = x - (mean of x over a 9x9 neighbourhood), then 128 + 127 clip(d / 72, -1, 1), rounded.

    [H, W] uint8 -> [H, W] uint8. As `high_pass`, but in grey levels and not in deviations of the whole picture: a few
    hundred flakes of snow then do not make everything else fainter. In return, a picture of less contrast stays one.
    """
    d, area = _difference(plane)
    d *= 127 / SPAN / area
    return _shown(d)


def _difference(plane: Array) -> tuple[Array, int]:
    """(x - mean of x over the neighbourhood) times the neighbourhood's area, exact in float64, and that area."""
    side = window(*plane.shape)
    area = side * side
    total: Array = cv2.boxFilter(plane, cv2.CV_32F, (side, side), normalize=False)  # mirrored at the edges
    return (plane * np.float32(area) - total).astype(np.float64), area


def _shown(d: Array) -> Array:
    """From -127 to 127 and beyond, to bytes around 128."""
    np.clip(d, -127, 127, out=d)
    d += FLAT + 0.5
    return d.astype(np.uint8)


FILTERS: dict[str, Callable[[Array], Array]] = {"high-pass": high_pass, "detail": detail}


def filtered_picture(picture: Array, name: str) -> Array:
    """One picture [H, W, C] as a network gets it through the filter."""
    return np.moveaxis(filtered(np.moveaxis(picture, -1, 0)[None], name)[0], 0, -1)


def filtered(pictures: Array, name: str) -> Array:
    """Each plane of [B, C, H, W] by itself, since the frames of a stack differ in weather; `none` changes nothing."""
    if name == "none":
        return pictures
    out = np.empty_like(pictures, order="C")
    for picture, done in zip(pictures, out, strict=True):
        for c, plane in enumerate(picture):
            done[c] = FILTERS[name](np.ascontiguousarray(plane))
    return out
