"""class DSAC: the four verbs learn, predict, save, load."""

import warnings
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from gymnasium import spaces

from dsacc.agent import Learner
from dsacc.agent.encoders import import_encoder
from dsacc.config import Config, default_preset, make_config
from dsacc.envs import Observations, check_actions, copies, env_name, frame_stack
from dsacc.envs.actions import count_actions, counted, to_env
from dsacc.envs.spaces import space_from_json, space_to_json
from dsacc.errors import ConfigError, ModelError
from dsacc.replay import Replay, memory_needed
from dsacc.runs import ModelFile, RunFolder, read_latest, read_model, write_model
from dsacc.runs.session import Unsaved
from dsacc.system.memory import free_memory
from dsacc.system.progress import Silent, Watcher, watcher
from dsacc.system.text import size
from dsacc.system.threads import using_threads
from dsacc.training.loop import Row, Trainer
from dsacc.training.session import Session
from dsacc.training.streams import Streams, sample_actions

EnvSource = gym.Env[Any, Any] | str | Callable[[], gym.Env[Any, Any]]
ALPHA_RANGE = (1e-8, 1e3)  # outside, the temperature has run away


class DSAC:
    """Discrete soft actor-critic, with an optional constraint from the critic.

    `config` holds its settings, `learner` its networks.

    >>> model = DSAC("CartPole-v1", constraint="mean", seed=0)
    >>> model.learn(200)                                                    # doctest: +ELLIPSIS
    DSAC(...)
    >>> action, _ = model.predict(np.zeros(4, np.float32), deterministic=True)
    """

    def __init__(
        self,
        env: EnvSource,
        constraint: str | None = None,
        preset: str | None = None,
        seed: int = 0,
        *,
        device: str = "cpu",
        **settings: Any,
    ) -> None:
        """`env` is a Gymnasium environment, its name, or a function that makes one; `constraint` None, "mean",
        "variance" or "both"; `settings` are the fields of `dsacc.config.Config`, laid over the preset (by default
        `efficient` for pictures, `classic` for everything else)."""
        first = _one(env)
        check_actions(first)
        observations = Observations(first.observation_space)
        preset = preset or default_preset(observations.spec.has_pictures)
        settings = {"env": env_name(first), **settings}
        config = make_config(preset, constraint=constraint, seed=seed, **settings)
        import_encoder(config.encoder)
        self.envs: list[gym.Env[Any, Any]] = [first, *copies(env, config.envs - 1)]
        self._build(config, observations, first.action_space, device)

    @property
    def env(self) -> gym.Env[Any, Any] | None:
        """The environment it learns on (the first, where there are several); None where it was loaded without one."""
        return self.envs[0] if self.envs else None

    def _build(self, config: Config, observations: Observations, actions: spaces.Space[Any], device: str) -> None:
        self.config = config
        self._action_space = actions
        self.observations = Observations(observations.space, config.picture_filter)
        self.streams = Streams.from_seed(config.seed, config.envs)
        count = count_actions(actions)
        self.learner = Learner(config, observations.spec, count, self.streams.weights, _device(device))
        self.hardened: dict[str, Any] | None = None  # how, where it is the student of `dsacc.harden`
        self._trainer: Trainer | None = None
        self._loaded_step = 0

    @property
    def actions_in_words(self) -> str:
        """How many actions it chooses from: "6", or "2 x 3" where an action has several choices."""
        return counted(self._action_space)

    @property
    def step(self) -> int:
        """How many agent steps it has learned."""
        return self._loaded_step if self._trainer is None else self._trainer.step

    def learn(
        self,
        total_steps: int,
        *,
        progress_bar: bool = False,
        out: str | Path | None = None,
        callback: Callable[[Row], None] | None = None,
        tensorboard: bool = False,
        every: "Mapping[int, Callable[[DSAC], object]] | None" = None,
        threads: int = 1,
    ) -> "DSAC":
        """Train for `total_steps` more agent steps. Writes nothing unless `out` names a run folder.

        With `out`, a run that was stopped or killed, or that should grow, continues from its last checkpoint, and
        `total_steps` counts from the run's first step. `callback` gets each row of metrics; `tensorboard` writes them
        as events too. `every={10_000: function}` calls `function(model)` at each multiple of 10,000 steps, to evaluate
        for example. A run that continues from such a step calls it there once more, in case it was interrupted.
        `threads` is the number of torch's threads during training: it changes the last bits of a result, and more than
        one is slow where cores are busy.
        """
        if isinstance(total_steps, bool) or int(total_steps) != total_steps or total_steps < 1:
            raise ConfigError(f"steps must be a whole number of at least 1, not {total_steps}")
        hooks, until = _checked(every), self.step + int(total_steps)
        folder = None if out is None else self._folder(out, until)
        if folder is not None and folder.found == "finished":
            self._take(read_latest(folder.path))
            return self
        with using_threads(threads):
            trainer = self.prepare(until)
            session = Unsaved() if folder is None else Session(folder, trainer, self.to_file, tensorboard)
            with session, closing(self._watcher(until, progress_bar)) as watch:
                listeners: list[Callable[[Row], None]] = [_AlphaWarning(), watch.row, session.log, callback or _ignore]
                if folder is not None and self.step:
                    self._call(hooks, self.step - 1)
                before = self.step
                for row in trainer.steps(until):
                    if row is not None:
                        for listener in listeners:
                            listener(row)
                    watch.step(self.step)
                    self._call(hooks, before)
                    session.after_step(before)
                    before = self.step
        return self

    def _folder(self, out: str | Path, until: int) -> RunFolder:
        if self.step > 0:
            raise ConfigError("a run folder holds a run from its first step; give out= on the first call of learn")
        return RunFolder(out, self.config, until)

    def _watcher(self, until: int, shown: bool) -> Watcher:
        return watcher(until, self.step, self.config.agent) if shown else Silent()

    def _call(self, hooks: "Mapping[int, Callable[[DSAC], object]]", before: int) -> None:
        """Every function whose step has come since step `before`."""
        for steps, function in hooks.items():
            if self.step // steps > before // steps:
                function(self)

    def prepare(self, steps: int = 1) -> Trainer:
        """Check that the replay memory of `steps` agent steps fits, allocate it, reset the environments. `learn` does
        this where it has not been done."""
        if not self.envs:
            raise ModelError("this agent was loaded without an environment; use DSAC.load(path, env=...) to train on")
        if self._trainer is None:
            c, stack = self.config, frame_stack(self.envs[0])
            _require_memory(c, self.replay_bytes(steps), free_memory(), steps, self.observations.spec.has_pictures)
            replay = Replay(
                c.replay_size,
                self.observations.spec,
                c.n_step,
                stack=stack,
                envs=c.envs,
                compression=c.replay_compression,
            )
            seen = (self.envs, self.observations)
            trainer = Trainer(c, *seen, self.learner, replay, self.streams, self._loaded_step)
            trainer.begin()
            self._trainer = trainer
        return self._trainer

    def replay_bytes(self, steps: int) -> int:
        """Memory of the replay once `steps` agent steps are stored; an upper estimate where it is compressed."""
        return memory_needed(self.config, self.observations.spec, frame_stack(self.envs[0]), steps)

    def predict(self, observation: Any, deterministic: bool = False) -> tuple[Any, None]:
        """The action for one observation, or an array of actions for a batch; and None, as there is no hidden state.

        `deterministic` takes the most probable action; otherwise actions are sampled from the policy.
        """
        logits = self.logits(observation)
        if deterministic:
            actions = logits.argmax(axis=1)
        else:
            actions = sample_actions(logits, self.streams.actions)
        chosen = actions[0] if self.observations.is_single(observation) else actions
        return to_env(self._action_space, chosen), None

    def logits(self, observation: Any) -> np.ndarray[Any, Any]:
        """The policy's logits, [B, A] in float64, also for a single observation."""
        encoded = torch.from_numpy(self.observations.encode(observation)).to(self.learner.device)
        return self.learner.policy_logits(encoded).cpu().double().numpy()

    def save(self, path: str | Path) -> Path:
        """Write the agent to `path`.safetensors: settings, networks and optimisers, not the replay memory."""
        return write_model(path, self.to_file())

    @classmethod
    def load(cls, path: str | Path, env: EnvSource | None = None, *, device: str = "cpu") -> "DSAC":
        """Read a saved agent (or a run folder's newest). Nothing in the file is executed.

        With `env` it can go on learning, with an empty replay memory.
        """
        path = Path(path)
        file = read_latest(path) if (path / "config.json").is_file() else read_model(path)
        return cls.from_file(file, env, device=device, name=str(path))

    @classmethod
    def from_file(
        cls, file: ModelFile, env: EnvSource | None = None, *, device: str = "cpu", name: str = "this file"
    ) -> "DSAC":
        """The agent that a file describes, as `load` does for a path. `name` stands for it in messages."""
        model = cls.__new__(cls)
        model.envs = [] if env is None else [_one(env), *copies(env, file.config.envs - 1)]
        observations, choices = Observations(space_from_json(file.space)), _actions(file)
        if model.envs:
            actions, there = counted(model.envs[0].action_space), Observations(model.envs[0].observation_space)
            if actions != counted(choices) or there.spec != observations.spec:
                raise ModelError(
                    f"the agent in {name} was trained on {file.config.env} with {counted(choices)} actions and "
                    f"observations {observations.described}; this environment has {actions} and {there.described}"
                )
        model._build(file.config, observations, choices, device)
        model._take(file)
        return model

    def _take(self, file: ModelFile) -> None:
        try:
            self.learner.load_state(file.tensors)
        except (KeyError, RuntimeError, ValueError) as error:
            raise ModelError(f"the saved tensors do not fit the saved settings: {error}") from error
        self._loaded_step, self._trainer, self.hardened = file.step, None, file.hardened

    def to_file(self) -> ModelFile:
        """Everything that `save` writes."""
        space = space_to_json(self.observations.space)
        plain = isinstance(self._action_space, spaces.Discrete)
        choices = None if plain else space_to_json(self._action_space)
        learned = self.learner.actions, self.step, self.learner.state()
        return ModelFile(self.config, space, *learned, self.hardened, choices)

    def __repr__(self) -> str:
        return f"DSAC({self.config.env!r}, agent={self.config.agent!r}, seed={self.config.seed}, step={self.step})"


def _ignore(row: Row) -> None:
    """The callback where there is none."""


def _checked(every: Mapping[int, Callable[[DSAC], object]] | None) -> Mapping[int, Callable[[DSAC], object]]:
    for steps in every or {}:
        if isinstance(steps, bool) or not isinstance(steps, int) or steps < 1:
            raise ConfigError(f"every needs a whole number of at least 1 steps, not {steps!r}")
    return every or {}


class _AlphaWarning:
    """Warns once when the temperature has run away."""

    def __init__(self) -> None:
        self.said = False

    def __call__(self, row: Mapping[str, Any]) -> None:
        low, high = ALPHA_RANGE
        alpha = row.get("alpha")
        if alpha is not None and not self.said and not low <= alpha <= high and alpha != 0:
            self.said = True
            warnings.warn(
                f"alpha is {alpha:.3g} at step {row['step']}, outside [{low:g}, {high:g}]: "
                "the target entropy may be out of reach; try a lower target_entropy_ratio",
                stacklevel=2,
            )


def _actions(file: ModelFile) -> spaces.Space[Any]:
    """The action space of a saved agent."""
    space = spaces.Discrete(file.actions) if file.action_space is None else space_from_json(file.action_space)
    if count_actions(space) != file.actions:
        raise ModelError(f"the saved agent has {file.actions} actions, but says that these are of {space}")
    return space


def _one(env: EnvSource) -> gym.Env[Any, Any]:
    return env if isinstance(env, gym.Env) else copies(env, 1)[0]


def _require_memory(config: Config, needed: int, free: int, steps: int, pictures: bool) -> None:
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


def _device(name: str) -> str:
    try:
        torch.empty(0, device=name)
    except (RuntimeError, AssertionError) as error:
        raise ConfigError(f"device {name!r} is not available here ({str(error).splitlines()[0]}); use cpu") from error
    return name
