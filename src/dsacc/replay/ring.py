"""Replay memory: every picture is stored once; stacks and n-step transitions are put together when they are sampled.

To store one number more per step: a line in `COLUMNS`, its value in `Replay.add` and `Replay.sample`, a field in
`dsacc.agent.batch.Batch`. Saving, restoring and the memory estimate follow from `COLUMNS`.
"""

import numpy as np

from dsacc.agent.batch import Batch
from dsacc.agent.observation import ObservationSpec
from dsacc.errors import ConfigError, EnvError
from dsacc.replay.frames import PackedStore, PlainStore, Store
from dsacc.replay.priorities import Priorities
from dsacc.system.types import Array

_GOES_ON, _TERMINATED, _TRUNCATED, _LAST_LOOK = 0, 1, 2, 3  # what happens after a slot


# What is stored per slot, beside the observation.
COLUMNS: dict[str, type[np.generic]] = {
    "actions": np.int64,
    "rewards": np.float32,
    "entropies": np.float32,  # of the policy that chose the action
    "after": np.uint8,  # what happens after the slot
    "back": np.uint8,  # pictures of the same episode before this one, at most stack - 1
}


MASKS = "masks"  # a column beside these, one row of bits per slot, where the environment gives masks


def mask_bytes(actions: int) -> int:
    """Bytes of a mask, at one bit per action."""
    return -(-actions // 8)


class Replay:
    """A ring of slots per environment: one per agent step, and one for the last observation of a truncated episode.

    The next state of a slot is in the slot after it. A terminated episode needs no next state. A truncated one keeps
    its last observation in its own slot (`_LAST_LOOK`), which is never sampled as a start.

    Where observations are stacks of pictures (`stack` > 1), a slot holds only the newest picture, and how many of the
    pictures before it belong to the same episode. Before the start of an episode its first picture is repeated. A lost
    life may terminate a transition while the episode, and so the stack, continues.
    """

    def __init__(
        self,
        capacity: int,
        spec: ObservationSpec,
        n_step: int = 1,
        *,
        stack: int = 1,
        envs: int = 1,
        compression: str = "none",
        priority_exponent: float = 0.0,
        priority_correction: float = 0.5,
    ) -> None:
        self.spec, self.n_step, self.stack, self.envs = spec, n_step, stack, envs
        self.channels = spec.shape[0] // stack if spec.kind == "image" else 0  # of one picture
        self.ring = capacity // envs  # slots of one environment
        if self.ring < n_step + stack:
            raise ConfigError(
                f"a replay_size of {capacity} for {envs} environment(s) cannot hold n_step {n_step} and a next state"
            )
        slots = self.ring * envs
        # Pictures are stored [H, W, C], the memory that convolutions are fastest on, and handed out as [C, H, W].
        # Rows of several parts are stored as they are.
        self.frame_shape = (*spec.shape[1:], self.channels) if spec.kind == "image" else spec.shape
        self.store: Store
        if compression == "none":
            self.store = PlainStore(slots, self.frame_shape, spec.dtype)
        elif spec.has_pictures:
            self.store = PackedStore(slots, self.frame_shape, envs)
        else:
            raise ConfigError(f"replay_compression {compression!r} is for pictures; the observation is a {spec.kind}")
        self.columns: dict[str, Array] = {name: np.zeros(slots, kind) for name, kind in COLUMNS.items()}
        self.priorities = Priorities(slots, priority_exponent) if priority_exponent else None
        self.correction = priority_correction
        self.actions = 0  # of a mask; 0 where there are no masks
        self.after, self.back = self.columns["after"], self.columns["back"]
        self.after[:] = _LAST_LOOK
        self.written_E = np.zeros(envs, np.int64)  # slots ever written; the head of a ring is written % ring
        self.newest_E: list[Array | None] = [None] * envs  # the last slot's observation, until its episode ends

    def keep_masks(self, actions: int) -> None:
        """Keep the mask of every state too, one bit per action; before the first step. 0 keeps none."""
        self.actions = actions
        self.columns.pop(MASKS, None)
        if actions:
            self.columns[MASKS] = np.zeros((self.ring * self.envs, mask_bytes(actions)), np.uint8)

    def __len__(self) -> int:
        return int(self._stored_E().sum())

    def _stored_E(self) -> Array:
        return np.minimum(self.written_E, self.ring)

    @property
    def nbytes(self) -> int:
        tree = 0 if self.priorities is None else self.priorities.nbytes
        return self.store.nbytes + sum(column.nbytes for column in self.columns.values()) + tree

    def add(
        self,
        observation: Array,
        action: int,
        reward: float,
        terminated: bool,
        truncated: bool,
        next_observation: Array,
        entropy: float = 0.0,
        *,
        goes_on: bool = False,
        env: int = 0,
        mask: Array | None = None,
        next_mask: Array | None = None,
    ) -> None:
        """One agent step. `next_observation` and its mask are kept only where the episode was truncated; `goes_on` says
        that a terminated step (a lost life) does not end the episode."""
        after = _TERMINATED if terminated else _TRUNCATED if truncated else _GOES_ON
        self._write(env, observation, after, mask, actions=action, rewards=reward, entropies=entropy)
        if after == _TRUNCATED:
            self._write(env, next_observation, _LAST_LOOK, next_mask)
        if truncated or (terminated and not goes_on):
            self.newest_E[env] = None

    def cut(self, env: int, seen: Array, mask: Array | None = None) -> None:
        """End an episode that cannot continue, as a truncation after its last step; `seen` is what came after it."""
        last = env * self.ring + (int(self.written_E[env]) - 1) % self.ring
        if self.written_E[env] and self.after[last] == _GOES_ON:
            self.after[last] = _TRUNCATED
            self._write(env, seen, _LAST_LOOK, mask)
        self.newest_E[env] = None

    def _write(self, env: int, observation: Array, after: int, mask: Array | None, **values: float) -> None:
        age = int(self.written_E[env])
        slot = env * self.ring + age % self.ring
        if self.stack > 1:
            self.back[slot] = self._pictures_before(env, age, observation)
            self.newest_E[env] = observation
        image = self.spec.kind == "image"
        self.store.put(slot, observation[-self.channels :].transpose(1, 2, 0) if image else observation)
        self.after[slot] = after
        for name in COLUMNS.keys() - {"after", "back"}:
            self.columns[name][slot] = values.get(name, 0)
        if self.actions and mask is not None:
            self.columns[MASKS][slot] = np.packbits(mask)
        if self.priorities is not None:
            self.priorities.put(slot, drawn=after != _LAST_LOOK)
        self.written_E[env] += 1

    def _pictures_before(self, env: int, age: int, observation: Array) -> int:
        """How far back the stack reaches. Refuses observations that are not a sliding window over pictures."""
        newest, channels = self.newest_E[env], self.channels
        if newest is None:
            expected, back = np.concatenate([observation[-channels:]] * (self.stack - 1)), 0
        else:
            last = env * self.ring + (age - 1) % self.ring
            expected, back = newest[channels:], min(int(self.back[last]) + 1, self.stack - 1)
        if not np.array_equal(observation[:-channels], expected):
            raise EnvError(
                "the environment says that it stacks pictures, but an observation is not the previous one moved on by "
                "one picture; a wrapper may have changed it"
            )
        return back

    def sample(self, batch: int, rng: np.random.Generator, n_step: int | None = None) -> Batch[Array]:
        """A minibatch of transitions whose stack, and whose n steps or rest of the episode, are stored: drawn alike, or
        by their priorities p with loss weights w = (min p / p)^correction, the smallest p being that of the minibatch.

        `n_step` may be any number up to the one the memory was made for, which it is by default. The minibatch is that
        of a memory made for it.
        """
        n = self.n_step if n_step is None else n_step
        if n > self.n_step:
            raise ValueError(f"this memory was made for transitions of up to {self.n_step} steps, not {n}")
        base_B, age_B = self._draw(batch, rng, n)
        slots_BN = base_B[:, None] + (age_B[:, None] + np.arange(n)) % self.ring
        ends_BN = self.after[slots_BN] != _GOES_ON
        runs_BN = np.ones_like(ends_BN)
        runs_BN[:, 1:] = ~np.logical_or.accumulate(ends_BN[:, :-1], axis=1)
        steps_B = runs_BN.sum(axis=1)
        first_B, last_B = slots_BN[:, 0], slots_BN[np.arange(batch), steps_B - 1]
        terminated_B = self.after[last_B] == _TERMINATED
        # Where nothing follows, the state itself takes the place of the next one: its value is multiplied by zero.
        next_age_B = np.where(terminated_B, age_B, age_B + steps_B)
        return Batch(
            observation=self._observations(base_B, age_B),
            action_B=self.columns["actions"][first_B],
            rewards_BN=np.where(runs_BN, self.columns["rewards"][slots_BN], np.float32(0)),
            steps_B=steps_B,
            terminated_B=terminated_B.astype(np.float32),
            next_observation=self._observations(base_B, next_age_B),
            entropy_B=self.columns["entropies"][first_B],
            mask_BA=self._masks(base_B, age_B),
            next_mask_BA=self._masks(base_B, next_age_B),
            weight_B=self._weights(first_B),
            slot_B=None if self.priorities is None else first_B,
        )

    def learned(self, slots: Array, errors: Array) -> None:
        """How wrong the critics were about what was sampled last: y - Q(s, a), by which it is drawn from now on."""
        if self.priorities is not None:
            self.priorities.learned(slots, errors)

    def _weights(self, slots: Array) -> Array | None:
        if self.priorities is None:
            return None
        drawn = self.priorities[slots]
        out: Array = ((drawn.min() / drawn) ** self.correction).astype(np.float32)
        return out

    def _masks(self, base: Array, age: Array) -> Array | None:
        """Masks by ring and age, bool [B, A]; None where there are none."""
        if not self.actions:
            return None
        return np.unpackbits(self.columns[MASKS][base + age % self.ring], axis=1, count=self.actions).view(bool)

    def _observations(self, base: Array, age: Array) -> Array:
        """Observations by ring and age, [B] -> [B, *spec.shape]; stacks are put together here."""
        newest = base + age % self.ring
        if self.spec.kind != "image":
            return self.store.take(newest)
        if self.stack == 1:
            return np.moveaxis(self.store.take(newest), -1, 1)
        reach = np.minimum(np.arange(self.stack)[::-1], self.back[newest][:, None])
        slots = base[:, None] + (age[:, None] - reach) % self.ring
        if self.channels == 1:
            return np.moveaxis(self.store.take_stacks(slots), -1, 1)
        return np.moveaxis(self.store.take(slots), -1, 2).reshape(len(age), *self.spec.shape)

    def _draw(self, batch: int, rng: np.random.Generator, n: int) -> tuple[Array, Array]:
        """Rings (by their first slot) and ages to start from, drawn again until each can be rebuilt."""
        if not self._stored_E().any():
            raise ValueError("nothing is stored yet; ask can_sample first")
        base_B, age_B = np.empty(batch, np.int64), np.empty(batch, np.int64)
        missing = np.arange(batch)
        while len(missing):
            env, age = (self._any if self.priorities is None else self._by_priority)(len(missing), rng)
            good = self._complete(env, age, n)
            if not good.any() and not self.can_sample():
                raise ValueError("no transition is complete yet; ask can_sample first")
            base_B[missing[good]], age_B[missing[good]] = env[good] * self.ring, age[good]
            missing = missing[~good]
        return base_B, age_B

    def _any(self, count: int, rng: np.random.Generator) -> tuple[Array, Array]:
        """Environments and ages of slots that are stored, all with the same probability."""
        ends_E = np.cumsum(self._stored_E())
        draw = rng.integers(0, ends_E[-1], count)
        env = np.searchsorted(ends_E, draw, side="right")
        return env, self.written_E[env] - ends_E[env] + draw

    def _by_priority(self, count: int, rng: np.random.Generator) -> tuple[Array, Array]:
        """The same, with probabilities in proportion to their priorities."""
        assert self.priorities is not None
        env, place = np.divmod(self.priorities.draw(count, rng), self.ring)
        newest = self.written_E[env] - 1
        return env, newest - (newest - place) % self.ring

    def _complete(self, env: Array, age: Array, n: int) -> Array:
        """Whether slots (by ring, and the count at which they were written) start a transition of n steps that can be
        rebuilt."""
        written = self.written_E[env]
        slot = env * self.ring + age % self.ring
        past = age - self.back[slot] >= written - self.ring
        ahead = age[:, None] + np.arange(n)
        after = self.after[(env * self.ring)[:, None] + ahead % self.ring]
        ends = ((after != _GOES_ON) & (ahead < written[:, None])).any(axis=1)
        complete: Array = (self.after[slot] != _LAST_LOOK) & past & (ends | (age + n < written))
        return complete

    def can_sample(self) -> bool:
        """Whether at least one transition of any n up to `n_step` is complete: one that is complete for the largest is
        complete for all. Once true it stays true."""
        stored_E = self._stored_E()
        env = np.repeat(np.arange(self.envs), stored_E)
        age = np.concatenate([np.arange(w - s, w) for w, s in zip(self.written_E, stored_E, strict=True)])
        return bool(self._complete(env, age, self.n_step).any())
