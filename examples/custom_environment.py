"""An environment of one's own: train an agent on it, then see how it does when a sensor gets noisy.

python examples/custom_environment.py [--steps 3000]

A thermostat reads the temperature and switches the heating on or off; every minute within one degree of 20 pays 1.
"""

import argparse

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from dsacc import DSAC, evaluate
from dsacc.analysis.formats import render


class Thermostat(gym.Env):
    """Observation: how far the room is from 20 degrees, and how cold it is outside. Actions: off, on."""

    def __init__(self) -> None:
        self.observation_space = spaces.Box(-10.0, 10.0, (2,), np.float32)
        self.action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)  # self.np_random is the only source of chance
        self.room, self.outside, self.minutes = self.np_random.uniform(15, 25), self.np_random.uniform(0, 10), 0
        return self._look(), {}

    def step(self, action):
        self.room += 1.5 * action - 0.06 * (self.room - self.outside) + self.np_random.normal(0, 0.05)
        self.minutes += 1
        reward = 1.0 if abs(self.room - 20) < 1 else 0.0
        return self._look(), reward, False, self.minutes == 60, {}

    def _look(self):
        return np.clip([self.room - 20, self.outside - 5], -10, 10).astype(np.float32)

    # With these two a run that was killed goes on in the middle of an hour.
    def state(self):
        return {"room": float(self.room), "outside": float(self.outside), "minutes": self.minutes}

    def load_state(self, state):
        self.room, self.outside, self.minutes = state["room"], state["outside"], state["minutes"]


def main(steps: int) -> None:
    model = DSAC(Thermostat(), constraint="mean", seed=0, random_steps=300).learn(steps, progress_bar=True)
    conditions = {"shifts": ["id", "gaussian_noise", "bias", "dropout"], "severity": [1, 3, 5]}
    rows = evaluate(model, Thermostat, **conditions)
    rows += evaluate("random", Thermostat, **conditions)
    render(rows, "table", baseline="random")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=3_000, help="of training (default: 3000)")
    main(parser.parse_args().steps)
