"""Named settings, and how settings are laid over them."""

from dataclasses import fields
from typing import Any

from dsacc.config.run import Config
from dsacc.errors import ConfigError
from dsacc.settings import answer
from dsacc.system.text import nearest

_EFFICIENT_1: dict[str, Any] = {
    "random_steps": 2_000,
    "replay_size": 100_000,
    "batch_size": 32,
    "clip_rewards": True,
    "lost_life_ends": True,
    "augment_shift": 4,
    "encoder": "compact",
    "shared_trunk": True,
    "rescale_features": True,
    "hidden": 256,
    "learning_rate": 1e-4,
    "actor_learning_rate": 1e-3,
    "grad_clip": 10.0,
    "critic_loss": "huber",
    "target_tau": 0.005,
    "average_policy": True,
    "alpha": 0.01,
}

PRESETS: dict[str, dict[str, Any]] = {
    # Small problems with vector observations, such as CartPole.
    "classic": {},
    # The paper's Atari setting. What the paper leaves open is taken from CleanRL.
    "paper": {
        "random_steps": 20_000,
        "replay_size": 1_000_000,
        "train_every": 4,
        "n_step": 1,
        "clip_rewards": True,
        "lost_life_ends": True,
        "hidden": 512,
        "learning_rate": 3e-4,
        "adam_eps": 1e-4,
        "target_tau": 1.0,
        "target_every": 8_000,
        "target_entropy_ratio": 0.89,
        "critic_entropy": 1.0,
        "log_every": 2_000,
    },
    # The same for MinAtar's small pictures and short runs. docs/minatar.md says what differs, and why.
    "paper-minatar": {
        "random_steps": 2_000,
        "replay_size": 100_000,
        "batch_size": 32,
        "train_every": 4,
        "n_step": 1,
        "clip_rewards": True,
        "lost_life_ends": True,
        "encoder": "cells",
        "hidden": 128,
        "learning_rate": 1e-3,
        "adam_eps": 1e-4,
        "target_tau": 1.0,
        "target_every": 800,
        "initial_alpha": 0.1,
        "target_entropy_ratio": 0.3,
        "critic_entropy": 1.0,
        "log_every": 1_000,
    },
    # Pixels from little data: one shared encoder, several-step returns, critics without the entropy bonus, and a small
    # fixed temperature: the policy becomes certain by itself as the values of actions move apart.
    "efficient": _EFFICIENT_1,
    # The same under a name that keeps it when `efficient` changes. Studies use this one.
    "efficient-1": _EFFICIENT_1,
}

# Presets whose settings may change, and the names that keep the earlier ones, the newest first. What was written before
# a change means one of these.
EARLIER = {"efficient": ("efficient-1",)}


def present_presets() -> dict[str, dict[str, Any]]:
    """The presets without the names that keep settings as they were."""
    kept = {name for names in EARLIER.values() for name in names}
    return {name: preset for name, preset in PRESETS.items() if name not in kept}


def default_preset(pictures: bool) -> str:
    """The preset where none is named: `efficient` for pictures, `classic` for everything else."""
    return "efficient" if pictures else "classic"


def make_config(preset: str = "classic", **settings: Any) -> Config:
    """A preset with settings laid over it. An unknown name is an error that names the nearest known one."""
    if preset not in PRESETS:
        raise ConfigError(f"unknown preset {preset!r}; choose {', '.join(PRESETS)}")
    known = [f.name for f in fields(Config)]
    for name in settings:
        if name not in known:
            if said := answer(name):
                raise ConfigError(said)
            near = nearest(name, known)
            raise ConfigError(f"unknown setting {name!r}" + (f"; did you mean {near!r}?" if near else ""))
    return Config(**{**PRESETS[preset], **settings})
