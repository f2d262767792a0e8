"""Our own agents, and two controls: one that acts at random and one that sees nothing."""

from collections.abc import Iterator
from typing import Any, Protocol, runtime_checkable

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from dsacc.config import ENCODERS, Config
from dsacc.dsac import DSAC
from dsacc.envs import Observations
from dsacc.envs.pictures import float_pictures
from dsacc.errors import ConfigError, ModelError
from dsacc.play.adapters.base import (
    Player,
    Rngs,
    act_among,
    check_action_count,
    choose,
    fingerprint_of,
    origin_of,
    takes_masks,
)
from dsacc.shifts import resolve
from dsacc.system.types import Array
from dsacc.training.streams import random_actions

GREY = 128  # of 255: what a blind player is shown of a picture


@runtime_checkable
class Agent(Protocol):
    """What OwnPlayer needs of an agent. DSAC has it."""

    config: Config

    @property
    def step(self) -> int: ...

    def logits(self, observation: Any) -> Array: ...


class OwnPlayer(Player):
    """One of our agents: the most probable action, or one drawn from its policy."""

    picture_filter = "none"  # what it sees pictures through
    augmented: tuple[str, ...] = ()  # augmentations and shifts under which it was trained
    takes_masks = True
    lived_in: gym.Env[Any, Any] | None = None  # the environment that it learned on, where that is at hand
    environment: dict[str, Any] | None = None  # a record of it (dsacc.envs.record), where there is one
    origin = "this agent"  # the file that names its environment

    def __init__(self, model: Agent) -> None:
        self.model = model
        self.agent, self.train_seed, self.env = model.config.agent, model.config.seed, model.config.env
        self.step = model.step
        if isinstance(model, DSAC):
            self.fingerprint, self.picture_filter = fingerprint_of(_weights(model)), model.config.picture_filter
            self.lived_in, self.environment, self.origin = model.env, model.environment, model.origin
            within = model.config.augment_pictures
            kinds = () if within == "none" else resolve(within)
            if model.hardened is not None:
                self.agent, kinds = model.hardened["name"], (*kinds, *model.hardened["kinds"])
                self.train_seed = model.hardened["train_seed"]
            self.augmented = tuple(dict.fromkeys(kinds))

    def check_fits(self, env: gym.Env[Any, Any]) -> None:
        if not isinstance(self.model, DSAC):
            return
        check_action_count(f"the agent trained on {self.env}", self.model.actions_in_words, env)
        seen, there = self.model.observations, Observations(env.observation_space)
        if (seen.described, seen.spec) != (there.described, there.spec) and not seen.are_flat(there):
            raise ModelError(
                f"the agent trained on {self.env} sees observations of shape {seen.described} "
                f"({seen.spec.kind}); this environment shows {there.described} ({there.spec.kind})"
            )

    def act(self, observations: Array, rngs: Rngs, greedy: bool, masks: Array | None = None) -> Array:
        return choose(self.model.logits(observations), rngs, greedy, masks)


def _weights(model: DSAC) -> Iterator[bytes]:
    """Everything that acting may depend on, without the temperature, moments, and networks that only learn."""
    if model.config.picture_filter != "none":
        yield model.config.picture_filter.encode()
    if model.config.encoder not in ENCODERS:  # what its weights mean depends on the user's code
        yield model.config.encoder.encode()
    for name, tensor in model.learner.state().items():
        if name.startswith(model.learner.acting()):
            yield name.encode()
            yield tensor.detach().cpu().contiguous().numpy().tobytes()


class RandomPlayer(Player):
    """Every (allowed) action with equal probability, greedy or sampled."""

    agent = fingerprint = "random"
    takes_masks = True

    def __init__(self, actions: int) -> None:
        if actions < 1:
            raise ConfigError(f"a random player needs at least one action, not {actions}")
        self.actions = actions

    def check_fits(self, env: gym.Env[Any, Any]) -> None:
        check_action_count("this random player", self.actions, env)

    def act(self, observations: Array, rngs: Rngs, greedy: bool, masks: Array | None = None) -> Array:
        if masks is None:
            return np.array([int(rng.integers(self.actions)) for rng in rngs])
        return np.array([int(random_actions(row_A[None], rng)[0]) for row_A, rng in zip(masks, rngs, strict=True)])


class BlindPlayer(Player):
    """Another player that is shown the same observation at every step. Its score is what can be had without seeing.

    A picture is mid-grey, a vector zeros. An agent whose score under a shift drops to this score sees nothing useful.
    """

    def __init__(self, player: Player) -> None:
        self.player, self._grey = player, 0.0  # of floats, until `check_fits` knows the space
        self.agent = f"blind {player.agent}"
        self.train_seed, self.step, self.env = player.train_seed, player.step, player.env
        self.augmented: tuple[str, ...] = getattr(player, "augmented", ())
        self.lived_in, self.environment = getattr(player, "lived_in", None), getattr(player, "environment", None)
        self.origin = origin_of(player)
        self.fingerprint = player.fingerprint and f"blind {player.fingerprint}"
        self.takes_masks = takes_masks(player)

    def check_fits(self, env: gym.Env[Any, Any]) -> None:
        space = env.observation_space
        for part in space.values() if isinstance(space, spaces.Dict) else [space]:
            if isinstance(part, (spaces.Discrete, spaces.MultiDiscrete)) and (np.asarray(part.start) > 0).any():
                raise ModelError("a blind player is shown zeros, but observations of this environment start above 0")
        self.player.check_fits(env)
        floats = float_pictures(space)
        self._grey = 0 if floats is None else float(floats.from_bytes(np.array(GREY)))

    def act(self, observations: Array, rngs: Rngs, greedy: bool, masks: Array | None = None) -> Array:
        return act_among(self.player, self.shown(observations), rngs, greedy, masks)

    def shown(self, observations: Any) -> Any:
        """What it is shown instead of these observations."""
        if isinstance(observations, dict):
            return {name: self.shown(part) for name, part in observations.items()}
        return np.full_like(observations, GREY if observations.dtype == np.uint8 else self._grey)
