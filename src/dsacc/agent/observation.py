"""What the networks see: an environment's observation in one of three forms."""

import math
from dataclasses import dataclass
from typing import Literal

Kind = Literal["vector", "image", "discrete"]


@dataclass(frozen=True)
class ObservationSpec:
    """A `vector` of float32, an `image` of uint8 [C, H, W], or `discrete` indices (int64), one-hot encoded later."""

    kind: Kind
    shape: tuple[int, ...]
    categories: tuple[int, ...] = ()  # for `discrete`: how many values each index can take

    @property
    def dtype(self) -> str:
        return {"vector": "float32", "image": "uint8", "discrete": "int64"}[self.kind]

    @property
    def width(self) -> int:
        """Numbers that enter a fully connected layer."""
        return sum(self.categories) if self.kind == "discrete" else math.prod(self.shape)
