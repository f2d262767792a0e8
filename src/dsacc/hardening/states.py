"""The states that a student learns from: what the teacher meets in its own play, and what the student meets.

The teacher plays clean games. The student plays augmented ones, and of these the clean pictures are kept: the teacher
is asked about the states into which the student's own mistakes lead (DAgger, Ross et al. 2011).
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from typing import Any

import gymnasium as gym
import numpy as np

from dsacc.envs.actions import to_env
from dsacc.play.adapters.base import Rngs
from dsacc.play.rollout import longest_episode
from dsacc.system.types import Array

Env = gym.Env[Any, Any]
Act = Callable[[Array, Rngs, bool], Array]  # raw observations [B, ...], a generator each, and whether greedy

GAMES = 16  # played together: half of them greedy, half sampled
STRIDE = 4  # one of so many states is kept on average: neighbours differ little


def collect(act: Act, make: Callable[[], Env], count: int, seed: np.random.SeedSequence) -> Iterator[Array]:
    """Play until `count` states are kept, and give them one by one as raw observations.

    The games have seeds of their own, so none of them is a game of a test.
    """
    pick, *own = (np.random.default_rng(child) for child in seed.spawn(1 + GAMES))
    kept = 0
    with ExitStack() as opened:
        envs = [opened.enter_context(closing(make())) for _ in range(GAMES)]
        seen = [_begin(env, rng) for env, rng in zip(envs, own, strict=True)]
        lengths = [0] * GAMES
        half, limit = GAMES // 2, longest_episode(envs[0])
        while True:
            for e in np.flatnonzero(pick.random(GAMES) < 1 / STRIDE).tolist():
                yield np.array(seen[e])
                kept += 1
                if kept == count:
                    return
            batch = np.stack(seen)
            actions = [*act(batch[:half], own[:half], True), *act(batch[half:], own[half:], False)]
            for e, (env, action) in enumerate(zip(envs, actions, strict=True)):
                seen[e], _, terminated, truncated, _ = env.step(to_env(env.action_space, int(action)))
                lengths[e] += 1
                if terminated or truncated or lengths[e] >= limit:
                    seen[e], lengths[e] = _begin(env, own[e]), 0


def _begin(env: Env, rng: np.random.Generator) -> Array:
    return np.asarray(env.reset(seed=int(rng.integers(2**31)))[0])
