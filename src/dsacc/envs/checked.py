"""Where an environment's answers come in. A wrong one, or an exception, becomes a sentence about the environment.

Every room that plays calls `make`, `reset`, `step` and `render` of this module, and not those of the environment.
"""

import re
import traceback
from collections.abc import Callable
from math import isfinite
from pathlib import Path
from types import TracebackType
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from dsacc.envs.actions import to_env
from dsacc.errors import DsaccError, EnvError, EnvFailed, first_line

Env = gym.Env[Any, Any]
Step = tuple[Any, float, bool, bool, dict[str, Any]]

_STEP = "Gymnasium expects (observation, reward, terminated, truncated, info)"
_RESET = "Gymnasium expects (observation, info)"
_UNPACKING = re.compile(r"(not enough|too many) values to unpack")
_LIBRARIES = tuple(str(Path(path).parent) for path in (gym.__file__, Path(__file__).parent))  # Gymnasium's, and ours


def make(function: Callable[[], Env], name: str) -> Env:
    """The environment that `function` makes. What goes wrong in it is told of `name`."""
    try:
        return function()
    except DsaccError:
        raise
    except Exception as error:
        raise not_made(name, error) from error


def not_made(name: str, error: Exception) -> EnvFailed:
    return EnvFailed(f"{name} could not be made: {first_line(error)}")


def reset(env: Env, seed: int | None = None) -> tuple[Any, dict[str, Any]]:
    """`env.reset`, checked: an observation of the space's shape, and a dict."""
    try:
        answer = env.reset() if seed is None else env.reset(seed=seed)
    except DsaccError:
        raise
    except Exception as error:
        for answer in _refused_by_gymnasium(error):
            _check_reset(env, answer)
        hint = "; Gymnasium calls reset(seed=..., options=...)" if "unexpected keyword argument" in str(error) else ""
        raise _failure(env, "reset()", error, hint) from error
    return _check_reset(env, answer)


def step(env: Env, action: Any, number: int) -> Step:
    """`env.step` with an agent's action, checked, with the reward as a finite float. `number` counts the steps for
    messages, from 1."""
    try:
        answer = env.step(to_env(env.action_space, action))
    except DsaccError:
        raise
    except Exception as error:
        for answer in _refused_by_gymnasium(error):
            _check_step(env, answer, number)
        raise _failure(env, f"step {number:,}", error) from error
    return _check_step(env, answer, number)


def render(env: Env) -> Any:
    """`env.render`, where an exception becomes a sentence."""
    try:
        return env.render()
    except gym.error.DependencyNotInstalled as error:
        raise EnvError(f"{_name(env)} needs a package that is not installed to draw itself: {error}") from error
    except DsaccError:
        raise
    except Exception as error:
        raise _failure(env, "render()", error) from error


def _check_reset(env: Env, answer: Any) -> tuple[Any, dict[str, Any]]:
    if not isinstance(answer, tuple | list) or len(answer) != 2 or not isinstance(answer[1], dict):
        alone = isinstance(env.observation_space, spaces.Box) and _fits(env, answer)
        what = "the observation alone" if alone else _described(answer)
        raise EnvError(f"reset() of {_name(env)} returned {what}; {_RESET}, where info is a dict")
    if not _fits(env, answer[0]):
        raise _other_shape(env, "reset()", answer[0])
    return answer[0], answer[1]


def _check_step(env: Env, answer: Any, number: int) -> Step:
    if not isinstance(answer, tuple | list) or len(answer) != 5:
        raise EnvError(f"step {number:,} of {_name(env)} returned {_described(answer)}; {_STEP}")
    observation, reward, terminated, truncated, info = answer
    if type(reward) is not float:
        reward = _number(env, reward, number)
    if not isfinite(reward):
        what = f"step {number:,} of {_name(env)} returned the reward {reward}"
        raise EnvError(f"{what}; rewards must be finite numbers")
    if type(terminated) is not bool:
        terminated = _flag(env, terminated, "terminated", number)
    if type(truncated) is not bool:
        truncated = _flag(env, truncated, "truncated", number)
    if not isinstance(info, dict):
        raise _wrong(env, number, info, "info", "a dict")
    if not _fits(env, observation):
        raise _other_shape(env, f"step {number:,}", observation)
    return observation, reward, terminated, truncated, info


def _number(env: Env, value: Any, number: int) -> float:
    """A number of another type, such as NumPy's; an array of no dimensions is one too."""
    try:
        if isinstance(value, str | bytes) or np.ndim(value) > 0:
            raise TypeError
        return float(value)
    except (TypeError, ValueError):
        raise _wrong(env, number, value, "reward", "one number") from None


def _flag(env: Env, value: Any, name: str, number: int) -> bool:
    if not isinstance(value, np.bool_ | int) and not (isinstance(value, np.ndarray | np.integer) and value.ndim == 0):
        raise _wrong(env, number, value, name, "True or False")
    return bool(value)


def _wrong(env: Env, number: int, value: Any, name: str, wanted: str) -> EnvError:
    what = f"step {number:,} of {_name(env)} returned {_described(value)} as {name}"
    return EnvError(f"{what}, which must be {wanted}; {_STEP}")


def _fits(env: Env, observation: Any) -> bool:
    """Whether an observation has the shape of its space, where that is an array; others are looked at when used."""
    space = env.observation_space
    if not isinstance(space, spaces.Box):
        return True
    return getattr(observation, "shape", None) == space.shape or _shape(observation) == space.shape


def _shape(value: Any) -> Any:
    try:
        return np.shape(value)
    except ValueError:  # a list of parts that make no array
        return None


def _other_shape(env: Env, when: str, observation: Any) -> EnvError:
    space = env.observation_space
    return EnvError(
        f"{when} of {_name(env)} returned {_described(observation)} as observation; its observation_space says an "
        f"array of shape {space.shape}"
    )


def _described(value: Any) -> str:
    """`4 values`, `None`, `an array of shape (2,)`, `a str`."""
    if value is None:
        return "None"
    if isinstance(value, tuple):
        return f"{len(value)} values"
    if isinstance(value, np.ndarray):
        return f"an array of shape {value.shape}"
    kind = type(value).__name__
    return f"an {kind}" if kind[0] in "aeiou" else f"a {kind}"


def _name(env: Env) -> str:
    return str(env.spec.id if env.spec is not None else type(env.unwrapped).__name__)


# --- exceptions ---


def _failure(env: Env, what: str, error: Exception, hint: str = "") -> EnvError:
    """The error for an exception in a call. Where a wrapper found another number of values, that is what it says."""
    if isinstance(error, ValueError) and _UNPACKING.match(str(error)) and not own_frames(error.__traceback__):
        wanted = _RESET if what == "reset()" else _STEP
        return EnvError(f"{what} of {_name(env)} returned another number of values ({error}); {wanted}")
    return EnvFailed(f"{what} of {_name(env)} failed: {first_line(error)}{hint}")


def _refused_by_gymnasium(error: Exception) -> list[Any]:
    """The answer that one of Gymnasium's wrappers did not like, taken from where it was looked at; else nothing.

    Gymnasium's own checks end in whatever error comes first; ours tell the user what to change.
    """
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    if not frames[-1].f_code.co_filename.startswith(_LIBRARIES[0]):
        return []
    return [frame.f_locals["result"] for frame in reversed(frames) if "result" in frame.f_locals][:1]


def own_frames(trace: TracebackType | None) -> list[traceback.FrameSummary]:
    """The user's part of a traceback: from the first line that is neither ours nor Gymnasium's."""
    frames = list(traceback.extract_tb(trace))
    ours = [frame.filename.startswith(_LIBRARIES) for frame in frames]
    return frames[ours.index(False) :] if False in ours else []
