"""A Python function as a policy."""

from collections.abc import Callable
from typing import Any

import gymnasium as gym

from dsacc.envs import batch_size, check_actions
from dsacc.envs.actions import from_env
from dsacc.errors import ConfigError, DsaccError, ModelError, first_line
from dsacc.play.adapters.base import Player, Rngs, actions_from
from dsacc.system.imports import import_here
from dsacc.system.types import Array

Function = Callable[[Array], Any]


class CallablePlayer(Player):
    """`function(observations)` of a batch [B, ...] of raw observations. It returns actions [B], or scores [B, A] as
    floats.

    Greedy takes the action with the best score and sampled draws from the softmax of the scores. Actions are taken as
    they are. Where the environment has action masks, only scores of allowed actions count.
    """

    takes_masks = True

    def __init__(self, function: Function, name: str | None = None, actions: int | None = None) -> None:
        kind = function if hasattr(function, "__qualname__") else type(function)
        self.agent = name or f"{kind.__module__}:{kind.__qualname__}"
        self.function, self._actions = function, actions
        self._space: Any = None  # of the environment's actions

    def check_fits(self, env: gym.Env[Any, Any]) -> None:
        self._actions, self._space = check_actions(env), env.action_space

    def act(self, observations: Array, rngs: Rngs, greedy: bool, masks: Array | None = None) -> Array:
        answer, count = self.answer(observations), batch_size(observations)
        if self._space is not None:  # actions of several choices may come as the environment takes them
            answer = from_env(self._space, answer, count)
        return actions_from(answer, count, self._actions, self.agent, rngs, greedy, masks)

    def answer(self, observations: Array) -> Any:
        """What the function returns for raw observations [B, ...]."""
        try:
            return self.function(observations)
        except DsaccError:
            raise
        except Exception as error:
            raise ModelError(f"{self.agent} failed: {first_line(error)}") from error


def find_function(spec: str) -> CallablePlayer:
    """`package.module:function`, also from the current folder. Importing the module runs its code."""
    module_name, _, path = spec.partition(":")
    absent = f"there is no saved agent {spec!r}, and no module {module_name!r} here or among the installed packages"
    found: Any = import_here(module_name, absent)
    for part in path.split("."):
        if not hasattr(found, part):
            raise ConfigError(f"the module {module_name!r} has no {path!r}")
        found = getattr(found, part)
    if not callable(found):
        raise ConfigError(f"{spec} is a {type(found).__name__}, not a function")
    return CallablePlayer(found, spec)
