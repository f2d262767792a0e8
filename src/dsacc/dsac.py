"""class DSAC: the four verbs learn, predict, save, load."""

import warnings
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, Unpack

import gymnasium as gym
import numpy as np
import torch
from gymnasium import spaces

from dsacc.agent import Learner
from dsacc.agent.encoders import import_encoder, import_stored_encoder
from dsacc.config import Config, ConstraintSetting, default_preset, make_config
from dsacc.envs import EnvSource, Observations, check_actions, copies, env_name, frame_stack
from dsacc.envs.actions import count_actions, counted, to_env
from dsacc.envs.masks import MaskReader, masks_for
from dsacc.envs.record import Record, noted, record_of
from dsacc.envs.spaces import space_to_json
from dsacc.envs.vectors import one_env
from dsacc.errors import ConfigError, ModelError
from dsacc.replay import Replay, memory_needed
from dsacc.runs import ModelFile, RunFolder, read_latest, read_saved, write_model
from dsacc.runs.session import Unsaved
from dsacc.settings import Settings
from dsacc.system.memory import free_memory
from dsacc.system.progress import Silent, Watcher, watcher
from dsacc.system.threads import using_threads
from dsacc.system.trust import trusting
from dsacc.training.checks import (
    find_device,
    only_random,
    refuse_policy,
    require_fit,
    require_memory,
    spaces_of,
    whole_steps,
)
from dsacc.training.listeners import (
    AlphaWarning,
    Callback,
    EpisodeLines,
    Every,
    Hook,
    Listener,
    as_hooks,
    as_listeners,
    wants_to_stop,
)
from dsacc.training.loop import Trainer
from dsacc.training.parameters import checked_parameters
from dsacc.training.session import Session
from dsacc.training.streams import Streams, best_actions, sample_actions


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
        constraint: ConstraintSetting | None = None,
        preset: str | None = None,
        seed: int = 0,
        *,
        device: str = "cpu",
        **settings: Unpack[Settings],
    ) -> None:
        """`env` is a Gymnasium environment, its name, its class, or a function that makes one; `constraint` None,
        "mean", "variance" or "both"; `settings` are the fields of `dsacc.config.Config`, laid over the preset (by
        default `efficient` for pictures, `classic` for everything else). `device` "auto" is cuda where there is one."""
        refuse_policy(env, settings)
        first = one_env(env)
        check_actions(first)
        observations = Observations(first.observation_space)
        if (note := observations.note()) is not None:
            warnings.warn(note, stacklevel=2)
        preset = preset or default_preset(observations.spec.has_pictures)
        config = make_config(preset, constraint=constraint, seed=seed, **{"env": env_name(first), **settings})
        import_encoder(config.encoder)
        self.envs: list[gym.Env[Any, Any]] = [first, *copies(env, config.envs - 1)]
        self._build(config, observations, first.action_space, device)

    @property
    def env(self) -> gym.Env[Any, Any] | None:
        """The environment it learns on (the first, where there are several); None where it was loaded without one."""
        return self.envs[0] if self.envs else None

    @property
    def environment(self) -> Record | None:
        """What it learns on, or was trained on (see `dsacc.envs.record`); None where nobody noted it."""
        return record_of(self.envs[0]) if self.envs else self._environment

    def _build(self, config: Config, observations: Observations, actions: spaces.Space[Any], device: str) -> None:
        self.config = config
        self._action_space = actions
        self.observations = Observations(observations.space, config.picture_filter)
        self.streams = Streams.from_seed(config.seed, config.envs)
        count = count_actions(actions)
        self.learner = Learner(config, observations.spec, count, self.streams.weights, find_device(device))
        self.hardened: dict[str, Any] | None = None  # how, where it is the student of `dsacc.harden`
        self._trainer: Trainer | None = None
        self._session = Unsaved()
        self._loaded_step = self._counted_from = 0
        self._environment: Record | None = None
        self.origin = "this agent"  # what messages call the file that it came from

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
        total_timesteps: int,
        callback: Callback = None,
        *,
        log_interval: int | None = None,
        reset_num_timesteps: bool = True,
        progress_bar: bool = False,
        out: str | Path | None = None,
        tensorboard: bool = False,
        every: Every | None = None,
        threads: int = 1,
    ) -> "DSAC":
        """Train for `total_timesteps` more agent steps. Writes nothing unless `out` names a run folder.

        With `out`, a run that was stopped or killed, or that should grow, continues from its last checkpoint, and
        `total_timesteps` counts from the run's first step. `tensorboard` writes its rows of metrics as events too.

        `callback` gets each row of metrics (every `log_every` steps); it may be a list of functions.
        `every={10_000: function}` calls `function(model)` at each multiple of 10,000 steps, to test for example. A
        run that continues from such a step calls it there once more, in case it was interrupted. Where one of them
        returns False the run stops after this step. It is saved, and another call goes on.

        `log_interval` prints a line after so many episodes. `reset_num_timesteps` starts `num_timesteps` from 0;
        schedules and files follow `step`, which it leaves alone. `threads` is the number of torch's threads during
        training: it changes the last bits of a result, and more than one is slow where cores are busy.
        """
        listeners, hooks, lines = as_listeners(callback), as_hooks(every), EpisodeLines(log_interval)
        until = self.step + whole_steps(total_timesteps)
        if tensorboard and out is None:
            raise ConfigError('TensorBoard events go into a run folder; give one: learn(..., out="runs/mine")')
        folder = None if out is None else self._folder(out, until)
        if reset_num_timesteps:
            self._counted_from = self.step
        if folder is not None and folder.found == "finished":
            self._take(read_latest(folder.path))
            return self
        if until <= self.config.random_steps:
            warnings.warn(only_random(until, self.config.random_steps), stacklevel=2)
        with using_threads(threads):
            trainer = self.prepare(until)
            self._session = Unsaved() if folder is None else Session(folder, trainer, self.to_file, tensorboard)
            with self._session as session, closing(self._watcher(until, progress_bar)) as watch:
                told: list[Listener] = [AlphaWarning(), watch.row, session.log, *listeners]
                going = folder is None or not self.step or self._call(hooks, self.step - 1)
                before = self.step
                for row in trainer.steps(until) if going else ():
                    answers = [] if row is None else [tell(row) for tell in told]
                    lines(trainer.ended)
                    watch.step(self.step)
                    going = self._call(hooks, before) and not any(map(wants_to_stop, answers))
                    session.after_step(before)
                    before = self.step
                    if not going:
                        break
                if self.step < until:
                    session.stop()
        return self

    def record(self, values: Mapping[str, float]) -> None:
        """Write numbers of your own at this step into the run's TensorBoard events, where `learn` writes any. For
        functions of `every`: `model.record({"test/snow": 12.5})`."""
        self._session.record(values)

    def _folder(self, out: str | Path, until: int) -> RunFolder:
        if self.step > 0:
            raise ConfigError("a run folder holds a run from its first step; give out= on the first call of learn")
        return RunFolder(out, self.config, until, environment=self.environment)

    def _watcher(self, until: int, shown: bool) -> Watcher:
        fast = self.config.random_steps
        return watcher(until, self.step, self.config.agent, fast=fast) if shown else Silent()

    def _call(self, hooks: Mapping[int, Sequence[Hook]], before: int) -> bool:
        """Every function whose step has come since step `before`. False where one of them wants to stop."""
        due = [hook for steps, some in hooks.items() if self.step // steps > before // steps for hook in some]
        answers = [hook(self) for hook in due]  # all of them are called
        return not any(map(wants_to_stop, answers))

    def prepare(self, steps: int = 1) -> Trainer:
        """Check that the replay memory of `steps` agent steps fits, allocate it, reset the environments. `learn` does
        this where it has not been done."""
        if not self.envs:
            raise ModelError("this agent was loaded without an environment; use DSAC.load(path, env=...) to train on")
        if self._trainer is None:
            c, stack = self.config, frame_stack(self.envs[0])
            require_memory(c, self.replay_bytes(steps), free_memory(), steps, self.observations.spec.has_pictures)
            replay = Replay(
                c.replay_size,
                self.observations.spec,
                c.most_steps,
                stack=stack,
                envs=c.envs,
                compression=c.replay_compression,
                priority_exponent=c.priority_exponent,
                priority_correction=c.priority_correction,
            )
            seen = (self.envs, self.observations)
            trainer = Trainer(c, *seen, self.learner, replay, self.streams, self._loaded_step)
            trainer.begin()
            self._trainer = trainer
        return self._trainer

    def replay_bytes(self, steps: int) -> int:
        """Memory of the replay once `steps` agent steps are stored; an upper estimate where it is compressed."""
        first, actions = self.envs[0], self.learner.actions
        masked = actions if MaskReader(first, actions).has_method else 0  # masks in `info` are not known before a reset
        return memory_needed(self.config, self.observations.spec, frame_stack(first), steps, masked)

    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = False,
        action_masks: Any = None,
    ) -> tuple[Any, None]:
        """The action for one observation, or an array of actions for a batch; and None, as there is no hidden state.

        `deterministic` takes the most probable action; otherwise actions are sampled from the policy. `state` and
        `episode_start` are there for callers who pass them to any agent; this one has no memory. `action_masks`, one
        bool per action or a batch of these, says which actions are allowed, as in sb3-contrib.
        """
        if isinstance(state, bool | np.bool_):  # predict(observation, True)
            deterministic = bool(state)
        logits = self.logits(observation)
        masks = masks_for(action_masks, *logits.shape)
        if deterministic:
            actions = best_actions(logits, masks)
        else:
            actions = sample_actions(logits, self.streams.actions, masks)
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
    def load(
        cls, path: str | Path, env: EnvSource | None = None, *, device: str = "cpu", trust: bool = False
    ) -> "DSAC":
        """Read a saved agent (or a run folder's newest). Nothing in the file is executed.

        Where its encoder is one of your own, `MODULE:name`, import that module first: it is not imported because a file
        names it, unless you `trust` the file.

        With `env` it can go on learning, with an empty replay memory.
        """
        with trusting(trust):
            return cls.from_file(read_saved(path), env, device=device, name=str(Path(path)))

    @classmethod
    def from_file(
        cls, file: ModelFile, env: EnvSource | None = None, *, device: str = "cpu", name: str = "this file"
    ) -> "DSAC":
        """The agent that a file describes, as `load` does for a path. `name` stands for it in messages."""
        import_stored_encoder(file.config.encoder, name)
        model = cls.__new__(cls)
        model.envs = [] if env is None else [one_env(env), *copies(env, file.config.envs - 1)]
        observations, choices = spaces_of(file, name)
        if model.envs:
            require_fit(model.envs[0], f"the agent in {name}", file.config.env, observations, choices)
        model._build(file.config, observations, choices, device)
        model._take(file)
        model.origin = name
        return model

    def _take(self, file: ModelFile) -> None:
        try:
            self.learner.load_state(file.tensors)
        except (KeyError, RuntimeError, ValueError) as error:
            raise ModelError(f"the saved tensors do not fit the saved settings: {error}") from error
        self._loaded_step, self._trainer, self.hardened = file.step, None, file.hardened
        self._environment = file.environment

    def to_file(self) -> ModelFile:
        """Everything that `save` writes."""
        space, tensors = space_to_json(self.observations.space), self.learner.state()
        plain = isinstance(self._action_space, spaces.Discrete)
        about = (self.hardened, noted(self.environment), None if plain else space_to_json(self._action_space))
        return ModelFile(self.config, space, self.learner.actions, self.step, tensors, *about)

    def __repr__(self) -> str:
        return f"DSAC({self.config.env!r}, agent={self.config.agent!r}, seed={self.config.seed}, step={self.step})"

    # --- what Stable-Baselines3 users look for ---

    @property
    def observation_space(self) -> gym.Space[Any]:
        """The environment's observation space. A loaded agent without an environment has lost the bounds of a Box."""
        return self.observations.space if self.env is None else self.env.observation_space

    @property
    def action_space(self) -> gym.Space[Any]:
        """The environment's action space."""
        return self._action_space if self.env is None else self.env.action_space

    @property
    def device(self) -> torch.device:
        """Where the networks are."""
        return self.learner.device

    @property
    def num_timesteps(self) -> int:
        """Agent steps since the last `learn` that reset the count, as it does by default; `step` counts all."""
        return self.step - self._counted_from

    def get_parameters(self) -> dict[str, torch.Tensor]:
        """A copy of everything learned, by name: networks, temperature, optimisers."""
        return {name: tensor.detach().clone() for name, tensor in self.learner.state().items()}

    def set_parameters(self, parameters: Mapping[str, torch.Tensor] | str | Path, exact_match: bool = True) -> None:
        """Take over what `get_parameters` gave, or what a saved agent holds. Without `exact_match` some will do: the
        others, and all moments of the optimisers that are not given, stay as they are."""
        given = read_saved(parameters).tensors if isinstance(parameters, str | Path) else parameters
        self.learner.load_state(checked_parameters(given, self.learner.state(), exact_match))

    def get_env(self) -> gym.Env[Any, Any] | None:
        """The environment it learns on, as Gymnasium has it: one, not a vector of them."""
        return self.env

    def set_env(self, env: EnvSource) -> None:
        """Learn on in another environment with the same spaces. Episodes in progress are cut off; the replay stays."""
        envs = [one_env(env), *copies(env, self.config.envs - 1)]
        require_fit(envs[0], "this agent", self.config.env, self.observations, self._action_space)
        if self._trainer is not None and frame_stack(envs[0]) != self._trainer.replay.stack:
            raise ModelError(
                f"the replay memory holds stacks of {self._trainer.replay.stack} pictures, and this environment shows "
                f"{frame_stack(envs[0])}; save the agent and use DSAC.load(path, env=...)"
            )
        self.envs = envs
        self.config, self._environment = replace(self.config, env=env_name(envs[0])), None
        if self._trainer is not None:
            self._trainer.change_envs(envs)
