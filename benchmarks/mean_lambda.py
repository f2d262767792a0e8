"""The mean of lambda over the updates of DSAC-M, by game: what a constant lambda must be to have the same mean.

    dsacc experiment minatar-lambda && python benchmarks/mean_lambda.py experiments/minatar-lambda

Each row of metrics.jsonl has the mean over the updates since the row before, so a row counts as many times as it has
updates. Prints one line for each game, as `settings_by_env` of a grid takes it, with the range over seeds.
"""

import argparse
import json
from collections import defaultdict
from pathlib import Path

from dsacc.errors import ConfigError


def mean_lambda(metrics: Path) -> float:
    """Of one run, over its updates."""
    total, before = 0.0, 0
    for line in metrics.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        if row.get("lambda") is not None:
            total += row["lambda"] * (row["updates"] - before)
            before = row["updates"]
    if not before:
        raise ConfigError(f"{metrics} has no lambda: the run has no constraint, or has made no update")
    return total / before


def means(folder: Path) -> dict[str, list[float]]:
    """By game, the mean of each run of DSAC-M that solves for its lambda."""
    found = defaultdict(list)
    for file in sorted((folder / "runs").glob("*/config.json")):
        settings = json.loads(file.read_text(encoding="utf-8"))["config"]
        if settings["constraint"] == "mean" and settings["fixed_lambda"] is None:
            found[settings["env"]].append(mean_lambda(file.parent / "metrics.jsonl"))
    return dict(found)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="folder of an experiment")
    for env, values in means(parser.parse_args().folder).items():
        mean, seeds = sum(values) / len(values), f"{len(values)} seeds, {min(values):.3f} to {max(values):.3f}"
        print(f'"{env}" = {{ fixed_lambda = {mean:.3f} }} # {seeds}')
