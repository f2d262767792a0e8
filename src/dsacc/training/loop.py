"""The loop: act, store, learn, log. Its whole state is in `Trainer`, its randomness in `Streams`."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import gymnasium as gym
import numpy as np
import torch

from dsacc.agent import Batch, Learner
from dsacc.agent.augment import shifted
from dsacc.agent.constraints import with_current_keys
from dsacc.agent.parts import with_pictures
from dsacc.agent.schedule import greedy_at, n_step_at, reset_is_due
from dsacc.config import Config
from dsacc.envs import Observations, checked
from dsacc.envs.masks import MaskReader, stacked_masks
from dsacc.envs.saving import load_env, save_env, why_not
from dsacc.errors import ConfigError, EnvError
from dsacc.replay import Replay
from dsacc.shifts import Augmenter
from dsacc.system.types import Array
from dsacc.training.streams import GENERATORS, Streams, best_actions, random_actions, reset_weights, sample_actions

Row = dict[str, Any]


class Meter:
    """Means of what the updates report, since the last row."""

    def __init__(self) -> None:
        self.sums: dict[str, float] = {}
        self.count = 0

    def add(self, values: dict[str, torch.Tensor]) -> None:
        for name, value in values.items():
            self.sums[name] = self.sums.get(name, 0.0) + value.item()
        self.count += 1

    def take(self) -> dict[str, float]:
        means = {name: total / self.count for name, total in self.sums.items()}
        self.sums, self.count = {}, 0
        return means


class Trainer:
    """One run in progress. Several environments are stepped together, one after the other."""

    def __init__(
        self,
        config: Config,
        envs: Sequence[gym.Env[Any, Any]],
        observations: Observations,
        learner: Learner,
        replay: Replay,
        streams: Streams,
        step: int = 0,
    ) -> None:
        self.config, self.envs, self.observations = config, envs, observations
        self.learner, self.replay, self.streams = learner, replay, streams
        self.step = step
        self.updates = 0
        self.episodes = 0
        self.returns_E = [0.0] * len(envs)  # of the episodes in progress
        self.finished_returns: list[float] = []
        self.lengths_E: list[int | None] = [0] * len(envs)  # likewise; None where an older checkpoint did not keep it
        self.ended: list[Row] = []  # the episodes that ended in the last pass of the loop
        self.meter = Meter()
        self.seen_E: list[Array] = []  # the newest observation of each environment
        self.masks_E: list[Array | None] = []  # the actions that it allows; None where there are no masks
        self._readers_E = [MaskReader(env, learner.actions) for env in envs]
        self._can_learn = False
        self._augmenter = None if config.augment_pictures == "none" else self._make_augmenter()

    def _make_augmenter(self) -> Augmenter:
        """For stacks as the replay hands them out. Where it puts them together, it knows the channels of a picture."""
        replay, name = self.replay, self.config.augment_pictures
        channels = None if replay.stack == 1 else 3 if replay.channels % 3 == 0 else 1
        try:
            return Augmenter((name,), self.observations.spec.shape, channels)
        except ConfigError as error:
            raise ConfigError(f"augment_pictures {name} is not possible here: {error}") from error

    def begin(self) -> None:
        """Reset the environments to the first states of the run. These tell whether there are masks."""
        first_E = [self._reset(e, seed) for e, seed in enumerate(self.streams.env_seeds)]
        self.seen_E, self.masks_E = [seen for seen, _ in first_E], [mask for _, mask in first_E]
        masked_E = [mask is not None for mask in self.masks_E]
        if any(masked_E) and not all(masked_E):
            raise EnvError("some of the environments give action masks and others do not; give them all or none")
        self.replay.keep_masks(self.learner.actions if any(masked_E) else 0)

    def _reset(self, e: int, seed: int | None = None) -> tuple[Array, Array | None]:
        """The first observation of an episode, and its mask."""
        observation, info = checked.reset(self.envs[e], seed)
        return self._see(observation), self._readers_E[e].read(info)

    def steps(self, until: int) -> Iterator[Row | None]:
        """Continue to agent step `until`. Between two steps of the loop, where everything is consistent, it yields a
        row of metrics if one is due (every `log_every` steps, and at the end), else None."""
        c = self.config
        while self.step < until:
            before, self.ended = self.step, []
            self.collect(min(len(self.envs), until - self.step))
            self._reset_networks(before)
            for step in range(before + 1, self.step + 1):  # updates per step do not depend on how many are collected
                if step % c.train_every == 0 and self.ready():
                    for _ in range(c.updates):
                        self.learn()
                if step % c.target_every == 0 and self.updates:
                    self.learner.update_targets()
            due = self.step // c.log_every > before // c.log_every or self.step == until
            yield self.row() if due else None

    def _reset_networks(self, before: int) -> None:
        """Where a reset is due at one of the steps since `before`, before anything is learned at them."""
        for step in range(before + 1, self.step + 1):
            if reset_is_due(self.config, step):
                self.learner.reset(reset_weights(self.config.seed, step))

    def collect(self, count: int) -> None:
        """One agent step in each of the first `count` environments, stored."""
        masks = stacked_masks(self.masks_E[:count]) if self.replay.actions else None
        actions_E, entropies_E = self.act(np.stack(self.seen_E[:count]), masks)
        for e, (action, entropy) in enumerate(zip(actions_E, entropies_E, strict=True)):
            self._collect_one(e, int(action), float(entropy))

    def _collect_one(self, e: int, action: int, entropy: float) -> None:
        observation, reward, terminated, truncated, info = checked.step(self.envs[e], action, self.step + 1)
        self.step += 1
        learned = float(np.sign(reward)) if self.config.clip_rewards else reward
        lost = self.config.lost_life_ends and bool(info.get("life_lost", False))
        seen, over = self._see(observation), terminated or truncated
        mask = None if terminated else self._readers_E[e].read(info)
        self.replay.add(
            self.seen_E[e],
            action,
            learned,
            terminated or lost,
            truncated,
            seen,
            entropy,
            goes_on=not over,
            env=e,
            mask=self.masks_E[e],
            next_mask=mask,
        )
        self.returns_E[e] += reward
        length = self.lengths_E[e] = None if (n := self.lengths_E[e]) is None else n + 1
        if over:
            self.finished_returns.append(self.returns_E[e])
            self.ended.append({"step": self.step, "return": self.returns_E[e], "length": length})
            self.episodes += 1
            self.returns_E[e], self.lengths_E[e] = 0.0, 0
            seen, mask = self._reset(e)
        self.seen_E[e], self.masks_E[e] = seen, mask

    def act(self, seen: Array, masks: Array | None = None) -> tuple[Array, Array]:
        """Actions of the policy (uniform during the random steps) and its entropies, for a batch of observations. With
        `masks` [B, A] both are over the allowed actions."""
        actions, count = self.learner.actions, len(seen)
        if self.step < self.config.random_steps:
            if masks is not None:
                return random_actions(masks, self.streams.actions), np.log(masks.sum(axis=1))
            return self.streams.actions.integers(actions, size=count), np.full(count, math.log(actions))
        logits = self.learner.policy_logits(self._tensor(seen)).cpu().double().numpy()
        allowed = logits if masks is None else np.where(masks, logits, -np.inf)
        weights = np.exp(allowed - allowed.max(axis=1, keepdims=True))
        pi = weights / weights.sum(axis=1, keepdims=True)
        entropies = -(pi * np.log(np.maximum(pi, 1e-300))).sum(axis=1)
        if greedy_at(self.config, self.step):
            return best_actions(logits, masks), entropies
        return sample_actions(logits, self.streams.actions, masks), entropies

    def ready(self) -> bool:
        """Whether the random steps are over and at least one whole transition is stored."""
        if not self._can_learn and self.step > self.config.random_steps:
            self._can_learn = self.replay.can_sample()
        return self._can_learn

    def learn(self) -> None:
        """One update from a minibatch."""
        n = n_step_at(self.config, self.step)
        sampled = self.replay.sample(self.config.batch_size, self.streams.batches, n)
        if self.config.augment_shift and self.observations.spec.has_pictures:
            sampled = self._moved(sampled)
        augmented = self._augmented(sampled.observation)
        noise = torch.from_numpy(self.streams.noise.standard_normal(self.learner.noise_shape()))
        self.meter.add(self.learner.update(sampled.map(self._tensor), noise, self.step, augmented))
        if sampled.slot_B is not None and self.learner.error_B is not None:
            self.replay.learned(sampled.slot_B, self.learner.error_B.cpu().numpy())
        self.updates += 1

    def _augmented(self, observations: Array) -> torch.Tensor | None:
        """The first states of a minibatch, strongly changed, if asked for; all its pictures may be mixed into them."""
        if self._augmenter is None:
            return None
        first = observations[: self.config.augmented_states]
        return self._tensor(self._augmenter(first, observations, self.streams.augmentation))

    def _moved(self, batch: Batch[Array]) -> Batch[Array]:
        """The minibatch with its pictures shifted at random, before and after the steps independently."""
        pixels, rng = self.config.augment_shift, self.streams.augmentation

        def moved(observations: Array) -> Array:
            spec = self.observations.spec
            if spec.kind == "dict":
                return with_pictures(observations, spec, lambda pictures: shifted(pictures, pixels, rng))
            return shifted(observations, pixels, rng)

        first = moved(batch.observation)
        return replace(batch, observation=first, next_observation=moved(batch.next_observation))

    def row(self) -> Row:
        """What metrics.jsonl says about the steps since the last row. No wall-clock value: rows compare bit for bit."""
        mean = float(np.mean(self.finished_returns)) if self.finished_returns else None
        self.finished_returns = []
        row: Row = {"step": self.step, "updates": self.updates, "episodes": self.episodes, "return": mean}
        return row | self.meter.take()

    # --- saving ---

    def state(self) -> dict[str, Any]:
        """Everything the next step depends on, as plain data and arrays. Learner and replay are saved separately."""
        masks = {"masks": self.masks_E} if self.replay.actions else {}
        priorities = {} if self.replay.priorities is None else {"priorities": self.replay.priorities.state()}
        return (
            masks
            | priorities
            | {
                "step": self.step,
                "updates": self.updates,
                "episodes": self.episodes,
                "can_learn": self._can_learn,
                "returns": self.returns_E,
                "lengths": self.lengths_E,
                "finished_returns": self.finished_returns,
                "meter": {"sums": self.meter.sums, "count": self.meter.count},
                "streams": {name: getattr(self.streams, name).bit_generator.state for name in GENERATORS},
                "seen": self.seen_E,
                "newest": self.replay.newest_E,
                "written": [int(w) for w in self.replay.written_E],
                "envs": [save_env(env) for env in self.envs],
            }
        )

    def load_state(self, state: dict[str, Any]) -> list[str]:
        """Continue from `state`. The replay and the learner must have been restored before.

        Returns a sentence for each environment whose state could not be saved: it starts a new episode, with a seed
        that depends on the step.
        """
        self.step, self.updates, self.episodes = state["step"], state["updates"], state["episodes"]
        self._can_learn = state["can_learn"]
        self.returns_E, self.finished_returns = list(state["returns"]), list(state["finished_returns"])
        self.lengths_E = list(state.get("lengths", [None] * len(self.envs)))
        self.meter.sums = with_current_keys(self.config.constraint, dict(state["meter"]["sums"]))
        self.meter.count = state["meter"]["count"]
        for name in GENERATORS:
            if name in state["streams"]:  # older runs have no stream of augmentation
                getattr(self.streams, name).bit_generator.state = state["streams"][name]
        self.seen_E, self.replay.newest_E = list(state["seen"]), list(state["newest"])
        if self.replay.priorities is not None:
            self.replay.priorities.load_state(state["priorities"])
        said = self._continue_masks(state.get("masks"))
        for e, (env, saved) in enumerate(zip(self.envs, state["envs"], strict=True)):
            if saved is not None:
                load_env(env, saved)
                continue
            said.append(f"a new episode begins at step {self.step:,}: {why_not(env) or 'its state was not saved'}")
            self._start_again(e)
        return said

    def change_envs(self, envs: Sequence[gym.Env[Any, Any]]) -> None:
        """Go on in other environments of the same spaces; the episodes in progress count as truncated."""
        self.envs = envs
        self._readers_E = [MaskReader(env, self.learner.actions) for env in envs]
        for e in range(len(envs)):
            self._start_again(e)

    def _start_again(self, e: int) -> None:
        """A new episode, with a seed that depends on the step, where the one in progress cannot continue."""
        self.replay.cut(e, self.seen_E[e], self.masks_E[e])
        self.returns_E[e], self.lengths_E[e] = 0.0, 0
        seed = np.random.SeedSequence((self.streams.env_seeds[e], self.step)).generate_state(1)[0]
        self.seen_E[e], self.masks_E[e] = self._reset(e, int(seed))

    def _continue_masks(self, saved_E: list[Array | None] | None) -> list[str]:
        """The masks of the states that were saved. A run that began without masks continues without them."""
        found = stacked_masks(self.masks_E) is not None
        if saved_E is None:
            return ["this run began without action masks and continues without them"] if found else []
        if not self.replay.actions:
            raise ValueError("it has action masks, and the environment gives none")
        self.masks_E = [None if mask is None else np.asarray(mask) for mask in saved_E]
        return []

    def _see(self, observation: Any) -> Array:
        return self.observations.encode(observation)[0]

    def _tensor(self, array: Array) -> torch.Tensor:
        return torch.from_numpy(array).to(self.learner.device)
