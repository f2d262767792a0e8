"""Which change is applied to which frame: decided by the seeds and the frame's number, never by what an agent does."""

from typing import Any

import numpy as np

from dsacc.errors import ConfigError
from dsacc.shifts.bank import Bank
from dsacc.system.types import MODES, Array


class Schedule:
    """Picks a change from a bank for each frame.

    - `independent`: a new one per frame, as in the paper's tool.
    - `frozen`: one per episode.
    - `falling`: one per episode, in which snow and rain fall and fog drifts from frame to frame.
    """

    def __init__(self, bank: Bank, mode: str, seed: int) -> None:
        if mode not in MODES:
            raise ConfigError(f"mode must be {', '.join(MODES[:-1])} or {MODES[-1]}, not {mode!r}")
        self.bank, self.mode = bank, mode
        self._seeds, self._episode = [int(seed)], 0
        self._seed = int(seed)
        self._begin()

    def begin(self, seed: int | None) -> None:
        """Start an episode: with the seed that resets the environment, or as the next one after it."""
        if seed is None:
            self._episode += 1
        else:
            self._seeds, self._episode = [self._seed, int(seed)], 0
        self._begin()

    def _begin(self) -> None:
        key = (self._episode,) if self._episode else ()
        self._rng = np.random.default_rng(np.random.SeedSequence(self._seeds, spawn_key=key))
        self._frame = -1
        self._one = int(self._rng.integers(len(self.bank)))

    def next(self, count: int = 1) -> list[tuple[int, int]]:
        """The member of the bank and its age in frames for each of an observation's `count` pictures, oldest first.

        All are drawn even where only the newest is needed, so that later frames do not depend on that.
        """
        self._frame += 1
        if self.mode == "independent":
            return [(int(i), 0) for i in self._rng.integers(len(self.bank), size=count)]
        ages = [max(self._frame - k, 0) if self.mode == "falling" else 0 for k in reversed(range(count))]
        return [(self._one, age) for age in ages]

    def apply(self, pick: tuple[int, int], seen: Array) -> Array:
        member, age = pick
        return self.bank[member](seen, age)

    def state(self) -> dict[str, Any]:
        counts = {"episode": self._episode, "frame": self._frame, "one": self._one}
        return {"seeds": list(self._seeds), **counts, "rng": self._rng.bit_generator.state}

    def load_state(self, state: dict[str, Any]) -> None:
        self._seeds, self._episode = [int(s) for s in state["seeds"]], int(state["episode"])
        self._begin()
        self._frame, self._one = int(state["frame"]), int(state["one"])
        self._rng.bit_generator.state = state["rng"]
