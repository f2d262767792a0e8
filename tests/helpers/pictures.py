"""Environments of random pictures in every layout, and the pictures in their observations."""

import gymnasium as gym
import numpy as np
from gymnasium import spaces

H, W = 20, 24
# shape: how pictures [N, H, W, C] become an observation, and how many channels a picture has
LAYOUTS = {
    (H, W): (lambda p: p[0, ..., 0], 1),
    (H, W, 1): (lambda p: p[0], 1),
    (H, W, 3): (lambda p: p[0], 3),
    (1, H, W): (lambda p: p[..., 0], 1),
    (3, H, W): (lambda p: np.moveaxis(p[0], -1, 0), 3),
    (4, H, W): (lambda p: p[..., 0], 1),
    (H, W, 4): (lambda p: np.stack(list(p[..., 0]), -1), 1),
    (H, W, 12): (lambda p: np.concatenate(list(p), -1), 3),
    (12, H, W): (lambda p: np.concatenate([np.moveaxis(x, -1, 0) for x in p]), 3),
    (4, H, W, 3): (lambda p: p, 3),
    (4, 3, H, W): (lambda p: np.moveaxis(p, -1, 1), 3),
    (4, H, W, 1): (lambda p: p, 1),
}


class Pictures(gym.Env):
    """Random pictures, each a matter of the seed, the frame and the action, stacked in any way."""

    action_space = spaces.Discrete(2)
    metadata = {"render_modes": ["rgb_array"], "render_fps": 5}  # noqa: RUF012

    def __init__(self, shape=(4, H, W), *, still=False, jump=False, render_mode=None):
        self.arrange, self.channels = LAYOUTS[tuple(shape)]
        self.count = int(np.prod(shape)) // (H * W * self.channels)
        self.still, self.jump, self.render_mode = still, jump, render_mode
        self.observation_space = spaces.Box(0, 255, shape, np.uint8)

    def picture(self, action):
        rng = np.random.default_rng([self.frame * (not self.still), action, self.key])
        return rng.integers(100, 200, (H, W, self.channels), dtype=np.uint8)

    def observe(self):
        return np.ascontiguousarray(self.arrange(np.stack(self.pictures)))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.frame, self.key = 0, int(self.np_random.integers(1000))
        self.pictures = [self.picture(0)] * self.count
        return self.observe(), {}

    def step(self, action):
        for _ in range(2 if self.jump else 1):
            self.frame += 1
            self.pictures = [*self.pictures[1:], self.picture(int(action) * (not self.still))]
        return self.observe(), 0.0, self.frame >= 12, False, {}

    def render(self):
        return np.zeros((H, W, 3), np.uint8)


if "ShiftPictures-v0" not in gym.registry:
    gym.register("ShiftPictures-v0", entry_point=Pictures)


def pictures_of(env, observation):
    """The pictures of an observation by the plainest of searches: the one arrangement that gives it back."""
    arrange, channels = LAYOUTS[env.observation_space.shape]
    index = np.arange(observation.size).reshape(-1, H, W, channels)
    flat = np.empty(observation.size, np.uint8)
    flat[arrange(index).reshape(-1)] = observation.reshape(-1)
    return flat.reshape(-1, H, W, channels)


def play(env, actions, seed=0):
    seen = [env.reset(seed=seed)[0]]
    return seen + [env.step(a)[0] for a in actions]
