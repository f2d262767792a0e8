"""Models of Stable-Baselines3: DQN, PPO and A2C, and QR-DQN and MaskablePPO from sb3-contrib."""

import zipfile
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from gymnasium import spaces

from dsacc.errors import BadInput, ModelError, Untrusted, first_line
from dsacc.play.adapters.base import Player, Rngs, check_spaces, choose, fingerprint_of, laid_out, need
from dsacc.system.plain import MAX_BYTES, parse_json
from dsacc.system.text import size
from dsacc.system.trust import is_trusted
from dsacc.system.types import Array

MODULES = {
    **dict.fromkeys(("DQN", "PPO", "A2C"), "stable_baselines3"),
    **dict.fromkeys(("QRDQN", "MaskablePPO"), "sb3_contrib"),
}
SUPPORTED = "DQN, PPO, A2C, QR-DQN and MaskablePPO"


class SB3Player(Player):
    """A Stable-Baselines3 model, in memory or from its file.

    Greedy is `model.predict(observation, deterministic=True)`. MaskablePPO is given the masks of its environment, as
    its `predict(..., action_masks=...)` is. Sampled draws from the policy of PPO, A2C and MaskablePPO; DQN and
    QR-DQN take a random action with probability `model.exploration_rate`, as their `predict` does. All draws come from
    the generators of `act`. What a VecNormalize did to observations is not in the model's file and is not repeated. Nor
    does the file say which environment the model was trained on.
    """

    def __init__(self, model: Any) -> None:
        names = [base.__name__ for base in type(model).__mro__]
        self.algorithm = next((name for name in names if name in MODULES), "")
        if not self.algorithm:
            raise ModelError(f"a {names[0]} of Stable-Baselines3 cannot be evaluated; {SUPPORTED} can")
        self.agent, self.takes_masks = f"sb3:{self.algorithm}", self.algorithm == "MaskablePPO"
        self.model, self.train_seed, self.step = model, model.seed, int(model.num_timesteps)
        space, actions = model.observation_space, model.action_space
        if not isinstance(actions, spaces.Discrete) or isinstance(space, (spaces.Dict, spaces.Tuple)):
            raise ModelError(
                f"{self.agent} needs Discrete actions and one array as observation, not {actions}, {space}"
            )
        self.actions = int(actions.n)
        self.shape = tuple(space.shape or ())

    @classmethod
    def load(cls, path: str | Path, *, trust: bool = False, device: str = "cpu") -> "SB3Player":
        """From a file of `model.save`. Only with `trust`, since reading the file can execute code in it."""
        path = _existing(Path(path))
        if not trust and not is_trusted():
            raise Untrusted(
                f"{path} is a Stable-Baselines3 file: it holds pickles, and reading these executes any code in them; "
                "if you trust where the file comes from, add --trust (in Python: trust=True)"
            )
        algorithm = algorithm_of(path)
        need("stable_baselines3", "sb3")
        kind = getattr(need(MODULES[algorithm], "sb3"), algorithm)
        try:
            player = cls(kind.load(path, device=device, custom_objects=_FOR_PLAY))
        except BadInput:
            raise
        except Exception as error:  # anything may go wrong in another version's pickles
            raise ModelError(f"{path} cannot be loaded as a {algorithm} ({first_line(error)})") from error
        player.fingerprint = fingerprint_of([path.read_bytes()])
        return player

    def check_fits(self, env: gym.Env[Any, Any]) -> None:
        check_spaces(self.agent, env, self.actions, self.shape, self.model.observation_space.dtype)

    @property
    def has_policy(self) -> bool:
        """Whether its scores are logits of a policy, and not values."""
        return self.algorithm not in ("DQN", "QRDQN")

    def act(self, observations: Array, rngs: Rngs, greedy: bool, masks: Array | None = None) -> Array:
        scores_BA = self.scores(observations)
        if greedy or self.has_policy:
            return choose(scores_BA, rngs, greedy, masks)
        epsilon, pairs = float(self.model.exploration_rate), zip(scores_BA.argmax(axis=1), rngs, strict=True)
        return np.array([rng.integers(self.actions) if rng.random() < epsilon else best for best, rng in pairs])

    @torch.no_grad()
    def scores(self, observations: Array) -> Array:
        """The logits of PPO, A2C and MaskablePPO, the Q-values of DQN and QR-DQN, [B, A] in float64."""
        policy = self.model.policy
        policy.set_training_mode(False)
        seen = torch.as_tensor(self._as_trained(observations), device=policy.device)
        if self.algorithm == "DQN":
            scores_BA = policy.q_net(seen)
        elif self.algorithm == "QRDQN":
            scores_BA = policy.quantile_net(seen).mean(dim=1)  # [B, quantiles, A]
        else:
            scores_BA = policy.get_distribution(seen).distribution.logits
        return np.asarray(scores_BA.cpu().double())

    def _as_trained(self, observations: Array) -> Array:
        """In the model's layout and type. Bytes are scaled to [0, 1] where the highest value of its space is 1."""
        seen, space = laid_out(observations, self.shape, self.agent), self.model.observation_space
        scaled = isinstance(space, spaces.Box) and space.dtype != np.uint8 and space.high.max() <= 1
        return (seen / 255 if scaled and seen.dtype == np.uint8 else seen).astype(space.dtype, copy=False)


# Replaced while loading: memory and schedules that only training needs. A schedule is often a pickled function, which
# another version of Python cannot read. A replay buffer of the usual size for Atari would take 50 GB.
_FOR_PLAY: dict[str, Any] = {
    **dict.fromkeys(("lr_schedule", "exploration_schedule", "tensorboard_log", "ep_info_buffer")),
    **dict.fromkeys(("_last_obs", "_last_original_obs", "_last_episode_starts")),
    **dict.fromkeys(("buffer_size", "n_steps", "n_envs"), 1),
    "optimize_memory_usage": False,
    "learning_rate": 0.0,
    "clip_range": 0.2,
}


def _unzipped(file: zipfile.ZipFile, name: str) -> bytes:
    """A part of an archive, unless it is larger than any text that we read: a small archive can hold terabytes."""
    if file.getinfo(name).file_size > MAX_BYTES:
        raise ValueError(f"its part {name!r} is larger than {size(MAX_BYTES)}")
    return file.read(name)


def algorithm_of(path: Path) -> str:
    """The algorithm, told from the names of the settings in the file. Nothing is unpickled."""
    try:
        with zipfile.ZipFile(path) as file:
            data = parse_json(_unzipped(file, "data"), finite=False)
        settings, policy = set(data), str(data["policy_class"].get("__module__", ""))
    except (OSError, zipfile.BadZipFile, KeyError, ValueError, AttributeError, TypeError) as error:
        raise ModelError(f"{path} is not a file that Stable-Baselines3 saved ({first_line(error)})") from error
    if "exploration_fraction" in settings:
        return "QRDQN" if "n_quantiles" in settings else "DQN"
    special = "recurrent" in policy or "cg_max_steps" in settings  # TRPO
    if not special and "gae_lambda" in settings:
        if "maskable" in policy:
            return "MaskablePPO"
        return "PPO" if "clip_range" in settings else "A2C"
    raise ModelError(f"{path} holds a model that cannot be evaluated; {SUPPORTED} can")


def _existing(path: Path) -> Path:
    """The file, also where its name was given without `.zip`, as Stable-Baselines3 allows."""
    for candidate in (path, path.with_name(path.name + ".zip")):
        if candidate.is_file():
            return candidate
    raise ModelError(f"there is no file {path}")
