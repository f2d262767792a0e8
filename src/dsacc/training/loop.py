"""The loop: act, store, learn, log. Its whole state is in `Trainer`, its randomness in `Streams`."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import gymnasium as gym
import numpy as np
import torch

from dsacc.agent import Batch, Learner
from dsacc.agent.augment import shifted
from dsacc.config import Config
from dsacc.envs import Observations, check_reward, frame_stack
from dsacc.envs.saving import load_env, save_env, why_not
from dsacc.replay import Replay, Transitions
from dsacc.system.types import Array
from dsacc.training.streams import GENERATORS, Streams, sample_actions

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
    """One run in progress. Several environments, where asked for, are stepped together, one after the other."""

    def __init__(self, config: Config, envs: Sequence[gym.Env[Any, Any]], learner: Learner, streams: Streams) -> None:
        self.config, self.envs, self.learner, self.streams = config, envs, learner, streams
        self.observations = Observations(envs[0].observation_space)
        self.replay = Replay(
            config.replay_size,
            self.observations.spec,
            config.n_step,
            stack=frame_stack(envs[0]),
            envs=len(envs),
            compression=config.replay_compression,
        )
        self.step = 0
        self.updates = 0
        self.episodes = 0
        self.returns_E = [0.0] * len(envs)  # of the episodes that go on
        self.finished_returns: list[float] = []
        self.meter = Meter()
        self.seen_E = [self._see(e.reset(seed=s)[0]) for e, s in zip(envs, streams.env_seeds, strict=True)]
        self._can_learn = False

    def run(self, until: int, log: Callable[[Row], None], tick: Callable[[int], None]) -> None:
        """Go on to agent step `until`. `log` gets a row every `log_every` steps and at the end, `tick` every step."""
        c = self.config
        while self.step < until:
            before = self.step
            self.collect(min(len(self.envs), until - self.step))
            for step in range(before + 1, self.step + 1):  # as many updates a step, however many are collected at once
                if step % c.train_every == 0 and self.ready():
                    for _ in range(c.updates):
                        self.learn()
                if step % c.target_every == 0 and self.updates:
                    self.learner.update_targets()
            if self.step // c.log_every > before // c.log_every or self.step == until:
                log(self.row())
            tick(self.step)

    def collect(self, count: int) -> None:
        """One agent step in each of the first `count` environments, stored."""
        actions_E, entropies_E = self.act(np.stack(self.seen_E[:count]))
        for e, (action, entropy) in enumerate(zip(actions_E, entropies_E, strict=True)):
            self._collect_one(e, int(action), float(entropy))

    def _collect_one(self, e: int, action: int, entropy: float) -> None:
        observation, reward, terminated, truncated, info = self.envs[e].step(action)
        self.step += 1
        reward = check_reward(reward, self.step)
        learned = float(np.sign(reward)) if self.config.clip_rewards else reward
        lost = self.config.lost_life_ends and bool(info.get("life_lost", False))
        seen, over = self._see(observation), terminated or truncated
        self.replay.add(
            self.seen_E[e], action, learned, terminated or lost, truncated, seen, entropy, goes_on=not over, env=e
        )
        self.returns_E[e] += reward
        if over:
            self.finished_returns.append(self.returns_E[e])
            self.episodes += 1
            self.returns_E[e] = 0.0
            seen = self._see(self.envs[e].reset()[0])
        self.seen_E[e] = seen

    def act(self, seen: Array) -> tuple[Array, Array]:
        """Actions of the policy (uniform during the random steps) and its entropies, for a batch of observations."""
        actions, count = self.learner.actions, len(seen)
        if self.step < self.config.random_steps:
            return self.streams.actions.integers(actions, size=count), np.full(count, math.log(actions))
        logits = self.learner.policy_logits(self._tensor(seen)).cpu().double().numpy()
        shifted = np.exp(logits - logits.max(axis=1, keepdims=True))
        pi = shifted / shifted.sum(axis=1, keepdims=True)
        entropies = -(pi * np.log(np.maximum(pi, 1e-300))).sum(axis=1)
        return sample_actions(logits, self.streams.actions), entropies

    def ready(self) -> bool:
        """Past the random steps, with at least one whole transition stored."""
        if not self._can_learn and self.step > self.config.random_steps:
            self._can_learn = self.replay.can_sample()
        return self._can_learn

    def learn(self) -> None:
        """One update from a uniform minibatch."""
        transitions = self.replay.sample(self.config.batch_size, self.streams.batches)
        if self.config.augment_shift and self.observations.is_image:
            transitions = replace(
                transitions,
                **{
                    name: shifted(getattr(transitions, name), self.config.augment_shift, self.streams.augmentation)
                    for name in ("observation", "next_observation")
                },
            )
        noise = self.streams.noise.standard_normal(self.learner.noise_shape())
        self.meter.add(self.learner.update(self._batch(transitions), torch.from_numpy(noise), self.step))
        self.updates += 1

    def row(self) -> Row:
        """What metrics.jsonl says of the steps since the last row. No wall-clock value: rows compare bit for bit."""
        mean = float(np.mean(self.finished_returns)) if self.finished_returns else None
        self.finished_returns = []
        row: Row = {"step": self.step, "updates": self.updates, "episodes": self.episodes, "return": mean}
        return row | self.meter.take()

    # --- saving ---

    def state(self) -> dict[str, Any]:
        """All that the next step depends on, as plain data and arrays; the learner and the replay are saved apart."""
        return {
            "step": self.step,
            "updates": self.updates,
            "episodes": self.episodes,
            "can_learn": self._can_learn,
            "returns": self.returns_E,
            "finished_returns": self.finished_returns,
            "meter": {"sums": self.meter.sums, "count": self.meter.count},
            "streams": {name: getattr(self.streams, name).bit_generator.state for name in GENERATORS},
            "seen": self.seen_E,
            "newest": self.replay.newest_E,
            "written": [int(w) for w in self.replay.written_E],
            "envs": [save_env(env) for env in self.envs],
        }

    def load_state(self, state: dict[str, Any]) -> list[str]:
        """Go on from `state`; the replay's contents and the learner have been put back before. Returns a sentence for
        each environment whose state could not be saved: it starts a fresh episode, from a seed of its own."""
        self.step, self.updates, self.episodes = state["step"], state["updates"], state["episodes"]
        self._can_learn = state["can_learn"]
        self.returns_E, self.finished_returns = list(state["returns"]), list(state["finished_returns"])
        self.meter.sums, self.meter.count = dict(state["meter"]["sums"]), state["meter"]["count"]
        for name, drawn in state[
            "streams"
        ].items():  # a run from before there was augmentation has none, and needs none
            if name in GENERATORS:
                getattr(self.streams, name).bit_generator.state = drawn
        self.seen_E, self.replay.newest_E = list(state["seen"]), list(state["newest"])
        said = []
        for e, (env, saved) in enumerate(zip(self.envs, state["envs"], strict=True)):
            if saved is not None:
                load_env(env, saved)
                continue
            said.append(f"a fresh episode begins at step {self.step:,}: {why_not(env) or 'its state was not saved'}")
            self.replay.cut(e, self.seen_E[e])
            self.returns_E[e] = 0.0
            seed = np.random.SeedSequence((self.streams.env_seeds[e], self.step)).generate_state(1)[0]
            self.seen_E[e] = self._see(env.reset(seed=int(seed))[0])
        return said

    def _see(self, observation: Any) -> Array:
        return self.observations.encode(observation)[0]

    def _tensor(self, array: Array) -> torch.Tensor:
        return torch.from_numpy(array).to(self.learner.device)

    def _batch(self, t: Transitions) -> Batch:
        return Batch(*(self._tensor(x) for x in vars(t).values()))
