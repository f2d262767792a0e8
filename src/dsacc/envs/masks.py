"""Actions that an environment does not allow in a state, as it says so itself."""

from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np

from dsacc.errors import BadInput, EnvError, ModelError
from dsacc.system.types import Array


class MaskReader:
    """Reads the masks of one environment: `env.action_masks()`, which a wrapper may have, or `info["action_mask"]`.

    A mask is one bool (or 0 and 1) per action, True where it is allowed. Either every state has one or none does.
    """

    def __init__(self, env: gym.Env[Any, Any], actions: int) -> None:
        found = env.get_wrapper_attr("action_masks") if env.has_wrapper_attr("action_masks") else None
        self._method, self.actions = found if callable(found) else None, actions
        self._given: bool | None = None  # whether it gives masks; None before the first state

    @property
    def has_method(self) -> bool:
        """Whether it is known to give masks before its first state."""
        return self._method is not None

    def read(self, info: Mapping[str, Any]) -> Array | None:
        """The mask of the newest state, bool [A], or None. Not for the last state of a terminated episode: no action is
        taken there, and none may be allowed."""
        raw = info.get("action_mask") if self._method is None else self._method()
        given = raw is not None
        if self._given is None:
            self._given = given
        if given != self._given:
            raise EnvError(
                f"the environment gave {'no ' if given else 'an '}action mask before, and {'one' if given else 'none'} "
                "now; give info['action_mask'] with every reset and every step, or never"
            )
        return checked_mask(raw, (self.actions,), "the environment's action mask", EnvError) if given else None


def checked_mask(raw: Any, shape: tuple[int, ...], what: str, error: type[BadInput]) -> Array:
    """`raw` as bool of this shape. Refuses other shapes, values other than 0 and 1, and rows that allow nothing."""
    try:
        array = np.asarray(raw)
        mask = array.astype(bool)
        clean = bool((array == mask).all())
    except (TypeError, ValueError):
        raise error(f"{what} is not an array of bools, one per action, but {type(raw).__name__}") from None
    if array.shape != shape:
        raise error(f"{what} has the shape {array.shape}; it must have {shape}, with True for each action allowed")
    if not clean:
        raise error(f"{what} holds values other than 0 and 1; give True (or 1) for each action that is allowed")
    if not mask.any(axis=-1).all():
        raise error(f"{what} allows no action; at least one must be allowed wherever the agent acts")
    return mask


def masks_for(raw: Any, count: int, actions: int) -> Array | None:
    """What a user gives with `count` observations, as bool [count, actions]; one mask is for all of them."""
    if raw is None:
        return None
    shape = (count, actions) if np.ndim(raw) == 2 else (actions,)
    mask = checked_mask(raw, shape, "action_masks", ModelError)
    return np.broadcast_to(mask, (count, actions))


def stacked_masks(masks: list[Array | None]) -> Array | None:
    """The masks of several states as [B, A]; None where there are none."""
    kept = [mask for mask in masks if mask is not None]
    return np.stack(kept) if kept else None
