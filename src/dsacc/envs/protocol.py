"""What an environment may offer beyond Gymnasium's own methods. All of it is optional, and each part stands alone.

An environment of your own takes part by having the attributes of a protocol below; it need not inherit from it.
Two more are in `info`: `life_lost`, a bool of `step`, says that a life was lost (see `lost_life_ends`); `action_mask`,
of `reset` and `step`, which actions are allowed. A method `action_masks()` may say that instead (`dsacc.envs.masks`).
"""

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

from dsacc.system.types import Array


@runtime_checkable
class Saveable(Protocol):
    """Can be saved in the middle of an episode, so that a killed run continues exactly.

    States are made of None, bool, int, float, str, NumPy's arrays and scalars of these, and lists, tuples and dicts
    (with str keys) of them. `np_random` is saved separately. A wrapper gives its own state alone. A subclass that keeps
    more extends both methods.
    """

    def state(self) -> dict[str, Any]:
        """Everything that its next steps and resets depend on."""

    def load_state(self, state: dict[str, Any]) -> None:
        """Continue from `state`. Afterwards `state()` gives the same again."""


@runtime_checkable
class HasScreen(Protocol):
    """Shows its agent less than its full screen. Weather is drawn on the screen, before it is made small."""

    lens: Callable[[Array], Array] | None  # changes each new screen before the observation is made from it

    def screen(self) -> Array:
        """The full screen as the lens left it, [H, W, 3] uint8."""


@runtime_checkable
class StacksFrames(Protocol):
    """Its observations are a window of pictures that slides by one picture per step: only the newest is stored."""

    frame_stack: int  # pictures per observation


@runtime_checkable
class LimitsTests(Protocol):
    """Ends test episodes after a number of steps of its own."""

    test_steps: int  # agent steps
