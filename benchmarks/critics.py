"""What an agent's critics alone would play, beside its actor: is a low score the actor's, or the critics'?

    python benchmarks/critics.py RUN [RUN ...] [--episodes 10]

The actor is played sampled and greedy, as `dsacc evaluate` does. Then the target critics choose: the action with the
largest Q, and actions drawn from softmax(Q / alpha) and softmax(Q / 2 alpha), with the run's last alpha. The second is
what the mean constraint asks for where lambda is 0 in half of the updates and 1 in the others. Clean pictures.
"""

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from dsacc import DSAC, evaluate
from dsacc.maths import combine_critics
from dsacc.system.types import Array
from dsacc.training.streams import best_actions, sample_actions

Player = Callable[[Array], Array]


def players(model: DSAC, seed: int) -> dict[str, Player]:
    """Functions from observations to actions, by name."""
    learner, rng = model.learner, np.random.default_rng(seed)

    @torch.no_grad()
    def values(observations: Array) -> Array:
        encoded = torch.from_numpy(model.observations.encode(observations))
        q1_BA, q2_BA = learner.target_critics(learner.scaled(encoded))
        found: Array = combine_critics(q1_BA, q2_BA, model.config.critics).double().numpy()
        return found

    alpha = float(learner.alpha)
    return {
        "largest Q": lambda observations: best_actions(values(observations)),
        "softmax(Q / alpha)": lambda observations: sample_actions(values(observations) / alpha, rng),
        "softmax(Q / 2 alpha)": lambda observations: sample_actions(values(observations) / (2 * alpha), rng),
    }


def scores(model: DSAC, episodes: int, seed: int) -> dict[str, float]:
    """The mean score of each way to play."""
    env = model.config.env
    rows = evaluate(model, env, shifts=["id"], policy=["sampled", "greedy"], episodes=episodes, seed=seed)
    found = {f"actor, {row['policy']}": float(np.mean(row["returns"])) for row in rows}
    for name, player in players(model, seed).items():
        (row,) = evaluate(player, env, shifts=["id"], episodes=episodes, seed=seed)
        found[name] = float(np.mean(row["returns"]))
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN", help="run folders or model files of dsacc")
    parser.add_argument("--episodes", type=int, default=10, help="full episodes of each (default: 10)")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.set_num_threads(1)
    for path in args.runs:
        model = DSAC.load(path)
        print(f"{model.config.env}, seed {model.config.seed}, alpha {float(model.learner.alpha):.4g} ({path.name})")
        for name, score in scores(model, args.episodes, args.seed).items():
            print(f"  {name:21} {score:10,.1f}")
