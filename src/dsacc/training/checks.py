"""What is checked before a run begins, or a saved agent is built: that its memory fits, that its device is there."""

from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import torch
from gymnasium import spaces

from dsacc.agent.encoders import find_encoder
from dsacc.agent.networks import numbers_to_act
from dsacc.config import Config
from dsacc.envs import Observations
from dsacc.envs.actions import count_actions, counted
from dsacc.envs.spaces import space_from_json
from dsacc.errors import BadInput, ConfigError, ModelError, first_line
from dsacc.runs import ModelFile
from dsacc.settings import answer, is_policy_name
from dsacc.system.text import size


def refuse_policy(env: object, settings: Mapping[str, object]) -> None:
    """Answer a call as Stable-Baselines3 has it, DSAC("MlpPolicy", env, buffer_size=...), before anything is made."""
    if is_policy_name(env):
        raise ConfigError(f"DSAC takes no policy such as {env!r}: it chooses its network by the observation; DSAC(env)")
    for name in settings:
        if said := answer(name):
            raise ConfigError(said)


def whole_steps(steps: int) -> int:
    """A number of agent steps to learn."""
    if isinstance(steps, bool) or int(steps) != steps or steps < 1:
        raise ConfigError(f"steps must be a whole number of at least 1, not {steps}")
    return int(steps)


def only_random(steps: int, random_steps: int) -> str:
    """A sentence for a run that ends before it learns."""
    return (
        f"all {steps:,} steps are random play and nothing is learned: learning begins after random_steps = "
        f"{random_steps:,}; train for more steps, or lower random_steps"
    )


def require_memory(config: Config, needed: int, free: int, steps: int, pictures: bool) -> None:
    """Refuse a run whose replay does not fit, before it starts, and say what would fit."""
    if needed <= free:
        return
    ways = [f"replay_size {int(min(config.replay_size, steps) * 0.9 * free / needed):,}"]
    if pictures and config.replay_compression == "none":
        ways.append("replay_compression lz4 (4 to 30 times smaller on Atari)")
    raise ConfigError(
        f"the replay memory of {min(config.replay_size, steps):,} steps needs {size(needed)}, and only "
        f"{size(free)} are free; use {' or '.join(ways)}"
    )


def require_fit(env: gym.Env[Any, Any], who: str, trained_on: str, seen: Observations, actions: gym.Space[Any]) -> None:
    """Refuse an environment whose spaces are not those that the agent knows."""
    here, there = counted(env.action_space), Observations(env.observation_space)
    if here != counted(actions) or (there.spec != seen.spec and not seen.are_flat(there)):
        raise ModelError(
            f"{who} was trained on {trained_on} with {counted(actions)} actions and observations {seen.described}; "
            f"this environment has {here} and {there.described}"
        )


def find_device(name: str) -> str:
    """The device of that name; "auto" is cuda where there is one, else cpu."""
    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.empty(0, device=name)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        if name.partition(":")[0] not in ("cpu", "cuda", "mps"):  # torch lists everything that it was ever built for
            reason = "there are cpu, cuda and mps"
        raise ConfigError(f"device {name!r} is not available here ({reason}); use cpu") from error
    return name


def spaces_of(file: ModelFile, name: str) -> tuple[Observations, spaces.Space[Any]]:
    """What a saved agent sees and how it acts. Nothing is allocated that is larger than the file allows."""
    try:
        observations, choices = Observations(space_from_json(file.space)), _actions(file)
        held = sum(tensor.numel() for tensor in file.tensors.values())
        many = file.config.hidden_layers > len(file.tensors) + 1_000
        known = find_encoder(file.config.encoder) is None  # the size of a user's own is not known here
        if many or (known and numbers_to_act(file.config, observations.spec, file.actions) > held):
            raise ModelError(f"the tensors in {name} do not fit its settings, which are of larger networks")
    except BadInput:
        raise
    except Exception as error:  # a file may say anything, and Gymnasium, NumPy and torch each refuse in their own way
        raise ModelError(f"{name} does not say what its agent sees and does ({first_line(error)})") from error
    return observations, choices


def _actions(file: ModelFile) -> spaces.Space[Any]:
    """The action space of a saved agent."""
    space = spaces.Discrete(file.actions) if file.action_space is None else space_from_json(file.action_space)
    if count_actions(space) != file.actions:
        raise ModelError(f"the saved agent has {file.actions} actions, but says that these are of {space}")
    return space
