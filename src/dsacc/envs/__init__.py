"""Environments by name, and what a discrete agent may expect of them."""

import difflib
from typing import Any

import gymnasium as gym

from dsacc.envs.spaces import Observations, check_actions, check_reward
from dsacc.errors import EnvError

__all__ = ["Observations", "check_actions", "check_reward", "env_name", "make_env"]


def make_env(name: str, **kwargs: Any) -> gym.Env[Any, Any]:
    """An environment by its Gymnasium id (`CartPole-v1`, `dsacc/Catch-v0`); an unknown id names the nearest one."""
    try:
        return gym.make(name, **kwargs)
    except gym.error.DependencyNotInstalled as error:
        raise EnvError(f"{name} needs a package that is not installed: {error}") from error
    except (gym.error.UnregisteredEnv, gym.error.NameNotFound, gym.error.VersionNotFound, gym.error.Error) as error:
        near = difflib.get_close_matches(name, list(gym.registry), n=1, cutoff=0.4)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise EnvError(f"there is no environment {name!r}{hint}") from error
    except ModuleNotFoundError as error:  # "module:Id-v0" with a module that is not there
        raise EnvError(f"{name!r} needs the module {name.split(':')[0]!r}, which is not installed") from error


def env_name(env: gym.Env[Any, Any]) -> str:
    """The id an environment was made with, or its class's name."""
    return env.spec.id if env.spec is not None else type(env.unwrapped).__name__
