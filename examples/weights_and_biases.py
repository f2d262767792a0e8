"""Metrics and test scores of a run in Weights & Biases.

python examples/weights_and_biases.py [--steps 3000] [--online]

Trains DSAC-M on CartPole (about a minute). Every row of metrics goes to W&B through the callback, and every 1,000 steps
the score of ten test episodes under the clean game and under noise. Without --online nothing leaves this machine: the
record is in wandb/, and `wandb sync` sends it when you want to. Needs `pip install wandb`, which is no part of dsacc.
"""

import argparse
import dataclasses
import os

import wandb

from dsacc import DSAC, evaluate
from dsacc.analysis.formats import render
from dsacc.play.callbacks import mean_scores


def main(steps: int, online: bool) -> None:
    model = DSAC("CartPole-v1", constraint="mean", seed=0)
    settings = dataclasses.asdict(model.config)
    with wandb.init(project="dsacc", config=settings, mode="online" if online else "offline") as run:

        def metrics(row: dict) -> None:
            run.log({name: value for name, value in row.items() if value is not None}, step=row["step"])

        def tests(model: DSAC) -> None:
            rows = evaluate(model, shifts=["id", "gaussian_noise"], episodes=10)
            run.log(mean_scores(rows), step=model.step)

        model.learn(steps, callback=metrics, every={1_000: tests}, progress_bar=True)
    render(evaluate(model, episodes=10), "table")


if __name__ == "__main__":
    os.environ.setdefault("WANDB_SILENT", "true")
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--online", action="store_true")
    arguments = parser.parse_args()
    main(arguments.steps, arguments.online)
