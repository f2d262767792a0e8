"""The loop: act, store, learn, log. Its whole state is in `Trainer`, its randomness in `Streams`."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
import torch

from dsacc.agent import Batch, Learner
from dsacc.config import Config
from dsacc.envs import Observations, check_reward
from dsacc.replay import Replay, Transitions

Row = dict[str, Any]
Array = np.ndarray[Any, Any]


@dataclass
class Streams:
    """Separate random streams, so that drawing from one never moves another."""

    actions: np.random.Generator
    batches: np.random.Generator
    noise: np.random.Generator
    env_seed: int
    weights: torch.Generator

    @classmethod
    def from_seed(cls, seed: int) -> "Streams":
        actions, batches, noise, env, weights = np.random.SeedSequence(seed).spawn(5)
        return cls(
            np.random.default_rng(actions),
            np.random.default_rng(batches),
            np.random.default_rng(noise),
            int(env.generate_state(1)[0]),
            torch.Generator().manual_seed(int(weights.generate_state(1, np.uint64)[0] >> 1)),
        )


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
    """One run in progress."""

    def __init__(self, config: Config, env: gym.Env[Any, Any], learner: Learner, streams: Streams) -> None:
        self.config, self.env, self.learner, self.streams = config, env, learner, streams
        self.observations = Observations(env.observation_space)
        self.replay = Replay(config.replay_size, self.observations.spec, config.n_step)
        self.step = 0
        self.updates = 0
        self.episodes = 0
        self.episode_return = 0.0
        self.meter = Meter()
        self.finished_returns: list[float] = []
        self.observation = self._see(env.reset(seed=streams.env_seed)[0])
        self._can_learn = False

    def run(self, until: int, log: Callable[[Row], None], tick: Callable[[int], None]) -> None:
        """Go on to agent step `until`. `log` gets a row every `log_every` steps and at the end, `tick` every step."""
        c = self.config
        while self.step < until:
            self.collect()
            if self.step % c.train_every == 0 and self.ready():
                for _ in range(c.updates):
                    self.learn()
            if self.step % c.target_every == 0 and self.updates:
                self.learner.update_targets()
            if self.step % c.log_every == 0 or self.step == until:
                log(self.row())
            tick(self.step)

    def collect(self) -> None:
        """One agent step in the environment, stored."""
        action, entropy = self.act()
        observation, reward, terminated, truncated, _ = self.env.step(action)
        self.step += 1
        reward = check_reward(reward, self.step)
        learned = float(np.sign(reward)) if self.config.clip_rewards else reward
        seen = self._see(observation)
        self.replay.add(self.observation, action, learned, terminated, truncated, seen, entropy)
        self.episode_return += reward
        if terminated or truncated:
            self.finished_returns.append(self.episode_return)
            self.episodes += 1
            self.episode_return = 0.0
            seen = self._see(self.env.reset()[0])
        self.observation = seen

    def act(self) -> tuple[int, float]:
        """An action of the policy (uniform during the random steps) and the policy's entropy there."""
        actions = self.learner.actions
        if self.step < self.config.random_steps:
            return int(self.streams.actions.integers(actions)), math.log(actions)
        logits = self.learner.policy_logits(self._tensor(self.observation[None]))[0].double().cpu().numpy()
        shifted = np.exp(logits - logits.max())
        pi = shifted / shifted.sum()
        entropy = float(-(pi * np.log(np.maximum(pi, 1e-300))).sum())
        return sample_action(logits, self.streams.actions), entropy

    def ready(self) -> bool:
        """Past the random steps, with at least one whole transition stored."""
        if not self._can_learn and self.step > self.config.random_steps:
            self._can_learn = self.replay.can_sample()
        return self._can_learn

    def learn(self) -> None:
        """One update from a uniform minibatch."""
        transitions = self.replay.sample(self.config.batch_size, self.streams.batches)
        noise = self.streams.noise.standard_normal(self.learner.noise_shape())
        self.meter.add(self.learner.update(self._batch(transitions), self._tensor(noise), self.step))
        self.updates += 1

    def row(self) -> Row:
        """What metrics.jsonl says of the steps since the last row. No wall-clock value: rows compare bit for bit."""
        mean = float(np.mean(self.finished_returns)) if self.finished_returns else None
        self.finished_returns = []
        row: Row = {"step": self.step, "updates": self.updates, "episodes": self.episodes, "return": mean}
        return row | self.meter.take()

    def _see(self, observation: Any) -> Array:
        return self.observations.encode(observation)[0]

    def _tensor(self, array: Array) -> torch.Tensor:
        return torch.from_numpy(np.ascontiguousarray(array)).to(self.learner.device)

    def _batch(self, t: Transitions) -> Batch:
        return Batch(*(self._tensor(x) for x in vars(t).values()))


def sample_action(logits: Array, rng: np.random.Generator) -> int:
    """A draw from softmax(logits) by the Gumbel-max trick."""
    return int(np.argmax(logits - np.log(-np.log(rng.random(logits.shape)))))
