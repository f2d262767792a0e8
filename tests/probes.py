"""Tiny environments where the right values are known, so that learning is tested by value."""

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces


class Probe(gym.Env[Any, Any]):
    """Base: a Box observation of the state and a constant 1, so that state 0 is not all zeros."""

    actions = 2

    def __init__(self) -> None:
        self.observation_space = spaces.Box(-10, 10, (2,), np.float32)
        self.action_space = spaces.Discrete(self.actions)

    @staticmethod
    def see(x: float) -> np.ndarray[Any, Any]:
        return np.array([x, 1.0], np.float32)


class ConstantReward(Probe):
    """One step, reward 1: Q = 1 whatever is done."""

    actions = 1

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.see(0.0), {}

    def step(self, action):
        return self.see(0.0), 1.0, True, False, {}


class RewardIsObservation(Probe):
    """One step, the observation is -1 or +1 and so is the reward: Q(s) = s."""

    actions = 1

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.state = float(self.np_random.choice([-1.0, 1.0]))
        return self.see(self.state), {}

    def step(self, action):
        return self.see(self.state), self.state, True, False, {}


class DelayedReward(Probe):
    """Two steps, reward 1 at the end: Q(first) = gamma, Q(second) = 1."""

    actions = 1

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.state = 0.0
        return self.see(0.0), {}

    def step(self, action):
        if self.state == 0.0:
            self.state = 1.0
            return self.see(1.0), 0.0, False, False, {}
        return self.see(0.0), 1.0, True, False, {}


class ForeverOne(Probe):
    """Reward 1 for ever, cut off (truncated) every five steps: Q = 1 / (1 - gamma) only if truncation bootstraps."""

    actions = 1

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.age = 0
        return self.see(0.0), {}

    def step(self, action):
        self.age += 1
        return self.see(0.0), 1.0, False, self.age == 5, {}


class Lives(ForeverOne):
    """Ten steps an episode; a life is lost at the fifth, which changes nothing else. Reward 1 a step."""

    actions = 2

    def step(self, action):
        self.age += 1
        return self.see(self.age / 10), 1.0, self.age == 10, False, {"life_lost": self.age == 5}


class Pays(ForeverOne):
    """Episodes of a few steps, each of which pays its own reward. It can be asked to fail at one of all its steps."""

    actions = 2
    pays: tuple[float, ...] = (1.0, 2.0, 3.0)
    fails_at = 0
    taken = 0

    def step(self, action):
        self.age += 1
        self.taken += 1
        if self.taken == self.fails_at:
            raise OSError("the plug was pulled")
        return self.see(self.age), self.pays[self.age - 1], self.age == len(self.pays), False, {}


class Clock(Probe):
    """Shows how many steps it has made, in hundredths, and never ends. Keeps its seeds and the actions taken."""

    actions = 8

    def __init__(self) -> None:
        super().__init__()
        self.seeds: list[int | None] = []
        self.actions_taken: list[int] = []

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.seeds.append(seed)
        return self.see(0.0), {}

    def step(self, action):
        self.actions_taken.append(int(action))
        return self.see(len(self.actions_taken) / 100), 1.0, False, False, {}


class ActionMatters(Probe):
    """One step; action 1 pays 1, action 0 nothing: the soft policy is softmax([0, 1] / alpha)."""

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.see(0.0), {}

    def step(self, action):
        return self.see(0.0), float(action), True, False, {}


class TwoStateChain(Probe):
    """From either of two states, action a leads to state a and pays 1 in state 1; cut off every 20 steps.

    The soft values solve V_s = alpha log sum_a exp(Q(s, a) / alpha), Q(s, a) = s + gamma V_a.
    """

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.state, self.age = int(self.np_random.integers(2)), 0
        return self.see(self.state), {}

    def step(self, action):
        reward = float(self.state)
        self.state, self.age = int(action), self.age + 1
        return self.see(self.state), reward, False, self.age == 20, {}

    @staticmethod
    def soft_q(gamma: float, alpha: float) -> np.ndarray[Any, Any]:
        v = np.zeros(2)
        for _ in range(10_000):
            q = np.arange(2.0)[:, None] + gamma * v[None]
            v = alpha * np.log(np.exp(q / alpha).sum(axis=1))
        return q


class MaskedChain(Probe):
    """Two states; action a leads to state a and pays 1 in state 1; cut off every 20 steps. But there are rules: state 1
    allows action 0 alone, and action 2, which would pay 10, is never allowed. The mask is given by `action_masks()`.

    It refuses to break its rules, and can be saved in the middle of an episode.
    """

    actions = 3
    allowed = np.array([[True, True, False], [True, False, False]])

    def action_masks(self):
        return self.allowed[self.at]

    def told(self):
        return {}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at, self.age = int(self.np_random.integers(2)), 0
        return self.see(self.at), self.told()

    def step(self, action):
        assert self.allowed[self.at][action], f"action {action} was taken in state {self.at}"
        reward = float(self.at) + 10.0 * (action == 2)
        self.at, self.age = int(action), self.age + 1
        return self.see(self.at), reward, False, self.age == 20, self.told()

    def state(self):
        return {"at": self.at, "age": self.age}

    def load_state(self, state):
        self.at, self.age = state["at"], state["age"]

    @staticmethod
    def soft_q(gamma: float, alpha: float) -> np.ndarray[Any, Any]:
        """Q(s, a) of the actions 0 and 1. V sums over what a state allows, so V_1 is Q(1, 0)."""
        v = np.zeros(2)
        for _ in range(1_000):
            q = np.arange(2.0)[:, None] + gamma * v[None]
            v = np.array([alpha * np.log(np.exp(q[0] / alpha).sum()), q[1, 0]])
        return q


class ToldChain(MaskedChain):
    """The same, where `info` gives the mask, as zeros and ones."""

    action_masks = None

    def told(self):
        return {"action_mask": self.allowed[self.at].astype(np.int8)}


class Spoiled(Probe):
    """Fine until `at` steps, then returns `observation` or `reward`, whichever is given."""

    def __init__(self, at: int = 3, observation: float | None = None, reward: float | None = None) -> None:
        super().__init__()
        self.at, self.bad_observation, self.bad_reward, self.count = at, observation, reward, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        bad = self.at == 0 and self.bad_observation is not None
        return self.see(self.bad_observation if bad else 0.0), {}

    def step(self, action):
        self.count += 1
        spoil = self.count >= self.at
        observation = self.see(self.bad_observation if spoil and self.bad_observation is not None else 0.0)
        return observation, self.bad_reward if spoil and self.bad_reward is not None else 1.0, False, False, {}


class CameraAndCompass(gym.Env[Any, Any]):
    """One step. The picture is dark or has a bright patch, and the compass points to 1 to 4. Action 1 is right where
    exactly one holds, a patch or an even compass; else action 0. Neither part alone says anything of the reward."""

    def __init__(self, steps: int = 1) -> None:
        parts = {"compass": spaces.Discrete(4, start=1), "speed": spaces.Box(-5, 5, (2,), np.float32)}
        self.observation_space = spaces.Dict({"camera": spaces.Box(0, 255, (20, 17, 3), np.uint8), **parts})
        self.action_space = spaces.Discrete(2)
        self.steps, self.bright, self.compass, self.age = steps, 0, 0, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.age = 0
        return self._draw(), {}

    def step(self, action):
        reward = float(action == (self.bright ^ self.compass % 2))
        self.age += 1
        return self._draw(), reward, self.age == self.steps, False, {}

    def _draw(self):
        self.bright, self.compass = int(self.np_random.integers(2)), int(self.np_random.integers(4))
        return self.look(self.bright, self.compass)

    @staticmethod
    def look(bright: int, compass: int) -> dict[str, Any]:
        camera = np.full((20, 17, 3), 10, np.uint8)
        camera[6:10, 5:9] += np.uint8(200 * bright)
        return {"camera": camera, "compass": np.int64(compass + 1), "speed": np.array([0.25, -compass], np.float32)}

    def state(self):
        names = ("bright", "compass", "age")
        return {"rng": self.np_random.bit_generator.state, **{name: getattr(self, name) for name in names}}

    def load_state(self, state):
        self.np_random.bit_generator.state = state["rng"]
        self.bright, self.compass, self.age = state["bright"], state["compass"], state["age"]


class Broken(ForeverOne):
    """Fine for 30 steps, then raises an error that is not ours."""

    def step(self, action):
        self.count = getattr(self, "count", 0) + 1
        if self.count > 30:
            raise OSError("the joystick is gone")
        return super().step(action)


if "NanFromTheStart-v0" not in gym.registry:
    gym.register("MaskedChain-v0", entry_point=MaskedChain)
    gym.register("NanFromTheStart-v0", entry_point=lambda: Spoiled(at=0, observation=np.nan))
    gym.register("Broken-v0", entry_point=Broken)
    for what in ("observation", "reward"):
        for bad in ("nan", "inf"):
            gym.register(
                f"Spoiled{what.title()}{bad.title()}-v0",
                entry_point=lambda what=what, bad=bad: Spoiled(at=150, **{what: float(bad)}),
            )
