"""Play full episodes with a policy and report raw scores.

Several episodes run at once and the network always sees a batch of the same size, so that neither how many run
together nor in which order they end changes a result: each episode has a seed of its own for its game and its actions.
"""

from collections.abc import Callable, Sequence
from typing import Any, Literal, Protocol

import gymnasium as gym
import numpy as np

from dsacc.config import Config
from dsacc.envs import make_env
from dsacc.errors import ConfigError
from dsacc.training import sample_actions

Array = np.ndarray[Any, Any]
Policy = Literal["greedy", "sampled"]
Row = dict[str, Any]

BATCH = 16  # rows the network sees at every step, padded where fewer episodes run
MAX_STEPS = 27_000  # agent steps; a longer episode is cut. Atari names a limit of its own for tests


class Agent(Protocol):
    """What can be evaluated: anything with logits and settings."""

    config: Config
    step: int

    def logits(self, observation: Any) -> Array: ...


def evaluate(
    model: Agent,
    env: str | Callable[[], gym.Env[Any, Any]] | None = None,
    *,
    shifts: Sequence[str] = ("id",),
    episodes: int = 10,
    seed: int = 0,
    policy: Policy = "greedy",
    tick: Callable[[int], None] | None = None,
) -> list[Row]:
    """One row a condition, with every episode's raw return and length. `env` is a name or a factory; by default the
    environment that the agent was trained on. `tick` is told how many episodes have ended."""
    if episodes < 1:
        raise ConfigError(f"episodes must be at least 1, not {episodes}")
    if policy not in ("greedy", "sampled"):
        raise ConfigError(f"policy is 'greedy' or 'sampled', not {policy!r}")
    unknown = [s for s in shifts if s != "id"]
    if unknown:
        raise ConfigError(f"unknown shift {unknown[0]!r}; this version knows 'id' (no shift)")
    name = env if isinstance(env, str) else model.config.env
    make = env if callable(env) else lambda: make_env(name)
    rows = []
    for shift in shifts:
        returns, lengths = _play(model, make, episodes, seed, policy, tick)
        rows.append(
            {
                "env": name,
                "agent": model.config.agent,
                "train_seed": model.config.seed,
                "eval_seed": seed,
                "step": model.step,
                "shift": shift,
                "severity": None,
                "mode": None,
                "policy": policy,
                "returns": returns,
                "lengths": lengths,
            }
        )
    return rows


class _Game:
    """One environment, playing episode after episode."""

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        self.env = env
        self.limit = int(getattr(env.unwrapped, "test_steps", MAX_STEPS))

    def begin(self, episode: int, seed: int) -> None:
        game, actions = np.random.SeedSequence((seed, episode)).spawn(2)
        self.episode, self.score, self.length = episode, 0.0, 0
        self.rng = np.random.default_rng(actions)
        self.observation, _ = self.env.reset(seed=int(game.generate_state(1)[0]))

    def step(self, logits_A: Array, policy: Policy) -> bool:
        action = int(logits_A.argmax()) if policy == "greedy" else int(sample_actions(logits_A, self.rng))
        self.observation, reward, terminated, truncated, _ = self.env.step(action)
        self.score += float(reward)
        self.length += 1
        return terminated or truncated or self.length >= self.limit


def _play(
    model: Agent,
    make: Callable[[], gym.Env[Any, Any]],
    episodes: int,
    seed: int,
    policy: Policy,
    tick: Callable[[int], None] | None,
) -> tuple[list[float], list[int]]:
    games = [_Game(make()) for _ in range(min(episodes, BATCH))]
    for i, game in enumerate(games):
        game.begin(i, seed)
    begun = len(games)
    returns, lengths = [0.0] * episodes, [0] * episodes
    running = list(games)
    ended = 0
    while running:
        seen = [g.observation for g in running]
        logits = model.logits(np.stack(seen + [seen[0]] * (BATCH - len(seen))))
        for game, row in zip(list(running), logits, strict=False):
            if not game.step(row, policy):
                continue
            returns[game.episode], lengths[game.episode] = game.score, game.length
            ended += 1
            if tick is not None:
                tick(ended)
            if begun < episodes:
                game.begin(begun, seed)
                begun += 1
            else:
                running.remove(game)
    for game in games:
        game.env.close()
    return returns, lengths
