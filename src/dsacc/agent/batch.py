"""A minibatch of n-step transitions: as arrays when it is sampled, as tensors when it is learned from."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

T = TypeVar("T")
U = TypeVar("U")


@dataclass(frozen=True)
class Batch(Generic[T]):
    """B transitions of up to N steps. Observations have the shape and type of their `ObservationSpec`."""

    observation: T
    action_B: T  # int64
    rewards_BN: T  # zero after the end of an episode
    steps_B: T  # m <= n, the number of rewards that count
    terminated_B: T  # 1.0 where the episode ended within the n steps; a truncation is 0.0 and bootstraps
    next_observation: T
    entropy_B: T  # of the policy that collected the state
    mask_BA: T | None = None  # bool, the actions that each state allows; None where the environment has no masks
    next_mask_BA: T | None = None
    weight_B: T | None = None  # in the critics' loss; None where all transitions were drawn alike
    slot_B: T | None = None  # where the replay has them; likewise

    def parts(self) -> dict[str, Any]:
        """What it consists of, by name; without those that are None."""
        return {name: part for name, part in vars(self).items() if part is not None}

    def map(self, function: Callable[[T], U]) -> "Batch[U]":
        """The same transitions with `function` applied to every part."""
        return Batch(**{name: function(part) for name, part in self.parts().items()})
