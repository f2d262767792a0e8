"""How often each slot of the replay is drawn: by a tree of sums, in a time that grows with the logarithm of the slots.

Written by hand because what libraries offer is either a C++ extension with a memory of its own or a loop in Python.
"""

import numpy as np

from dsacc.system.types import Array

SMALLEST = 1e-6  # added to every error, so that what is learned perfectly is still drawn now and then


def tree_bytes(slots: int) -> int:
    """Bytes of the tree over so many slots."""
    return 2 * 8 * _leaves(slots)


def _leaves(slots: int) -> int:
    return 1 << max(slots - 1, 0).bit_length()


class Priorities:
    """The priority p = (|error| + 1e-6)^exponent of each slot; a slot is drawn with probability p / sum of p.

    A slot whose error is not known yet has the largest priority seen so far, so that it is soon drawn. Every inner node
    is the sum of its two children, computed from them alone: the tree follows from its leaves, whatever their order.
    """

    def __init__(self, slots: int, exponent: float) -> None:
        self.slots, self.exponent = slots, exponent
        self.largest = 1.0
        self._first = _leaves(slots)  # node of the first leaf; the root is node 1
        self._sums = np.zeros(2 * self._first)

    @property
    def nbytes(self) -> int:
        return int(self._sums.nbytes)

    def __getitem__(self, slots: Array) -> Array:
        out: Array = self._sums[self._first + slots]
        return out

    @property
    def total(self) -> float:
        return float(self._sums[1])

    def put(self, slot: int, drawn: bool) -> None:
        """A slot that was just written: with the largest priority, or never drawn."""
        node, sums = self._first + slot, self._sums
        sums[node] = self.largest if drawn else 0.0
        while node > 1:
            node >>= 1
            sums[node] = sums[2 * node] + sums[2 * node + 1]

    def learned(self, slots: Array, errors: Array) -> None:
        """The errors of slots that were learned from."""
        priorities = (np.abs(errors) + SMALLEST) ** self.exponent
        self.largest = max(self.largest, float(priorities.max()))
        self._set(slots, priorities)

    def _set(self, slots: Array, priorities: Array) -> None:
        nodes, sums = self._first + slots, self._sums
        sums[nodes] = priorities
        for _ in range(self._first.bit_length() - 1):
            nodes = nodes >> 1
            sums[nodes] = sums[2 * nodes] + sums[2 * nodes + 1]

    def draw(self, count: int, rng: np.random.Generator) -> Array:
        """Independent draws of slots. Rounding may lead to one of priority 0, next to the one that was meant."""
        rest, nodes, sums = rng.random(count) * self.total, np.ones(count, np.int64), self._sums
        for _ in range(self._first.bit_length() - 1):
            nodes = 2 * nodes
            left = sums[nodes]
            right = rest >= left
            rest = np.where(right, rest - left, rest)
            nodes = nodes + right
        return np.minimum(nodes - self._first, self.slots - 1)

    # --- saving ---

    def state(self) -> dict[str, Array | float]:
        return {"priorities": self._sums[self._first : self._first + self.slots].copy(), "largest": self.largest}

    def load_state(self, state: dict[str, Array | float]) -> None:
        priorities = np.asarray(state["priorities"], np.float64)
        if priorities.shape != (self.slots,) or not (np.isfinite(priorities).all() and (priorities >= 0).all()):
            raise ValueError("the priorities of its replay are of another memory")
        self.largest = float(state["largest"])
        self._set(np.arange(self.slots), priorities)
