"""A Stable-Baselines3 agent under snow, rain and fog, beside a random one.

python examples/sb3_under_weather.py [--steps 4000]

Trains SB3's DQN on the built-in picture game Catch (about a minute), saves it as SB3 does, and tests the file. A fresh
DQN on Breakout shows that the same works for Atari. Needs the extras `sb3` and `atari` (`make setup` brings both).
"""

import argparse
import tempfile
from pathlib import Path

import gymnasium as gym
import torch
from stable_baselines3 import DQN

from dsacc import evaluate, make_env
from dsacc.analysis.formats import render


def main(steps: int, episodes: int) -> None:
    settings = {"learning_rate": 1e-3, "buffer_size": 10_000, "learning_starts": 500, "train_freq": 2, "gamma": 0.95}
    settings |= {"exploration_fraction": 0.6, "target_update_interval": 250, "seed": 0, "device": "cpu"}
    torch.set_num_threads(1)  # faster than two where something else runs
    print(f"training DQN on Catch for {steps:,} steps", flush=True)
    catch = DQN("CnnPolicy", gym.make("dsacc/Catch-v0"), **settings).learn(steps)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "catch-dqn.zip"
        catch.save(file)
        rows = []
        for agent in (f"sb3:{file}", "random", f"blind:sb3:{file}"):
            print(f"testing {agent.replace(str(file), file.name)}", flush=True)
            # trust: a file of SB3 can execute code, and this one is ours
            rows += evaluate(agent, "dsacc/Catch-v0", episodes=episodes, trust=True)
        render(rows, "table", baseline="random")

    print("testing an untrained DQN on Breakout", flush=True)
    breakout = DQN("CnnPolicy", make_env("Breakout"), buffer_size=10, device="cpu", seed=0)  # no file, no trust
    render(evaluate(breakout, "Breakout", episodes=2), "table")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=4_000, help="of training, on Catch (default: 4000)")
    parser.add_argument("--episodes", type=int, default=100, help="balls a condition (default: 100)")
    args = parser.parse_args()
    main(args.steps, args.episodes)
