"""Train a DQN of Stable-Baselines3, to be hardened: on Catch in five minutes, on an Atari game in about an hour.

    python benchmarks/sb3_dqn.py dsacc/Catch-v0 --steps 8000 --out catch-dqn.zip
    python benchmarks/sb3_dqn.py MsPacman --steps 60000 --out pacman-dqn.zip

SB3's network and loss as they are, on the pictures that agents of dsacc get (84x84, grey, four frames). Settings for
little data: an update every second step, returns of ten steps, rewards clipped as usual on Atari.
"""

import argparse

import gymnasium as gym
import numpy as np
import torch
from stable_baselines3 import DQN

from dsacc import make_env

CATCH = {"learning_rate": 1e-3, "learning_starts": 500, "gamma": 0.95, "exploration_fraction": 0.6}
CATCH |= {"target_update_interval": 250, "train_freq": 2, "buffer_size": 10_000}
ATARI = {"learning_rate": 1e-4, "learning_starts": 2_000, "gamma": 0.99, "exploration_fraction": 0.1}
ATARI |= {"target_update_interval": 1_000, "train_freq": 2, "buffer_size": 60_000, "n_steps": 10}


def main(env: str, steps: int, seed: int, out: str) -> None:
    torch.set_num_threads(1)
    made = make_env(env)
    atari = not env.startswith("dsacc/")
    if atari:
        made = gym.wrappers.TransformReward(made, lambda reward: float(np.sign(reward)))
    settings = ATARI if atari else CATCH
    model = DQN("CnnPolicy", made, seed=seed, device="cpu", exploration_final_eps=0.02, verbose=1, **settings)
    model.learn(steps, log_interval=20)
    model.save(out)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("env", help="dsacc/Catch-v0 or an Atari game")
    parser.add_argument("--steps", type=int, required=True, help="agent steps")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", required=True, help="file to write")
    args = parser.parse_args()
    main(args.env, args.steps, args.seed, args.out)
