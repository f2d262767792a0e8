"""Drawn changes, kept for reuse: drawing one takes milliseconds, applying it a few hundredths of a millisecond.

Each member has its own random generator. So a bank is the same whatever is drawn first, and in any number of processes
or threads. Environments that ask for the same bank share it.
"""

import zlib
from collections import deque
from weakref import WeakValueDictionary

import numpy as np

from dsacc.errors import ConfigError
from dsacc.shifts.kinds import Change, Kind, Level

MEMORY = 145_000_000  # bytes that the planes of one bank may take
SIZE = 256  # members of a bank of pictures
UNKEPT = 2**31 - 1  # members of a bank of vectors: so many that repeats are rare


class Bank:
    """`bank[i]` is the i-th change, drawn when it is first used.

    Changes of pictures are kept. The bank is smaller than `size` where `size` changes as large as the first would
    exceed `MEMORY`. Changes of vectors are cheap and are drawn again each time.
    """

    def __init__(self, kind: Kind, level: Level, shape: tuple[int, ...], seed: int, size: int) -> None:
        self.kind, self.level, self.shape, self.seed = kind, level, shape, seed
        self._words = [seed, zlib.crc32(kind.name.encode()), level or 0, *shape]
        self._kept: dict[int, Change] = {}
        self._size = size
        if kind.on == "picture":
            self._size = max(min(size, MEMORY // max(self[0].nbytes, 1)), 1)

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, i: int) -> Change:
        if not 0 <= i < self._size:
            raise IndexError(f"this bank has {self._size} members, so there is no member {i}")
        change = self._kept.get(i)
        if change is None:
            rng = np.random.default_rng(np.random.SeedSequence([*self._words, i]))
            change = self.kind.draw(rng, self.shape, self.level)
            if self.kind.on == "picture":
                self._kept[i] = change  # two threads at once draw the same change
        return change

    def fill(self) -> "Bank":
        """Draw everything that is kept, before it is needed."""
        if self.kind.on == "picture":
            for i in range(self._size):
                self[i]
        return self

    @property
    def nbytes(self) -> int:
        """Bytes of what has been drawn so far."""
        return sum(change.nbytes for change in list(self._kept.values()))


_BANKS: WeakValueDictionary[tuple[object, ...], Bank] = WeakValueDictionary()
_RECENT: deque[Bank] = deque(maxlen=3)  # kept after their last environment: the next agent meets the same weather


def bank(kind: Kind, level: Level, shape: tuple[int, ...], seed: int, size: int = SIZE) -> Bank:
    """The bank for these arguments. It is made again only if nobody uses it and three others were asked for since."""
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise ConfigError(f"the seed of a shift must be a whole number of at least 0, not {seed!r}")
    if size < 1:
        raise ConfigError(f"a bank must have at least 1 member, not {size}")
    key = (kind, level, tuple(shape), int(seed), size)
    found = _BANKS.get(key)
    if found is None:
        found = _BANKS[key] = Bank(kind, level, tuple(shape), int(seed), size)
    if kind.on == "picture" and not any(recent is found for recent in _RECENT):
        _RECENT.append(found)
    return found
