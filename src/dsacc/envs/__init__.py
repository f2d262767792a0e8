"""Environments by name, and what a discrete agent may expect of them."""

from collections.abc import Callable
from typing import Any

import gymnasium as gym

from dsacc.envs import checked
from dsacc.envs.atari import Atari, display_name, find_game, game_names
from dsacc.envs.copying import copy_of
from dsacc.envs.protocol import StacksFrames
from dsacc.envs.spaces import Observations, action_names, batch_size, check_actions, stacked
from dsacc.errors import DsaccError, EnvError
from dsacc.system.extras import how_to_install
from dsacc.system.imports import import_here, named_folder
from dsacc.system.text import nearest
from dsacc.system.trust import require

__all__ = [
    "EnvSource",
    "Observations",
    "action_names",
    "batch_size",
    "check_actions",
    "copies",
    "env_name",
    "frame_stack",
    "make_env",
    "maker",
    "require_env",
    "stacked",
]

Env = gym.Env[Any, Any]
EnvSource = Env | str | Callable[[], Env]  # an environment, its name, its class, or a function that makes one
NEAR = 0.6  # of 1: a suggestion less like what was asked for would mislead


def make_env(name: str, **kwargs: Any) -> Env:
    """An environment by name: an Atari game (`Breakout`, `ALE/Breakout-v5`), one of MinAtar's (`minatar/Breakout`), or
    a Gymnasium id (`CartPole-v1`).

    `module:Id-v0` first imports the module that registers the id; it may be in the current folder. So give it names of
    your own, never one that was read from a file (see `require_env`). Atari games come
    ready for the network, with the settings of `dsacc.envs.atari.Atari`. The error for an unknown name suggests the
    nearest known one.
    """
    if _is_atari(name):
        return Atari(name, **kwargs)
    module, colon, _ = name.rpartition(":")
    if colon:
        absent = f"{name!r} needs the module {module!r}, which is neither in this folder nor installed"
        import_here(module, absent, EnvError)
    try:
        with named_folder():  # the class may be in another module than the id
            return gym.make(name, **kwargs)
    except gym.error.DependencyNotInstalled as error:
        raise EnvError(f"{name} needs a package that is not installed: {error}") from error
    except gym.error.Error as error:
        if checked.own_frames(error.__traceback__):  # the environment itself raised it
            raise checked.not_made(name, error) from error
        raise EnvError(_unknown(name)) from error
    except ModuleNotFoundError as error:
        raise EnvError(f"{name!r} needs the module {error.name!r}, which is not installed") from error
    except DsaccError:
        raise
    except Exception as error:
        raise checked.not_made(name, error) from error


def _is_atari(name: str) -> bool:
    """Whether it names a game and not another environment: Blackjack-v1 is Gymnasium's, Blackjack is Atari's."""
    registered = gym.registry.get(name)
    elsewhere = registered is not None and not str(registered.entry_point).startswith("ale_py")
    return not elsewhere and find_game(name) is not None


def _unknown(name: str) -> str:
    games = [display_name(rom) for rom in game_names().values()]
    ids = [name for name, spec in gym.registry.items() if not str(spec.entry_point).startswith("ale_py")]
    if "/" not in name:  # Breakout means Atari's, also where its emulator is not installed
        ids = [known for known in ids if not known.startswith("minatar/")]
    asked, candidates = name.lower(), [*ids, *games]
    if name.startswith("ALE/"):
        asked, candidates = asked.removeprefix("ale/").split("-v")[0], games
    near = {candidate.lower(): candidate for candidate in candidates}
    found = nearest(asked, near, NEAR)
    hint = f"; did you mean {near[found]!r}?" if found else ""
    if not games and ("-v" not in name or name.startswith("ALE/")):
        hint += f"; if it is an Atari game, its emulator is not installed: `{how_to_install('atari')}` installs it"
    elif not found and ":" not in name:
        hint = "; name one of your own as MODULE:Id-v0, with the module that registers it (for a saved run: --env)"
    return f"there is no environment {name!r}{hint}"


def env_name(env: Env) -> str:
    """The name to make an environment with again: a game's name, the id it was made with, or else its class's name."""
    if isinstance(env.unwrapped, Atari):
        return env.unwrapped.name
    return env.spec.id if env.spec is not None else type(env.unwrapped).__name__


def frame_stack(env: Env) -> int:
    """How many pictures an observation stacks, where it is a window that slides by one picture per step; else 1.

    This is known of environments with `frame_stack` (our Atari) and of Gymnasium's FrameStackObservation as the
    outermost wrapper. Then one picture per step is stored instead of all.
    """
    if isinstance(env, gym.wrappers.FrameStackObservation):
        padded_with_the_first = getattr(env, "padding_type", None) == "reset"
        return int(env.stack_size) if padded_with_the_first and Observations(env.observation_space).is_image else 1
    if isinstance(env.observation_space, gym.spaces.Dict):
        return 1  # rows of several parts are stored whole
    if env.observation_space.shape != env.unwrapped.observation_space.shape:
        return 1  # a wrapper has changed the window
    base = env.unwrapped
    return int(base.frame_stack) if isinstance(base, StacksFrames) else 1


def require_env(name: str, file: str) -> None:
    """Allow `make_env(name)` for a name that was read from `file`. Where the name has a module that the user has not
    named, and nobody trusts the file, an error says what would be imported from where."""
    require(name, "environment", file, "--env {name}", "env={name!r}")


def maker(source: EnvSource) -> Callable[[], Env]:
    """A function that makes environments: by name, by calling a class or function, or as copies of the one given."""
    if isinstance(source, str):
        return lambda: make_env(source)
    if isinstance(source, gym.Env):
        return lambda: copy_of(source)
    if callable(source):
        return lambda: _made_by(source)
    raise EnvError(
        f"a {type(source).__name__} is no environment: give a Gymnasium environment, its name, its class, or a "
        "function that makes one"
    )


def _made_by(function: Callable[[], Any]) -> Env:
    name = getattr(function, "__qualname__", type(function).__name__)
    made = checked.make(function, name)
    if not isinstance(made, gym.Env):
        raise EnvError(f"{name} made a {type(made).__name__}, not a Gymnasium environment")
    return made


def copies(source: EnvSource, count: int) -> list[Env]:
    """`count` more environments like this one."""
    make = maker(source)
    try:
        return [make() for _ in range(count)]
    except EnvError as error:
        if not isinstance(source, gym.Env):
            raise
        raise EnvError(f"{error}; for several environments give a name or a function that makes one") from error
