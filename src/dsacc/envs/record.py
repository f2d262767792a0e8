"""What an agent was trained on, as plain data: a name alone does not tell which wrappers and settings were there."""

import hashlib
from collections.abc import Mapping
from typing import Any

import gymnasium as gym
from gymnasium import spaces, wrappers

from dsacc.envs.atari import Atari
from dsacc.envs.copying import layers_of, only_records
from dsacc.system.plain import as_json_has_it

Env = gym.Env[Any, Any]
Record = dict[str, Any]


def record_of(env: Env) -> Record:
    """`id` is the name to make it by (None where there is none), `class` its class with its module, `wrappers` their
    names, the outermost first, `settings` the arguments that are not those of its name, `spaces` a hash.

    What Gymnasium's `make` puts around every environment does not count, and neither do wrappers that only record.

    >>> record_of(gym.wrappers.ClipReward(gym.make("CartPole-v1", sutton_barto_reward=True), -1, 1))
    ... # doctest: +NORMALIZE_WHITESPACE
    {'id': 'CartPole-v1', 'class': 'gymnasium.envs.classic_control.cartpole:CartPoleEnv', 'wrappers': ['ClipReward'],
     'settings': {'sutton_barto_reward': True}, 'spaces': '...'}
    """
    *around, base = layers_of(env)
    spec = env.spec
    name = base.name if isinstance(base, Atari) else spec.id if spec is not None else None
    usual = gym.registry.get(spec.id) if spec is not None else None
    settings = base.settings if isinstance(base, Atari) else _settings(spec, usual)
    limit = usual.max_episode_steps if usual is not None else None
    return {
        "id": name,
        "class": f"{type(base).__module__}:{type(base).__qualname__}",
        "wrappers": [label for label in (_label(layer, limit) for layer in around) if label],
        "settings": as_json_has_it(settings, _word),
        "spaces": _hash(env),
    }


def needs_more_than_a_name(record: Mapping[str, Any]) -> bool:
    """Whether its name alone may make another environment."""
    return record["id"] is None or bool(record["wrappers"]) or bool(record["settings"])


def noted(record: Record | None) -> Record | None:
    """What a saved agent notes: the record where a name is not enough, else nothing."""
    return record if record is not None and needs_more_than_a_name(record) else None


def is_record(content: Any) -> bool:
    """Whether it has the form of a record: it may come from a file of anyone's."""
    if not isinstance(content, dict):
        return False
    texts = all(isinstance(content.get(key), str) for key in ("class", "spaces"))
    names, settings = content.get("wrappers"), content.get("settings")
    lists = isinstance(names, list) and all(isinstance(name, str) for name in names) and isinstance(settings, dict)
    return texts and lists and isinstance(content.get("id"), str | None)


def is_other_game(there: Mapping[str, Any], here: Mapping[str, Any]) -> bool:
    """Whether two records are of environments that differ in class, wrappers or settings. A class may have moved to
    another module."""
    classes = [record["class"].rpartition(":")[2] for record in (there, here)]
    return classes[0] != classes[1] or any(there[key] != here[key] for key in ("wrappers", "settings"))


def in_words(record: Mapping[str, Any]) -> str:
    """`CartPole-v1 with TransformObservation, gravity 20`, `plain CartPole-v1`, `the class Maze of my_module`."""
    module, _, name = record["class"].partition(":")
    settings = [f"{key} {value}" for key, value in record["settings"].items()]
    parts = [*record["wrappers"], *settings]
    first = record["id"] or f"the class {name} of {module}"
    if parts:
        return f"{first} with {', '.join(parts)}"
    return first if record["id"] is None else f"plain {first}"


def _label(layer: Env, limit: int | None) -> str:
    """The name of a wrapper that counts; empty for the others."""
    if type(layer) in (wrappers.OrderEnforcing, wrappers.PassiveEnvChecker) or only_records(layer):
        return ""
    if type(layer) is wrappers.TimeLimit:
        steps = layer._max_episode_steps
        return "" if steps == limit else f"TimeLimit {steps}"
    return type(layer).__qualname__


def _settings(spec: Any, usual: Any) -> dict[str, Any]:
    known = {} if usual is None else usual.kwargs
    given = {} if spec is None else spec.kwargs
    return {key: value for key, value in given.items() if key != "render_mode" and not _same(known, key, value)}


def _same(known: Mapping[str, Any], key: str, value: Any) -> bool:
    return key in known and repr(known[key]) == repr(value)  # repr: arrays have no single answer to ==


def _word(thing: Any) -> str:
    """For an argument that JSON does not have."""
    return str(getattr(thing, "__qualname__", type(thing).__qualname__))


def _hash(env: Env) -> str:
    parts = []
    for space in (env.observation_space, env.action_space):
        bounds = [space.low, space.high] if isinstance(space, spaces.Box) else []  # its repr shortens them
        parts += [repr(space).encode(), *(array.tobytes() for array in bounds)]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]
