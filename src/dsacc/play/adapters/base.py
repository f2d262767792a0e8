"""What a player is, and what players share: how actions are chosen, and the order of a picture's axes."""

import hashlib
import importlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol, runtime_checkable

import gymnasium as gym
import numpy as np

from dsacc.envs import check_actions
from dsacc.envs.actions import counted
from dsacc.errors import ConfigError, ModelError
from dsacc.system.extras import how_to_install
from dsacc.system.types import Array
from dsacc.training.streams import best_actions, sample_actions

Rngs = Sequence[np.random.Generator]


@runtime_checkable
class Player(Protocol):
    """What can be evaluated."""

    agent: str  # the name in a row: dsac-m, random, sb3:DQN, onnx:FILE, package.module:function
    train_seed: int | None = None
    step: int | None = None  # agent steps of its training
    env: str | None = None  # the environment it was trained on, where that is known
    fingerprint: str | None = None  # equal for equal policies only; None where that cannot be told

    def check_fits(self, env: gym.Env[Any, Any]) -> None:
        """Raise a ModelError that says why this environment cannot be played. Called once, before the first `act`."""
        ...

    def act(self, observations: Array, rngs: Rngs, greedy: bool) -> Array:
        """Actions [B] for raw observations [B, ...]. Action i depends on observation i and draws from rngs[i] only.

        A player whose `takes_masks` is True is also given `masks`, bool [B, A], where the environment has them.
        """
        ...


def takes_masks(player: Player) -> bool:
    """Whether it chooses among allowed actions where an environment says which these are."""
    return bool(getattr(player, "takes_masks", False))


def origin_of(player: Player) -> str:
    """What messages call the file that names its environment."""
    return str(getattr(player, "origin", player.agent))


def act_among(player: Player, observations: Array, rngs: Rngs, greedy: bool, masks: Array | None) -> Array:
    """The player's actions, among the allowed ones where there are masks and it takes them."""
    if masks is None or not takes_masks(player):
        return player.act(observations, rngs, greedy)
    chosen: Array = player.act(observations, rngs, greedy, masks=masks)  # type: ignore[call-arg]
    return chosen


def choose(scores_BA: Array, rngs: Rngs, greedy: bool, masks: Array | None = None) -> Array:
    """The best action of each row, or one drawn from softmax(scores) with the row's own generator. [B, A] -> [B].
    With `masks` [B, A] only among those that are allowed."""
    if greedy:
        return best_actions(scores_BA, masks)
    masks_B = [None] * len(scores_BA) if masks is None else list(masks)
    rows = zip(scores_BA, rngs, masks_B, strict=True)
    return np.array([int(sample_actions(row_A, rng, mask_A)) for row_A, rng, mask_A in rows])


def actions_from(
    answer: Any, count: int, actions: int | None, who: str, rngs: Rngs, greedy: bool, masks: Array | None = None
) -> Array:
    """Actions [B] from the answer of a policy that is not ours: whole numbers [B], which are taken as they are, or
    scores [B, A] as floats."""
    checked = checked_answer(answer, count, actions, who)
    return checked if checked.ndim == 1 else choose(checked, rngs, greedy, masks)


def scores_from(answer: Any, count: int, actions: int, who: str) -> Array:
    """Scores [B, A] from the answer of a policy that is not ours. An action is a score of 0 among scores of -30."""
    checked = checked_answer(answer, count, actions, who)
    return checked if checked.ndim == 2 else np.where(np.arange(actions) == checked[:, None], 0.0, -30.0)


def checked_answer(answer: Any, count: int, actions: int | None, who: str) -> Array:
    """The answer of a policy that is not ours: actions [B] in int64, or scores [B, A] in float64."""
    result = np.asarray(answer)
    wanted = f"{count} actions as whole numbers, or scores of shape ({count}, {actions or 'actions'}) as floats"
    if np.issubdtype(result.dtype, np.integer) and result.shape in ((count,), (count, 1)):
        result = result.reshape(count)
        wrong = result[(result < 0) | (result >= (np.inf if actions is None else actions))]
        if len(wrong):
            known = "are counted from 0" if actions is None else f"are 0 to {actions - 1}"
            raise ModelError(f"{who} chose action {wrong[0]}, but this environment's actions {known}")
        return result.astype(np.int64)
    is_score = np.issubdtype(result.dtype, np.floating) and result.ndim == 2 and len(result) == count
    if not is_score or (actions is not None and result.shape[1] != actions):
        raise ModelError(f"{who} answered {result.dtype} of shape {result.shape}; it must answer {wanted}")
    if np.isnan(result).any():
        raise ModelError(f"{who} answered NaN, from which no action can be chosen")
    return result.astype(np.float64)


def check_action_count(who: str, actions: int | str, env: gym.Env[Any, Any]) -> None:
    """`actions` may be the number of combinations, or the choices in words ("2 x 3")."""
    there: int | str = check_actions(env) if isinstance(actions, int) else counted(env.action_space)
    if actions != there:
        raise ModelError(
            f"{who} has {actions} actions and this environment {there}; it was made for another environment"
        )


def layout(shape: tuple[int, ...], wanted: tuple[int, ...]) -> Callable[[Array], Array] | None:
    """A function that turns observations [B, *shape] into [B, *wanted]; None where they differ in more than layout.

    Pictures go from channel-first to channel-last and back, and an axis of length one is added or removed.

    >>> layout((4, 84, 84), (84, 84, 4))(np.zeros((16, 4, 84, 84))).shape
    (16, 84, 84, 4)
    """
    if shape == wanted:
        return lambda x: x
    if len(shape) == 3 and shape[1:] + shape[:1] == wanted:
        return lambda x: np.moveaxis(x, 1, -1)
    if len(shape) == 3 and shape[-1:] + shape[:-1] == wanted:
        return lambda x: np.moveaxis(x, -1, 1)
    if [n for n in shape if n != 1] == [n for n in wanted if n != 1]:
        return lambda x: x.reshape(len(x), *wanted)
    return None


def check_spaces(who: str, env: gym.Env[Any, Any], actions: int | None, shape: Any, dtype: Any) -> None:
    """Raise a ModelError where a policy of so many actions that sees this shape (None: any) and type cannot play."""
    if actions is not None:
        check_action_count(who, actions, env)
    space = env.observation_space
    there = tuple(space.shape or ())
    if shape is not None and layout(there, shape) is None:
        raise _other_shape(who, shape, there)
    if dtype == np.uint8 and space.dtype != np.uint8:
        raise ModelError(f"{who} sees uint8; this environment shows {space.dtype}")


def _other_shape(who: str, wanted: tuple[int, ...], there: tuple[int, ...]) -> ModelError:
    return ModelError(f"{who} sees observations of shape {wanted}; this environment shows {there}")


def laid_out(observations: Array, wanted: tuple[int, ...], who: str) -> Array:
    """The batch in the layout that this policy sees. Raises a ModelError with both shapes where there is none."""
    convert = layout(observations.shape[1:], wanted)
    if convert is None:
        raise _other_shape(who, wanted, observations.shape[1:])
    return np.ascontiguousarray(convert(observations))


def fingerprint_of(parts: Iterable[bytes]) -> str:
    """Sixteen hex digits of a hash of everything a policy is made of."""
    return hashlib.sha256(b"".join(parts)).hexdigest()[:16]


def need(module: str, extra: str) -> Any:
    """An optional package. Raises a ConfigError that says what to install where it is missing."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise ConfigError(f"this needs the package {error.name}; `{how_to_install(extra)}` installs it") from error
