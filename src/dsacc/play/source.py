"""Which environment an agent is tested in: the one that was given, the one that it learned on, or the one of that name.

A name alone may make another environment than the agent was trained on. Then nothing is played unless it was asked for.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gymnasium as gym

from dsacc.envs import EnvSource, maker, require_env
from dsacc.envs.copying import can_play_together
from dsacc.envs.record import in_words, is_other_game, record_of
from dsacc.errors import ConfigError, EnvError
from dsacc.play.adapters import Player
from dsacc.play.adapters.base import origin_of
from dsacc.system.trust import trusting

Env = gym.Env[Any, Any]

GIVE = (
    "give --env with a name that makes it, MODULE:Id-v0 for one of your own (in Python: env=, also an environment, its "
    "class, or a function that makes one)"
)


@dataclass(frozen=True)
class Source:
    """Where environments for tests come from."""

    make: Callable[[], Env]
    name: str | None = None  # where they are made by name
    alone: bool = False  # only one game at a time
    lent: bool = False  # the user's own, which is not closed


def find_source(
    player: Player, env: EnvSource | None, together: bool = False, by_name: bool = False, trust: bool = False
) -> Source:
    """Where the environments for this player come from. With `together`, several must be able to play at once. With
    `by_name`, the name comes before the environment that it learned on. A name that comes with the player may be from a
    file, so it imports no module unless `trust` says so."""
    if env is not None:
        return _given(env, together)
    lived_in: Env | None = getattr(player, "lived_in", None)
    if lived_in is not None and not (by_name and player.env):
        try:
            return _copies(lived_in, together)
        except EnvError as error:
            raise EnvError(f"the environment of this agent can only be played by itself: {error}; {GIVE}") from error
    if player.env is None:
        raise ConfigError(f"{player.agent} does not say which environment it plays; give --env (in Python: env=)")
    record: dict[str, Any] | None = getattr(player, "environment", None)
    if record is not None and record["id"] is None:
        raise EnvError(f"this agent was trained on {in_words(record)}, which has no name to make it by; {GIVE}")
    with trusting(trust):
        require_env(player.env, origin_of(player))
    return Source(maker(player.env), player.env)


def _given(env: EnvSource, together: bool) -> Source:
    if not isinstance(env, gym.Env):
        return Source(maker(env), env if isinstance(env, str) else None)
    try:
        return _copies(env, together)
    except EnvError:
        if together:
            raise
        return Source(lambda: env, alone=True, lent=True)


def _copies(env: Env, together: bool) -> Source:
    make = maker(env)
    alone = not can_play_together(make)  # an EnvError says why it cannot be copied
    if alone and together:
        raise EnvError(
            f"copies of {in_words(record_of(env))} do not play alike when they are played in turn: they share "
            "something, or follow no seed; give a function that makes one"
        )
    return Source(make, alone=alone)


def check_same(player: Player, env: Env, asked_for: bool) -> None:
    """Compare an environment with what the agent was trained on.

    Another class, another wrapper or other settings are refused. Where the user asked for this environment
    (`asked_for`), they are a warning. Nothing is said where the two have different names: the rows say it.
    """
    there: dict[str, Any] | None = getattr(player, "environment", None)
    if there is None:
        return
    here = record_of(env)
    if not is_other_game(there, here):
        if there["id"] == here["id"] and there["spaces"] != here["spaces"]:
            warnings.warn(f"the spaces of {here['id']} are not those that this agent was trained with", stacklevel=3)
        return
    told, shown = (in_words(record) for record in (there, here))
    if told == shown:
        told, shown = (f"{record['id']} of {record['class']}" for record in (there, here))
    if not asked_for:
        raise EnvError(f"this agent was trained on {told}, and the name {player.env!r} makes {shown}; {GIVE}")
    if there["id"] == here["id"] and (here["id"] is not None or there["class"] == here["class"]):
        warnings.warn(f"this agent was trained on {told}, and is tested on {shown}", stacklevel=3)
