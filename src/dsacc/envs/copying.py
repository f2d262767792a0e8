"""A second environment like one that exists: with its wrappers, its settings, and what these have learned."""

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import gymnasium as gym
from gymnasium import wrappers
from gymnasium.utils.env_checker import data_equivalence

from dsacc.errors import EnvError, first_line

Env = gym.Env[Any, Any]
TRIED = 25  # steps: what two copies share shows within these, if it shows at all

_RECORDERS = (
    wrappers.RecordEpisodeStatistics,
    wrappers.RecordVideo,
    wrappers.RenderCollection,
    wrappers.HumanRendering,
)


def layers_of(env: Env) -> list[Env]:
    """The wrappers from the outermost to the innermost, then the environment itself."""
    layers = [env]
    while isinstance(layers[-1], gym.Wrapper):
        layers.append(layers[-1].env)
    return layers


def only_records(layer: Env) -> bool:
    """Whether a wrapper changes nothing about the game: it counts, films or shows."""
    monitor = f"{type(layer).__module__}.{type(layer).__name__}" == "stable_baselines3.common.monitor.Monitor"
    return type(layer) in _RECORDERS or monitor


def copy_of(env: Env) -> Env:
    """Another environment like this one, which is left as it is. Wrappers that only record are left out: a copy makes
    no videos.

    Each layer is copied with what it holds, so that running means and changed attributes come along. An environment
    that cannot be copied, because it holds an engine say, is made again by Gymnasium with the same arguments. An
    EnvError says what stands in the way.
    """
    layers, memo = layers_of(env), dict[int, Any]()
    wanted = [type(layer) for layer in layers if not only_records(layer)]
    for layer in reversed(layers):
        try:
            if layer is layers[-1]:
                memo[id(layer)] = base = _base(layer)
                base.spec = base.spec or layer.spec  # some classes (EzPickle) are copied by making them again
            elif only_records(layer):
                memo[id(layer)] = memo[id(layer.env)]  # type: ignore[attr-defined]
            else:
                memo[id(layer)] = copy.deepcopy(layer, memo)  # the layers beneath are in the memo: they are not copied
        except Exception as error:  # foreign code may fail anywhere
            raise EnvError(f"{type(layer).__name__} cannot be copied ({first_line(error)})") from error
    made: Env = memo[id(env)]
    same = [type(layer) for layer in layers_of(made)] == wanted and made.observation_space == env.observation_space
    if not same or made.action_space != env.action_space:
        raise EnvError(f"a copy of {type(env).__name__} is not like it")
    return made


def _base(env: Env) -> Env:
    """The environment without wrappers: copied, or else made again from its specification. A window is never copied."""
    if env.render_mode != "human":
        try:
            return copy.deepcopy(env)
        except Exception:
            if env.spec is None:
                raise
    if env.spec is None:
        raise EnvError("it shows itself in a window")
    kwargs = {k: v for k, v in env.spec.kwargs.items() if (k, v) != ("render_mode", "human")}
    alone: dict[str, Any] = {"additional_wrappers": (), "max_episode_steps": None}
    alone |= {"order_enforce": False, "disable_env_checker": True}
    return gym.make(replace(env.spec, kwargs=kwargs, **alone)).unwrapped


def can_play_together(make: Callable[[], Env]) -> bool:
    """Whether two copies that are played in turn see what one alone sees.

    Copies of a wrapper with a function share what that function remembers. An environment that follows no seed cannot
    show whether they do, so it counts as one that shares. What Gymnasium and dsacc wrote is known not to.
    """
    first = make()
    try:
        if all(_is_known(layer) for layer in layers_of(first)):
            return True
        others = [make(), make()]
        try:
            alone, (one, two) = _films([first]), _films(others)
            return bool(data_equivalence(alone[0], one)) and bool(data_equivalence(one, two))
        finally:
            for env in others:
                env.close()
    except Exception:  # it may refuse actions drawn at random, for example
        return False
    finally:
        first.close()


def _is_known(layer: Env) -> bool:
    return type(layer).__module__.startswith(("gymnasium.", "dsacc.")) and not any(map(callable, vars(layer).values()))


def _films(envs: list[Env]) -> list[list[Any]]:
    """What each environment shows when all are played in turn with the same seed and the same actions."""
    actions = copy.deepcopy(envs[0].action_space)
    actions.seed(0)
    films: list[list[Any]] = [[copy.deepcopy(env.reset(seed=0)[0])] for env in envs]  # some fill one array again
    for _ in range(TRIED):
        action, over = actions.sample(), False
        for env, film in zip(envs, films, strict=True):
            observation, reward, terminated, truncated, _ = env.step(action)
            film += [copy.deepcopy(observation), float(reward), bool(terminated), bool(truncated)]
            over |= bool(terminated or truncated)
        if over:
            break
    return films
