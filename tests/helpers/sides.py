"""The smallest game that needs eyes: a bright square is on the left or on the right, and the action must say where."""

import gymnasium as gym
import numpy as np
from gymnasium import spaces

SIDE, SQUARE, ROUNDS = 24, 6, 4


class Sides(gym.Env):
    """Observation: the last two pictures [2, 24, 24]. Reward 1 for the right side, ROUNDS times per episode."""

    def __init__(self):
        self.observation_space = spaces.Box(0, 255, (2, SIDE, SIDE), np.uint8)
        self.action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.left, self.pictures = ROUNDS, []
        return self.show(), {}

    def show(self):
        self.answer = int(self.np_random.integers(2))
        row, column = self.np_random.integers(SIDE - SQUARE + 1), self.np_random.integers(SIDE // 2 - SQUARE + 1)
        picture = np.full((SIDE, SIDE), 30, np.uint8)
        column += self.answer * SIDE // 2
        picture[row : row + SQUARE, column : column + SQUARE] = 200
        self.pictures = [*(self.pictures or [picture])[-1:], picture]
        return np.stack(self.pictures)

    def step(self, action):
        reward = float(int(action) == self.answer)
        self.left -= 1
        return self.show(), reward, self.left == 0, False, {}


def perfect(observations):
    """Scores [B, 2] of a player that looks: the light on each side."""
    newest = observations[:, -1].astype(float)
    return np.stack([newest[..., : SIDE // 2].sum((1, 2)), newest[..., SIDE // 2 :].sum((1, 2))], axis=1) / 1000


def perfect_actions(observations):
    return perfect(observations).argmax(axis=1)


if "Sides-v0" not in gym.registry:
    gym.register("Sides-v0", entry_point=Sides)
