"""Replay memory: every observation is stored once, and n-step transitions are put together when they are sampled."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from dsacc.agent.observation import ObservationSpec

Array = np.ndarray[Any, Any]

_GOES_ON, _TERMINATED, _TRUNCATED, _LAST_LOOK = 0, 1, 2, 3  # what happens after a slot


@dataclass(frozen=True)
class Transitions:
    """A minibatch as arrays; see `agent.Batch` for the fields."""

    observation: Array
    action_B: Array
    rewards_BN: Array
    steps_B: Array
    terminated_B: Array
    next_observation: Array
    entropy_B: Array


class Replay:
    """A ring of slots, one per agent step, plus one for the last observation of each truncated episode.

    The next state of a slot is the slot after it. A terminated episode needs no next state; a truncated one keeps its
    last observation in a slot of its own (`_LAST_LOOK`), which is never sampled as a start.
    """

    def __init__(self, capacity: int, spec: ObservationSpec, n_step: int = 1) -> None:
        self.capacity, self.n_step = capacity, n_step
        self.observations = np.zeros((capacity, *spec.shape), spec.dtype)
        self.actions = np.zeros(capacity, np.int64)
        self.rewards = np.zeros(capacity, np.float32)
        self.entropies = np.zeros(capacity, np.float32)
        self.after = np.full(capacity, _LAST_LOOK, np.uint8)
        self.written = 0  # slots ever written; the ring's head is written % capacity

    def __len__(self) -> int:
        return min(self.written, self.capacity)

    @property
    def nbytes(self) -> int:
        return sum(a.nbytes for a in (self.observations, self.actions, self.rewards, self.entropies, self.after))

    def add(
        self,
        observation: Array,
        action: int,
        reward: float,
        terminated: bool,
        truncated: bool,
        next_observation: Array,
        entropy: float = 0.0,
    ) -> None:
        """One agent step. `next_observation` is kept only where the episode was cut off."""
        after = _TERMINATED if terminated else _TRUNCATED if truncated else _GOES_ON
        self._write(observation, action, reward, entropy, after)
        if after == _TRUNCATED:
            self._write(next_observation, 0, 0.0, 0.0, _LAST_LOOK)

    def _write(self, observation: Array, action: int, reward: float, entropy: float, after: int) -> None:
        i = self.written % self.capacity
        self.observations[i], self.actions[i], self.rewards[i] = observation, action, reward
        self.entropies[i], self.after[i] = entropy, after
        self.written += 1

    def sample(self, batch: int, rng: np.random.Generator) -> Transitions:
        """A uniform minibatch of transitions whose whole future, up to n steps or the episode's end, is stored."""
        slots_B = self._draw(batch, rng)
        rewards_BN = np.zeros((batch, self.n_step), np.float32)
        steps_B = np.zeros(batch, np.int64)
        running_B = np.ones(batch, bool)
        last_B = slots_B
        for k in range(self.n_step):
            here_B = (slots_B + k) % self.capacity
            last_B = np.where(running_B, here_B, last_B)
            rewards_BN[:, k] = np.where(running_B, self.rewards[here_B], 0)
            steps_B += running_B
            running_B = running_B & (self.after[here_B] == _GOES_ON)
        return Transitions(
            self.observations[slots_B],
            self.actions[slots_B],
            rewards_BN,
            steps_B,
            (self.after[last_B] == _TERMINATED).astype(np.float32),
            self.observations[(last_B + 1) % self.capacity],
            self.entropies[slots_B],
        )

    def _draw(self, batch: int, rng: np.random.Generator) -> Array:
        """Slots to start from: drawn again until each is a start and its future is complete."""
        oldest = self.written - len(self)
        slots_B = np.empty(batch, np.int64)
        missing = np.arange(batch)
        while len(missing):
            ages = rng.integers(oldest, self.written, len(missing))
            good = self._complete(ages)
            slots_B[missing[good]] = ages[good] % self.capacity
            missing = missing[~good]
        return slots_B

    def _complete(self, ages: Array) -> Array:
        """Whether the slots (by the count at which they were written) start a transition that can be rebuilt."""
        start = self.after[ages % self.capacity] != _LAST_LOOK
        open_B = start.copy()
        for k in range(self.n_step):
            here = ages + k
            inside = here < self.written
            after = np.where(inside, self.after[here % self.capacity], _GOES_ON)
            ends = open_B & inside & (after != _GOES_ON)
            open_B = open_B & ~ends
        complete: Array = start & (~open_B | (ages + self.n_step < self.written))
        return complete

    def can_sample(self) -> bool:
        """Whether at least one transition is complete. Once true it stays true."""
        return bool(self._complete(np.arange(self.written - len(self), self.written)).any())
