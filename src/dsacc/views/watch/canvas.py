"""Fast text and boxes on an array. Text is drawn once and kept; matplotlib would need 50 ms per frame."""

from functools import lru_cache
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from dsacc.system.types import Array

Colour = tuple[int, int, int]

# Okabe and Ito's palette, safe for colour-blind people, on a dark ground.
GROUND, RAISED, TRACK = (22, 24, 29), (52, 58, 70), (38, 42, 51)
WHITE, GREY = (240, 242, 246), (165, 172, 184)
BLUE, ORANGE, GREEN = (86, 180, 233), (230, 159, 0), (0, 158, 115)


def blank(height: int, width: int) -> Array:
    return np.full((height, width, 3), GROUND, np.uint8)


def box(canvas: Array, x: float, y: float, width: float, height: float, colour: Colour) -> None:
    canvas[int(y) : int(y + height), int(x) : int(x + width)] = colour


def write(
    canvas: Array, text: str, x: float, y: float, size: int, colour: Colour = WHITE, bold: bool = False, at: float = 0
) -> None:
    """Write `text` with its line centred on height y; x is its left end (`at` 0), middle (0.5) or right end (1)."""
    mask = _mask(text, size, bold)
    height, width = mask.shape[:2]
    left, top = round(x - at * width), round(y - height / 2)
    part = canvas[max(top, 0) : top + height, max(left, 0) : left + width]
    mask = mask[max(-top, 0) :, max(-left, 0) :][: part.shape[0], : part.shape[1]]
    if part.size:
        part[:] = part + mask * (np.asarray(colour, np.float32) - part)


def measure(text: str, size: int, bold: bool = False) -> int:
    """The width of a text in pixels."""
    return int(_mask(text, size, bold).shape[1])


@lru_cache(maxsize=8192)
def _mask(text: str, size: int, bold: bool) -> Array:
    """How much of each pixel the letters cover, [H, W, 1] in [0, 1]; H is the height of a line."""
    from PIL import Image, ImageDraw

    font = _font(size, bold)
    ascent, descent = font.getmetrics()
    picture = Image.new("L", (max(int(np.ceil(font.getlength(text))), 1), ascent + descent))
    ImageDraw.Draw(picture).text((0, 0), text, fill=255, font=font)
    return (np.asarray(picture, np.float32) / 255)[..., None]


@lru_cache(maxsize=16)
def _font(size: int, bold: bool) -> Any:
    import matplotlib
    from PIL import ImageFont

    name = "DejaVuSans-Bold.ttf" if bold else "DejaVuSans.ttf"  # comes with matplotlib and has Greek letters
    return ImageFont.truetype(str(Path(matplotlib.get_data_path()) / "fonts" / "ttf" / name), size)


def fitted(picture: Array, side: int) -> Array:
    """Enlarge a picture [H, W], [H, W, 1] or [H, W, 3] by the largest whole factor that keeps it within `side`, or
    shrink it if it is larger. [h, w, 3]"""
    picture = picture[..., None] if picture.ndim == 2 else picture
    height, width = picture.shape[:2]
    picture = np.ascontiguousarray(np.broadcast_to(picture, (height, width, 3)))
    factor = side // max(height, width) or side / max(height, width)
    how = cv2.INTER_NEAREST if factor >= 1 else cv2.INTER_AREA
    target = max(round(width * factor), 1), max(round(height * factor), 1)
    return np.asarray(cv2.resize(picture, target, interpolation=how))
