"""An environment's state as plain data, so that a killed run continues in the middle of an episode.

It works for Gymnasium's classic control and toy text, for many of its wrappers, and for every environment or wrapper
that is `dsacc.envs.protocol.Saveable`.
"""

import time
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
from gymnasium import Env, Wrapper, wrappers
from gymnasium.envs.classic_control import AcrobotEnv, CartPoleEnv, MountainCarEnv
from gymnasium.envs.toy_text import BlackjackEnv, CliffWalkingEnv, FrozenLakeEnv, TaxiEnv

from dsacc.errors import EnvError, RunError
from dsacc.system.packing import flatten, unflatten

State = dict[str, Any]
Check = Callable[[Any, Any], bool]  # can the owner of an attribute (1st) have this value (2nd)?


def save_env(env: Env[Any, Any]) -> State | None:
    """Everything that an environment's next steps and resets depend on, or None where that cannot be known."""
    try:
        return _save(env)
    except EnvError:
        return None


def why_not(env: Env[Any, Any]) -> str | None:
    """Why `save_env` gives None, as half a sentence; None where it gives a state."""
    try:
        _save(env)
    except EnvError as reason:
        return str(reason)
    return None


def load_env(env: Env[Any, Any], state: State) -> None:
    """Continue from what `save_env` gave, in a new environment of the same kind. After a RunError it needs a reset."""
    try:
        _load(env, state)
    except RunError:
        raise
    except Exception as error:  # a foreign state may fail anywhere; the emulator, for one, raises a SystemError
        raise RunError(f"the saved state does not fit {_kind(env)} ({_name(error)}: {error})") from error


def _save(env: Any) -> State:
    layers = [(layer, _kept(layer)) for layer in _layers(env)]
    base = layers[-1][0]
    own = [[_name(layer), _own_state(layer, kept)] for layer, kept in layers]
    rng = getattr(base._np_random, "bit_generator", None)
    if base._np_random is not None and type(rng) is not np.random.PCG64:
        raise EnvError(f"{_name(base)} does not draw from Gymnasium's random generator")
    drawn = {"np_random": rng and rng.state, "np_random_seed": base._np_random_seed}
    state: State = unflatten(*flatten({"kind": _kind(env), "layers": own, **drawn}))  # a copy: lists change in place
    return state


def _own_state(layer: Any, kept: dict[str, Check] | None) -> State:
    if kept is None:
        try:
            return dict(layer.state())
        except Exception as error:
            raise EnvError(f"state() of {_name(layer)} failed ({_name(error)}: {error})") from error
    out = {}
    for name, fits in kept.items():
        value = getattr(layer, name, None)
        out[name] = list(value) if isinstance(value, deque) else value
        if not fits(layer, out[name]):
            raise EnvError(f"{_name(layer)} has " + ("not been reset" if value is None else f"an unusual {name}"))
    return out


def _load(env: Any, state: State) -> None:
    arrays, plain = flatten(state)
    layers, state = _layers(env), unflatten(arrays, plain)  # a copy, which the environment may keep
    here, there = [_kind(env), *map(_name, layers)], [state["kind"], *(name for name, _ in state["layers"])]
    if here != there:
        raise RunError(f"the saved state is of {' < '.join(map(str, there))}, and not of {' < '.join(here)}")
    for layer, (_, values) in reversed(list(zip(layers, state["layers"], strict=True))):
        kept = _kept(layer)
        if kept is None:
            layer.load_state(values)
        for name in kept or ():
            old = getattr(layer, name, None)
            setattr(layer, name, deque(values[name], old.maxlen) if isinstance(old, deque) else values[name])
        if isinstance(layer, wrappers.RecordEpisodeStatistics):
            layer.episode_start_time = time.perf_counter()  # the clock of the earlier process means nothing here
        if isinstance(layer, wrappers.PassiveEnvChecker):  # it would compare with an observation it has not seen
            layer.checked_reset = layer.checked_step = layer.checked_data_reuse = True
    base, drawn = layers[-1], state["np_random"]
    if drawn is not None:
        base.np_random.bit_generator.state = drawn  # in place: others may hold this generator
    base._np_random, base._np_random_seed = drawn and base.np_random, state["np_random_seed"]
    now, skeleton = flatten(_save(env))  # which looks at each value, too
    bits = [[(x.dtype, x.shape, x.tobytes()) for x in some.values()] for some in (arrays, now)]
    if plain != skeleton or bits[0] != bits[1]:
        raise RunError(f"the saved state does not fit {_kind(env)}: it is not the same after loading")


def _layers(env: Any) -> list[Any]:  # from the outermost wrapper to the environment itself
    if not isinstance(env, Env):
        raise EnvError(f"{_name(env)} is not a single Gymnasium environment")
    layers: list[Any] = [env]
    while isinstance(layers[-1], Wrapper):
        layers.append(layers[-1].env)
    return layers


def _kept(layer: Any) -> dict[str, Check] | None:
    """What exactly this class keeps (a subclass may keep more), or None where it is Saveable itself."""
    cls, name = type(layer), _name(layer)
    if callable(getattr(cls, "state", None)) and callable(getattr(cls, "load_state", None)):  # CartPole's is an array
        return None
    if cls in _KEPT:
        return _KEPT[cls]
    if isinstance(layer, Wrapper):
        raise EnvError(f"the wrapper {name} is not known")
    physics = cls.__module__.startswith(("gymnasium.envs.box2d", "gymnasium.envs.mujoco"))
    raise EnvError(name + (" keeps its state in a physics engine" if physics else " has no state() and load_state()"))


def _name(thing: Any) -> str:
    return type(thing).__name__


def _kind(env: Any) -> str:  # one class can be many games
    base = getattr(env, "unwrapped", env)
    return str(base.spec.id if getattr(base, "spec", None) else getattr(base, "name", _name(base)))


def _number(_: Any, x: Any) -> bool:
    return isinstance(x, int | float | np.integer | np.floating)


def _reals(count: int) -> Check:  # a tuple or an array: MountainCar keeps the one after a step, the other after a reset
    return lambda _, x: type(x) in (tuple, np.ndarray) and np.shape(x) == (count,) and bool(np.isfinite(x).all())


_GRID: dict[str, Check] = {
    "s": lambda env, x: x in env.observation_space,
    "lastaction": lambda env, x: x is None or x in env.action_space,
}
# What each class keeps between steps, by Gymnasium's source.
_KEPT: dict[type, dict[str, Check]] = {
    CartPoleEnv: {"state": _reals(4), "steps_beyond_terminated": lambda _, x: x is None or _number(_, x)},
    AcrobotEnv: {"state": _reals(4)},
    MountainCarEnv: {"state": _reals(2)},
    **dict.fromkeys((FrozenLakeEnv, CliffWalkingEnv), _GRID),
    TaxiEnv: _GRID | {"fickle_step": lambda _, x: isinstance(x, bool | np.bool_), "taxi_orientation": _number},
    BlackjackEnv: {f"dealer_top_card_{what}": lambda _, x: isinstance(x, str) for what in ("suit", "value_str")}
    | {who: lambda _, x: isinstance(x, list) and set() < set(x) <= set(range(1, 11)) for who in ("dealer", "player")},
    wrappers.TimeLimit: {"_elapsed_steps": _number},
    wrappers.OrderEnforcing: {"_has_reset": lambda _, x: isinstance(x, bool)},
    wrappers.FrameStackObservation: {
        "obs_queue": lambda env, x: len(x) == env.stack_size and all(y in env.env.observation_space for y in x)
    },
    wrappers.RecordEpisodeStatistics: {f"episode_{what}": _number for what in ("count", "returns", "lengths")}
    | {f"{what}_queue": lambda _, x: all(_number(_, y) for y in x) for what in ("time", "return", "length")},
    # Without memory. TransformObservation and TransformReward are not among them: their function may have one.
    **{getattr(wrappers, name): {} for name in ("ClipReward", "PassiveEnvChecker")},
    **{getattr(wrappers, name + "Observation"): {} for name in ("Dtype", "Filter", "Flatten", "Grayscale")},
    **{getattr(wrappers, name + "Observation"): {} for name in ("Rescale", "Reshape", "Resize")},
}
