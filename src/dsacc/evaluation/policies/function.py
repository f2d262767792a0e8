"""A Python function as a policy."""

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym

from dsacc.envs import check_actions
from dsacc.errors import ConfigError, DsaccError, ModelError
from dsacc.evaluation.policies.base import Array, Player, Rngs, actions_from, first_line

Function = Callable[[Array], Any]


class CallablePlayer(Player):
    """`function(observations)`, given a batch [B, ...] of raw observations: actions [B], or scores [B, A] as floats.

    Of scores, greedy takes the best and sampled draws from their softmax; actions are taken as they are.
    """

    def __init__(self, function: Function, name: str | None = None, actions: int | None = None) -> None:
        kind = function if hasattr(function, "__qualname__") else type(function)
        self.agent = name or f"{kind.__module__}:{kind.__qualname__}"
        self.function, self._actions = function, actions

    def check_fits(self, env: gym.Env[Any, Any]) -> None:
        self._actions = check_actions(env)

    def act(self, observations: Array, rngs: Rngs, greedy: bool) -> Array:
        try:
            answer = self.function(observations)
        except DsaccError:
            raise
        except Exception as error:
            raise ModelError(f"{self.agent} failed: {first_line(error)}") from error
        return actions_from(answer, len(observations), self._actions, self.agent, rngs, greedy)


def find_function(spec: str) -> CallablePlayer:
    """`package.module:function`, looked for in the current folder too. Importing it runs it."""
    module_name, _, path = spec.partition(":")
    here = str(Path.cwd())
    sys.path.insert(0, here)
    try:
        found: Any = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is not None and (module_name == error.name or module_name.startswith(error.name + ".")):
            raise ConfigError(
                f"there is no saved agent {spec!r}, nor a module {module_name!r} here or installed"
            ) from error
        raise ConfigError(f"the module {module_name!r} needs {error.name!r}, which is not installed") from error
    except Exception as error:
        raise ConfigError(f"the module {module_name!r} failed while it was imported: {first_line(error)}") from error
    finally:
        sys.path.remove(here)
    for part in path.split("."):
        if not hasattr(found, part):
            raise ConfigError(f"the module {module_name!r} has no {path!r}")
        found = getattr(found, part)
    if not callable(found):
        raise ConfigError(f"{spec} is a {type(found).__name__}, not a function")
    return CallablePlayer(found, spec)
