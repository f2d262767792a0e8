"""The plain way to test an agent under weather: one Gymnasium environment, imgaug on every frame, a batch of one.

A worker of `benchmarks/evaluation.py`, in the environment where imgaug is installed (it needs an old NumPy). Reads one
JSON object a line, {"run", "env", "shift", "episodes", "seed"}, and answers each with one.
"""

import json
import sys
import time

import ale_py
import cv2
import gymnasium as gym
import imgaug
import imgaug.augmenters as iaa
import numpy as np
import torch

from dsacc.dsac import DSAC

AUGMENTERS = {"snow": iaa.Snowflakes, "rain": iaa.Rain, "fog": iaa.Fog}
LIMIT = 4_500  # agent steps


class Weather(gym.ObservationWrapper):
    """imgaug's augmenter on every frame."""

    def __init__(self, env, augmenter):
        super().__init__(env)
        self.augmenter = augmenter

    def observation(self, observation):
        return self.augmenter(image=observation)


class Fire(gym.Wrapper):
    """Presses FIRE at the start and after a lost life."""

    def reset(self, **kwargs):
        self.env.reset(**kwargs)
        observation, _, _, _, info = self.env.step(1)
        self.lives = self.env.unwrapped.ale.lives()
        return observation, info

    def step(self, action):
        observation, reward, terminated, truncated, info = self.env.step(action)
        lives = self.env.unwrapped.ale.lives()
        if 0 < lives < self.lives and not (terminated or truncated):
            observation, more, terminated, truncated, info = self.env.step(1)
            reward += more
        self.lives = lives
        return observation, reward, terminated, truncated, info


def make(game, shift):
    env = gym.make(f"ALE/{game}-v5", frameskip=1, repeat_action_probability=0.0)
    env = gym.wrappers.AtariPreprocessing(env, noop_max=30, frame_skip=4, screen_size=(160, 210), grayscale_obs=False)
    if shift != "id":
        env = Weather(env, AUGMENTERS[shift]())
    env = gym.wrappers.GrayscaleObservation(env)
    env = gym.wrappers.ResizeObservation(env, (84, 84))
    return Fire(gym.wrappers.FrameStackObservation(env, 4))


def play(model, order):
    imgaug.seed(order["seed"])
    env = make(order["env"], order["shift"])
    returns, steps, began = [], 0, time.perf_counter()
    for episode in range(order["episodes"]):
        observation, _ = env.reset(seed=order["seed"] + episode)
        score, length, over = 0.0, 0, False
        while not over and length < LIMIT:
            action, _ = model.predict(np.asarray(observation), deterministic=True)
            observation, reward, terminated, truncated, _ = env.step(int(action))
            score, length, over = score + float(reward), length + 1, terminated or truncated
        returns.append(score)
        steps += length
    return {"seconds": time.perf_counter() - began, "steps": steps, "returns": returns}


def main():
    gym.register_envs(ale_py)
    torch.set_num_threads(1)
    cv2.setNumThreads(1)
    model = None
    for line in sys.stdin:
        order = json.loads(line)
        model = model or DSAC.load(order["run"])
        print(json.dumps(play(model, order)), flush=True)


if __name__ == "__main__":
    main()
