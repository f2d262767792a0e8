"""What the networks see: an environment's observation in one of four forms."""

import math
from dataclasses import dataclass
from typing import Literal

Kind = Literal["vector", "image", "discrete", "dict"]


@dataclass(frozen=True)
class ObservationSpec:
    """A `vector` of float32, an `image` of uint8 [C, H, W], `discrete` indices (int64), one-hot encoded later, or a
    `dict` of these: its parts side by side in one row of bytes (see `dsacc.agent.parts`)."""

    kind: Kind
    shape: tuple[int, ...]
    categories: tuple[int, ...] = ()  # for `discrete`: how many values each index can take
    parts: "tuple[tuple[str, ObservationSpec], ...]" = ()  # for `dict`: its parts by name, in the order of their names

    @property
    def dtype(self) -> str:
        return {"vector": "float32", "image": "uint8", "discrete": "int64", "dict": "uint8"}[self.kind]

    @property
    def width(self) -> int:
        """Numbers that enter a fully connected layer."""
        if self.kind == "dict":
            return sum(part.width for _, part in self.parts)
        return sum(self.categories) if self.kind == "discrete" else math.prod(self.shape)

    @property
    def has_pictures(self) -> bool:
        return self.kind == "image" or any(part.has_pictures for _, part in self.parts)
