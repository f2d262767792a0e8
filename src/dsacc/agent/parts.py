"""Observations of several parts (Gymnasium's Dict) as one row, so that replay and training need not know of parts.

In memory a row is bytes: a picture as it is, float32 and int32 as the four bytes of each number. `unpacked` turns rows
into floats, once per minibatch: pictures scaled, indices one-hot, vectors as they are. `split` takes these apart again
by name, for the encoders.
"""

import math
from collections.abc import Callable, Iterator, Mapping

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from dsacc.agent.observation import ObservationSpec
from dsacc.system.types import Array

_STORED: dict[str, type[np.generic]] = {"image": np.uint8, "vector": np.float32, "discrete": np.int32}


def dict_spec(parts: Mapping[str, ObservationSpec]) -> ObservationSpec:
    """The spec of an observation with these parts."""
    ordered = tuple(sorted(parts.items()))
    return ObservationSpec("dict", (sum(_bytes(part) for _, part in ordered),), parts=ordered)


def _bytes(part: ObservationSpec) -> int:
    return math.prod(part.shape) * np.dtype(_STORED[part.kind]).itemsize


def _places(spec: ObservationSpec) -> Iterator[tuple[ObservationSpec, slice]]:
    """Each part with the bytes of a row that hold it."""
    start = 0
    for _, part in spec.parts:
        yield part, slice(start, start + _bytes(part))
        start += _bytes(part)


def packed(parts: Mapping[str, Array], spec: ObservationSpec) -> Array:
    """Rows [B, bytes] from encoded parts [B, ...] by name."""
    rows = []
    for name, part in spec.parts:
        stored = np.ascontiguousarray(parts[name], _STORED[part.kind])
        rows.append(stored.reshape(len(stored), -1).view(np.uint8))
    return np.concatenate(rows, axis=1)


def with_pictures(rows: Array, spec: ObservationSpec, change: Callable[[Array], Array]) -> Array:
    """A copy of rows [B, bytes] in which `change` was applied to each part of pictures [B, C, H, W]."""
    out = rows.copy()
    for part, place in _places(spec):
        if part.kind == "image":
            out[:, place] = change(rows[:, place].reshape(-1, *part.shape)).reshape(len(rows), -1)
    return out


def unpacked(rows: Tensor, spec: ObservationSpec, scale: Callable[[Tensor], Tensor]) -> Tensor:
    """Floats [B, width] from rows [B, bytes]; `scale` turns bytes of pictures into floats."""
    floats = []
    for part, place in _places(spec):
        own = rows[:, place].contiguous()
        if part.kind == "image":
            floats.append(scale(own))
        elif part.kind == "vector":
            floats.append(own.view(torch.float32))
        else:
            floats.append(one_hot(own.view(torch.int32).long(), part.categories))
    return torch.cat(floats, dim=1)


def split(floats: Tensor, spec: ObservationSpec) -> dict[str, Tensor]:
    """Parts by name from floats [B, width]: pictures [B, C, H, W], anything else [B, n]."""
    pieces = torch.split(floats, [part.width for _, part in spec.parts], dim=1)
    return {
        name: piece.reshape(-1, *part.shape) if part.kind == "image" else piece
        for (name, part), piece in zip(spec.parts, pieces, strict=True)
    }


def one_hot(indices: Tensor, categories: tuple[int, ...]) -> Tensor:
    """Indices [B, n], each with its own number of categories, as floats [B, sum of categories]."""
    return torch.cat([F.one_hot(indices[:, i], n) for i, n in enumerate(categories)], dim=1).float()
