"""Our own agents, and two controls: one that draws at random and one that does not look."""

from collections.abc import Iterator
from typing import Any, Protocol

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from dsacc.config import Config
from dsacc.dsac import DSAC
from dsacc.envs import Observations, check_actions
from dsacc.errors import ConfigError, ModelError
from dsacc.play.adapters.base import Player, Rngs, check_action_count, choose, fingerprint_of
from dsacc.system.types import Array

GREY = 128  # of 255: what a blind player is shown of a picture


class Agent(Protocol):
    """What OwnPlayer needs of an agent; DSAC has it."""

    config: Config
    step: int

    def logits(self, observation: Any) -> Array: ...


class OwnPlayer(Player):
    """One of our agents: the most probable action, or one drawn from its policy."""

    def __init__(self, model: Agent) -> None:
        self.model = model
        self.agent, self.train_seed, self.env = model.config.agent, model.config.seed, model.config.env
        self.step = model.step
        if isinstance(model, DSAC):
            self.fingerprint = fingerprint_of(_weights(model))

    def check_fits(self, env: gym.Env[Any, Any]) -> None:
        if not isinstance(self.model, DSAC):
            return
        check_action_count(f"the agent trained on {self.env}", self.model.learner.actions, env)
        seen, there = self.model.observations, Observations(env.observation_space)
        if (seen.raw_shape, seen.spec) != (there.raw_shape, there.spec):
            raise ModelError(
                f"the agent trained on {self.env} sees observations of shape {seen.raw_shape or 'a number'} "
                f"({seen.spec.kind}); this environment shows {there.raw_shape or 'a number'} ({there.spec.kind})"
            )

    def act(self, observations: Array, rngs: Rngs, greedy: bool) -> Array:
        return choose(self.model.logits(observations), rngs, greedy)


def _weights(model: DSAC) -> Iterator[bytes]:
    """Everything that acting may depend on; not the temperature, moments, or networks that only learn."""
    for name, tensor in model.learner.state().items():
        if name.startswith(model.learner.acting()):
            yield name.encode()
            yield tensor.detach().cpu().contiguous().numpy().tobytes()


class RandomPlayer(Player):
    """Every action with equal probability, greedy or not."""

    agent = fingerprint = "random"

    def __init__(self, actions: int) -> None:
        if actions < 1:
            raise ConfigError(f"a random player needs at least one action, not {actions}")
        self.actions = actions

    def check_fits(self, env: gym.Env[Any, Any]) -> None:
        check_action_count("this random player", self.actions, env)

    def act(self, observations: Array, rngs: Rngs, greedy: bool) -> Array:
        return np.array([int(rng.integers(self.actions)) for rng in rngs])


class BlindPlayer(Player):
    """Another player that is shown the same thing at every step: what can be scored without seeing.

    A picture is mid-grey, a vector zeros. An agent whose score under a shift falls to this one's sees nothing useful.
    """

    def __init__(self, player: Player) -> None:
        self.player = player
        self.agent = f"blind {player.agent}"
        self.train_seed, self.step, self.env = player.train_seed, player.step, player.env
        self.fingerprint = player.fingerprint and f"blind {player.fingerprint}"

    def check_fits(self, env: gym.Env[Any, Any]) -> None:
        space = env.observation_space
        starts = np.asarray(space.start) if isinstance(space, (spaces.Discrete, spaces.MultiDiscrete)) else np.zeros(1)
        if (starts > 0).any():
            raise ModelError("a blind player is shown zeros, which this environment's observations leave out")
        self.player.check_fits(env)

    def act(self, observations: Array, rngs: Rngs, greedy: bool) -> Array:
        return self.player.act(self.shown(observations), rngs, greedy)

    def shown(self, observations: Array) -> Array:
        """What it is shown in place of these."""
        return np.full_like(observations, GREY if observations.dtype == np.uint8 else 0)


def random_player(env: gym.Env[Any, Any]) -> RandomPlayer:
    return RandomPlayer(check_actions(env))
