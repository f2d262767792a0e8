"""How often does a 95 % interval of the interquartile mean hold the true value? By simulation, for few seeds and many.

A scenario gives each game a mean and a spread between seeds; scores are normal. The truth is the IQM of very many runs
a game. A trial draws the seeds, makes the stratified bootstrap interval, and looks whether the truth lies inside. The
games stay the same in all trials, as the interval speaks of other seeds, not of other games. The paper's scenarios take
means and spreads from its table (clean screen, human-normalised), where games lie far apart.
Run with `make bench-coverage` (two minutes); `--trials 200` is shorter.
"""

import argparse

import numpy as np
from rich.console import Console
from rich.table import Table

from dsacc.analysis.references import paper_table, reference_scores
from dsacc.analysis.statistics import interquartile_mean, iqm

SEEDS = (2, 3, 4, 5, 7, 10, 20)
Scenario = list[tuple[float, float]]  # mean and standard deviation of each game's scores


def of_the_paper(agent: str) -> Scenario:
    """The nine games with an agent's clean scores, human-normalised."""
    games = []
    for game, reference in reference_scores().items():
        cell, unit = paper_table()[game, "id", agent], reference.human - reference.random
        games.append(((cell.mean - reference.random) / unit, cell.std / unit))
    return games


SCENARIOS: dict[str, Scenario] = {
    "one game": [(0.0, 1.0)],
    "nine games alike": [(0.0, 1.0)] * 9,
    "the paper's DSAC": of_the_paper("dsac"),
    "the paper's DSAC-M": of_the_paper("dsac-m"),
}


def coverage(scenario: Scenario, seeds: int, *, trials: int, resamples: int, rng: np.random.Generator) -> float:
    """The share of trials whose 95 % interval holds the truth."""
    truth = iqm(np.concatenate([rng.normal(mean, std, 200_000) for mean, std in scenario]))
    inside = 0
    for _ in range(trials):
        found = interquartile_mean([rng.normal(*game, seeds) for game in scenario], rng, resamples=resamples)
        if found.low is None or found.high is None:
            raise ValueError("one seed has no interval")
        inside += found.low <= truth <= found.high
    return inside / trials


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=4_000, help="simulated experiments a figure (default: 4000)")
    parser.add_argument("--resamples", type=int, default=1_000, help="bootstrap resamples each (default: 1000)")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    rng = np.random.default_rng(args.seed)
    table = Table(title=f"Coverage of a 95 % interval of the IQM, {args.trials} trials each", title_justify="left")
    for name in ("seeds", *SCENARIOS):
        table.add_column(name, justify="right")
    for seeds in SEEDS:
        how = {"trials": args.trials, "resamples": args.resamples, "rng": rng}
        table.add_row(str(seeds), *(f"{coverage(games, seeds, **how):.3f}" for games in SCENARIOS.values()))
    Console().print(table)
    print("One seed has no interval.")
    print(f"Monte Carlo error of a figure near 0.9: {np.sqrt(0.09 / args.trials):.3f}")


if __name__ == "__main__":
    main()
