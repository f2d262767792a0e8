"""What can be evaluated: our agents, two controls, and policies of others."""

import re
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import gymnasium as gym

from dsacc.dsac import DSAC
from dsacc.envs import EnvSource, check_actions, maker
from dsacc.errors import ConfigError, ModelError
from dsacc.play.adapters.base import Player
from dsacc.play.adapters.function import CallablePlayer, find_function
from dsacc.play.adapters.onnx_file import OnnxPlayer
from dsacc.play.adapters.players import Agent, BlindPlayer, OwnPlayer, RandomPlayer
from dsacc.play.adapters.sb3 import SB3Player
from dsacc.runs.model_file import with_suffix
from dsacc.system.trust import trusting

__all__ = [
    "BlindPlayer",
    "CallablePlayer",
    "OnnxPlayer",
    "OwnPlayer",
    "Player",
    "RandomPlayer",
    "SB3Player",
    "as_player",
    "find_player",
]

OTHERS = {".zip": "sb3", ".onnx": "onnx"}  # what files of other libraries end with, and how they are named here
FUNCTION = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")


def find_player(spec: str, *, env: EnvSource | None = None, trust: bool = False, device: str = "cpu") -> Player:
    """A player by name: `random`, `blind:NAME` (another player that sees nothing), `sb3:FILE`, `onnx:FILE`,
    `package.module:function`, or the path of a run folder or saved agent. A path comes before a module of that name.

    `env` is the environment to be played: itself, its name, its class, or a function that makes one. Our own agents
    know theirs. `trust` allows files to choose code: `sb3:` files hold pickles, and a saved agent may name the module
    of its encoder.
    """
    with trusting(trust):
        return _find(spec, env, device)


def _find(spec: str, env: EnvSource | None, device: str) -> Player:
    kind, _, rest = spec.partition(":")
    if spec == "random":
        return _random(env)
    if kind in ("blind", "sb3", "onnx") and not rest:
        raise ConfigError(f"{spec!r} names no agent; write {kind}:{'RUN' if kind == 'blind' else 'FILE'}")
    if kind == "blind":
        return BlindPlayer(_find(rest, env, device))
    player: Player
    if kind == "sb3":
        player = SB3Player.load(Path(rest).expanduser(), device=device)
    elif kind == "onnx":
        player = OnnxPlayer(Path(rest).expanduser())
    elif FUNCTION.fullmatch(spec) and not Path(spec).exists() and not with_suffix(spec).exists():
        player = find_function(spec)
    else:
        _require_own(spec)
        player = OwnPlayer(DSAC.load(spec, device=device))
    if env is None and player.env is None:
        raise ConfigError(f"{spec} does not say which environment it plays; give --env (in Python: env=)")
    return player


def as_player(source: Any, *, env: EnvSource | None = None, trust: bool = False, device: str = "cpu") -> Player:
    """A player from what a Python user has: a DSAC, a Stable-Baselines3 model, a function, a player, or a name that
    `find_player` knows."""
    if isinstance(source, (str, Path)):
        return find_player(str(source), env=env, trust=trust, device=device)
    if isinstance(source, Player):
        return source
    if isinstance(source, Agent):
        return OwnPlayer(source)
    if _is_sb3(source):
        return SB3Player(source)
    if callable(source):
        return CallablePlayer(source)
    raise ConfigError(
        f"a {type(source).__name__} cannot be evaluated: give a DSAC, a Stable-Baselines3 model, a function of "
        "observations, or a name such as 'random' or 'onnx:FILE'"
    )


def _is_sb3(source: Any) -> bool:
    """Whether it is a model of Stable-Baselines3, which is not imported for this: who holds a model has done so."""
    module = sys.modules.get("stable_baselines3.common.base_class")
    return module is not None and isinstance(source, module.BaseAlgorithm)


def _require_own(spec: str) -> None:
    """Tell who names a file of another library how that is written here."""
    path = Path(spec)
    for file in (path, *(path.with_name(path.name + ending) for ending in OTHERS)):
        if file.suffix in OTHERS and file.is_file() and not path.is_dir() and not with_suffix(path).exists():
            kind = OTHERS[file.suffix]
            what = "a file of Stable-Baselines3" if kind == "sb3" else "an ONNX graph"
            raise ModelError(f"{file} looks like {what}; write {kind}:{file}")


def _random(env: EnvSource | None) -> RandomPlayer:
    if env is None:
        raise ConfigError("random needs an environment to play; give --env (in Python: env=)")
    if isinstance(env, gym.Env):
        return RandomPlayer(check_actions(env))
    with closing(maker(env)()) as made:
        return RandomPlayer(check_actions(made))
