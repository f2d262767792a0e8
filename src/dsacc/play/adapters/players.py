"""Our own agents, and two controls: one that acts at random and one that sees nothing."""

from collections.abc import Iterator
from typing import Any, Protocol, runtime_checkable

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from dsacc.config import ENCODERS, Config
from dsacc.dsac import DSAC
from dsacc.envs import Observations
from dsacc.errors import ConfigError, ModelError
from dsacc.play.adapters.base import Player, Rngs, check_action_count, choose, fingerprint_of
from dsacc.shifts import resolve
from dsacc.system.types import Array

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

    def __init__(self, model: Agent) -> None:
        self.model = model
        self.agent, self.train_seed, self.env = model.config.agent, model.config.seed, model.config.env
        self.step = model.step
        if isinstance(model, DSAC):
            self.fingerprint, self.picture_filter = fingerprint_of(_weights(model)), model.config.picture_filter
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
        if (seen.described, seen.spec) != (there.described, there.spec):
            raise ModelError(
                f"the agent trained on {self.env} sees observations of shape {seen.described} "
                f"({seen.spec.kind}); this environment shows {there.described} ({there.spec.kind})"
            )

    def act(self, observations: Array, rngs: Rngs, greedy: bool) -> Array:
        return choose(self.model.logits(observations), rngs, greedy)


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
    """Every action with equal probability, greedy or sampled."""

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
    """Another player that is shown the same observation at every step. Its score is what can be had without seeing.

    A picture is mid-grey, a vector zeros. An agent whose score under a shift drops to this score sees nothing useful.
    """

    def __init__(self, player: Player) -> None:
        self.player = player
        self.agent = f"blind {player.agent}"
        self.train_seed, self.step, self.env = player.train_seed, player.step, player.env
        self.augmented: tuple[str, ...] = getattr(player, "augmented", ())
        self.fingerprint = player.fingerprint and f"blind {player.fingerprint}"

    def check_fits(self, env: gym.Env[Any, Any]) -> None:
        space = env.observation_space
        for part in space.values() if isinstance(space, spaces.Dict) else [space]:
            if isinstance(part, (spaces.Discrete, spaces.MultiDiscrete)) and (np.asarray(part.start) > 0).any():
                raise ModelError("a blind player is shown zeros, but observations of this environment start above 0")
        self.player.check_fits(env)

    def act(self, observations: Array, rngs: Rngs, greedy: bool) -> Array:
        return self.player.act(self.shown(observations), rngs, greedy)

    def shown(self, observations: Any) -> Any:
        """What it is shown instead of these observations."""
        if isinstance(observations, dict):
            return {name: self.shown(part) for name, part in observations.items()}
        return np.full_like(observations, GREY if observations.dtype == np.uint8 else 0)
