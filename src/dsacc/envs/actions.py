"""Actions as an agent counts them, from 0, and as an environment takes them.

An environment of several choices per step (MultiDiscrete) has one action for each combination of them. The last choice
changes fastest: for sizes (2, 3) action 4 is (1, 1).
"""

import math
from typing import Any

import numpy as np
from gymnasium import spaces

from dsacc.errors import EnvError, ModelError
from dsacc.system.types import Array

MOST = 4_096  # combinations; every one has its own output in every network
MOST_ACTIONS = 16_384  # of one choice; a step that learns takes 0.15 s on one core there, and grows with their number


def action_form(space: spaces.Space[Any]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """How many values each choice of an action has, and where they start. Refuses what is not discrete."""
    if isinstance(space, spaces.Discrete):
        if space.start != 0:
            raise EnvError(f"actions start at {space.start}; they must start at 0")
        if space.n > MOST_ACTIONS:
            raise EnvError(
                f"{space.n:,} actions are too many: each update computes the value of every one, and the limit is "
                f"{MOST_ACTIONS:,}; let the agent make several smaller choices, one after the other"
            )
        return (int(space.n),), (0,)
    if isinstance(space, spaces.MultiDiscrete):
        sizes, starts = (np.asarray(x).reshape(-1).tolist() for x in (space.nvec, space.start))
    elif isinstance(space, spaces.MultiBinary):
        choices = math.prod(space.shape or ())
        sizes, starts = [2] * choices, [0] * choices
    else:
        raise EnvError(
            f"actions of type {type(space).__name__} are not supported: a discrete agent needs Discrete or "
            "MultiDiscrete actions"
        )
    if math.prod(sizes) > MOST:
        raise EnvError(
            f"{type(space).__name__} actions of sizes {' x '.join(map(str, sizes))} have {math.prod(sizes):,} "
            f"combinations, and at most {MOST:,} can be learned; let the environment offer fewer choices"
        )
    return tuple(sizes), tuple(starts)


def count_actions(space: spaces.Space[Any]) -> int:
    """How many actions an agent chooses from."""
    return math.prod(action_form(space)[0])


def counted(space: spaces.Space[Any]) -> str:
    """How many actions there are, in words that are equal for equal actions: "6", or "2 x 3" for several choices."""
    sizes, starts = action_form(space)
    shifted = f" from {', '.join(map(str, starts))}" if any(starts) else ""
    return " x ".join(map(str, sizes)) + shifted


def to_env(space: spaces.Space[Any], actions: Any) -> Any:
    """What `env.step` takes for an agent's action; also for a batch, [...] -> [..., *space.shape]. Discrete actions
    stay as they are.

    >>> to_env(spaces.MultiDiscrete([2, 3]), 4)
    array([1, 1])
    """
    if isinstance(space, spaces.Discrete):
        return actions
    sizes, starts = action_form(space)
    choices = np.stack(np.unravel_index(actions, sizes), axis=-1) + np.array(starts)
    return choices.reshape(*np.shape(actions), *(space.shape or ())).astype(space.dtype)


def from_env(space: spaces.Space[Any], actions: Any, count: int) -> Any:
    """An agent's actions [B] from `count` actions as the environment takes them; any other answer stays as it is."""
    given: Array = np.asarray(actions)
    is_theirs = given.dtype.kind in "iu" and given.shape == (count, *(space.shape or ()))
    if isinstance(space, spaces.Discrete) or not is_theirs:
        return actions
    sizes, starts = action_form(space)
    choices = given.reshape(count, -1).astype(np.int64) - np.array(starts)
    if (choices < 0).any() or (choices >= np.array(sizes)).any():
        raise ModelError(f"an action is outside the environment's {space}")
    return np.ravel_multi_index(tuple(choices.T), sizes)


def combinations(space: spaces.Space[Any]) -> list[str]:
    """Each action as text: its number, or its choices ("1,0,2")."""
    count = count_actions(space)
    if isinstance(space, spaces.Discrete):
        return [str(number) for number in range(count)]
    return [",".join(map(str, choices)) for choices in to_env(space, np.arange(count)).reshape(count, -1).tolist()]
