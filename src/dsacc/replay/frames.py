"""Storage of single pictures (or other observations) by slot: as they are, or compressed without loss."""

from typing import TYPE_CHECKING, Protocol

import lz4.block
import numpy as np

from dsacc.system.imports import Later
from dsacc.system.types import Array

if TYPE_CHECKING:
    import cv2
else:
    cv2 = Later("cv2")  # a third of a second, which vectors do not need

KEY_EVERY = 8  # every so many slots a picture is stored whole; the others are differences to it


class Store(Protocol):
    """Slots for arrays of one shape and type."""

    def put(self, slot: int, frame: Array) -> None: ...

    def put_many(self, slots: Array, frames: Array) -> None: ...

    def take(self, slots: Array) -> Array:
        """The frames of `slots`, any shape [...] -> [..., *frame shape]."""
        ...

    def take_stacks(self, slots: Array) -> Array:
        """Grey pictures side by side as channels, [B, S] -> [B, H, W, S]."""
        ...

    @property
    def nbytes(self) -> int:
        """Bytes that what is stored now takes, or will take once its memory is touched."""
        ...


class PlainStore:
    """An array. The operating system allocates its memory page by page, as slots are first written."""

    def __init__(self, slots: int, shape: tuple[int, ...], dtype: str) -> None:
        self.frames = np.zeros((slots, *shape), dtype)

    def put(self, slot: int, frame: Array) -> None:
        self.frames[slot] = frame

    def put_many(self, slots: Array, frames: Array) -> None:
        self.frames[slots] = frames

    def take(self, slots: Array) -> Array:
        out: Array = self.frames[slots]
        return out

    def take_stacks(self, slots: Array) -> Array:
        out = np.empty((len(slots), *self.frames.shape[1:3], slots.shape[1]), self.frames.dtype)
        for row, stack in zip(out, slots.tolist(), strict=True):
            cv2.merge([self.frames[slot] for slot in stack], row)  # a fifth of the time of NumPy's transposed copy
        return out

    @property
    def nbytes(self) -> int:
        return self.frames.nbytes


class PackedStore:
    """Pictures compressed by LZ4, which is fast enough to unpack a minibatch at every update.

    In each ring every `KEY_EVERY`-th picture (a key) is packed as it is. The others are packed as their exclusive-or
    with the key before them, which is nearly all zeros. A slot refers to its key, so a key lives as long as any picture
    that needs it.
    """

    def __init__(self, slots: int, shape: tuple[int, ...], rings: int) -> None:
        self.shape, self.size, self.ring = shape, int(np.prod(shape)), slots // rings
        self.packed: list[bytes | None] = [None] * slots
        self.keys: list[bytes | None] = [None] * slots  # the packed key of a difference; None for a key itself
        self._current: list[tuple[bytes, Array]] = [(b"", np.zeros(self.size, np.uint8))] * rings  # a ring's last key
        self._since_key = [KEY_EVERY] * rings
        self._bytes = self._filled = 0

    def put(self, slot: int, frame: Array) -> None:
        ring, flat = slot // self.ring, np.ascontiguousarray(frame).reshape(-1)
        if self._since_key[ring] == KEY_EVERY:
            packed, key = lz4.block.compress(flat, store_size=False), None
            self._current[ring], self._since_key[ring] = (packed, flat.copy()), 1
        else:
            key, key_frame = self._current[ring]
            packed = lz4.block.compress(flat ^ key_frame, store_size=False)
            self._since_key[ring] += 1
        old = self.packed[slot]
        self._filled += old is None
        self._bytes += len(packed) - len(old or b"")
        self.packed[slot], self.keys[slot] = packed, key

    def put_many(self, slots: Array, frames: Array) -> None:
        for slot, frame in zip(slots.tolist(), frames, strict=True):
            self.put(slot, frame)

    def take(self, slots: Array) -> Array:
        out = np.empty((slots.size, self.size), np.uint8)
        last_key, key_frame = None, out[:0]
        for row, slot in zip(out, slots.reshape(-1).tolist(), strict=True):
            row[:], key = self._unpack(self.packed[slot]), self.keys[slot]
            if key is None:
                continue
            if key is not last_key:  # neighbours share their key, and a stack's pictures are neighbours
                last_key, key_frame = key, self._unpack(key)
            np.bitwise_xor(row, key_frame, out=row)
        return out.reshape(*slots.shape, *self.shape)

    def take_stacks(self, slots: Array) -> Array:
        out = np.empty((len(slots), *self.shape[:2], slots.shape[1]), np.uint8)
        for row, stack in zip(out, self.take(slots), strict=True):
            cv2.merge(list(stack), row)
        return out

    def _unpack(self, packed: bytes | None) -> Array:
        assert packed is not None, "a slot is read only after it was written"
        return np.frombuffer(lz4.block.decompress(packed, uncompressed_size=self.size), np.uint8)

    @property
    def nbytes(self) -> int:
        """Packed pictures, the bytes objects that hold them (33 bytes, rounded up to 48) and two references each."""
        return self._bytes + 48 * self._filled + 16 * len(self.packed)
