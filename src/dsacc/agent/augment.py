"""Random shifts of pictures, so that learning from little data does not depend on exact positions on the screen."""

import numpy as np

from dsacc.system.types import Array


def shifted(pictures: Array, pixels: int, rng: np.random.Generator) -> Array:
    """Each picture moved by up to `pixels` vertically and horizontally; the border is repeated. [B, C, H, W] -> same.

    All channels of a picture (its stack of frames) move together. This equals padding by repetition and cropping at
    random, as in DrQ (Kostrikov et al. 2020), without the padded copy.
    """
    moves_B2 = rng.integers(-pixels, pixels + 1, size=(len(pictures), 2))
    out = np.empty_like(pictures)
    height, width = pictures.shape[2:]
    for picture, moved, (down, right) in zip(pictures, out, moves_B2.tolist(), strict=True):
        top, bottom = max(down, 0), height + min(down, 0)
        left, end = max(right, 0), width + min(right, 0)
        moved[:, top:bottom, left:end] = picture[:, top - down : bottom - down, left - right : end - right]
        if left:
            moved[:, top:bottom, :left] = moved[:, top:bottom, left : left + 1]
        if end < width:
            moved[:, top:bottom, end:] = moved[:, top:bottom, end - 1 : end]
        if top:
            moved[:, :top] = moved[:, top : top + 1]
        if bottom < height:
            moved[:, bottom:] = moved[:, bottom - 1 : bottom]
    return out
