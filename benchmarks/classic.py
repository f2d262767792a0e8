"""CartPole, Acrobot and LunarLander with preset `classic`: every agent, several seeds, scores as they come.

One process a core, one thread each. Finished runs are not repeated, so the command can be called again. Run with
`make classic`; `--only CartPole` restricts it.
"""

import argparse
import json
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from os import cpu_count
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

EPISODES = 20
GRID = [  # environment, agents, steps, seeds
    ("CartPole-v1", ("dsac", "dsac-m"), 30_000, 5),
    ("CartPole-v1", ("dsac-v", "dsac-mv"), 30_000, 5),
    ("Acrobot-v1", ("dsac", "dsac-m"), 50_000, 3),
    ("LunarLander-v3", ("dsac", "dsac-m"), 50_000, 2),
]


def run(env: str, agent: str, steps: int, seed: int, out: Path) -> dict[str, Any]:
    """Train one agent (or find it trained) and play greedily and sampled."""
    import torch

    torch.set_num_threads(1)
    from dsacc import DSAC, evaluate
    from dsacc.config import AGENTS

    folder = out / f"{env}-{agent}-s{seed}"
    model = DSAC(env, AGENTS[agent], "classic", seed).learn(steps, out=folder)
    scores = {p: evaluate(model, episodes=EPISODES, policy=p)[0]["returns"] for p in ("greedy", "sampled")}
    seconds = json.loads((folder / "timing.jsonl").read_text().splitlines()[-1])["seconds"]
    return {"env": env, "agent": agent, "steps": steps, "seed": seed, "seconds": seconds} | scores


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("runs/classic"), help="run folders go here")
    parser.add_argument("--only", default="", help="only environments whose id contains this")
    parser.add_argument("--processes", type=int, default=cpu_count(), help="runs side by side (default: cores)")
    args = parser.parse_args()
    jobs = [
        (env, agent, steps, seed, args.out)
        for env, agents, steps, seeds in GRID
        if args.only in env
        for seed in range(seeds)
        for agent in agents
    ]
    console = Console()
    with ProcessPoolExecutor(args.processes, mp_context=get_context("spawn")) as pool:
        waiting = {pool.submit(run, *job): job for job in jobs}
        results = []
        for done in as_completed(waiting):
            r = done.result()
            results.append(r)
            console.print(
                f"{r['env']} {r['agent']} seed {r['seed']}: greedy {np.mean(r['greedy']):.1f}", highlight=False
            )
    results.sort(key=lambda r: [job[:2] + job[3:4] for job in jobs].index((r["env"], r["agent"], r["seed"])))
    (args.out / "results.json").write_text(json.dumps(results, indent=1))

    table = Table(title=f"preset classic, {EPISODES} episodes a score")
    for column in ("environment", "agent", "steps", "greedy, mean by seed", "sampled, mean by seed", "minutes a run"):
        table.add_column(column)
    for env, agents, steps, _ in GRID:
        for agent in agents:
            rows = sorted((r for r in results if (r["env"], r["agent"]) == (env, agent)), key=lambda r: r["seed"])
            if rows:
                by_seed = ("  ".join(f"{np.mean(r[p]):.1f}" for r in rows) for p in ("greedy", "sampled"))
                minutes = np.mean([r["seconds"] for r in rows]) / 60
                table.add_row(env, agent, f"{steps:,}", *by_seed, f"{minutes:.1f}")
    console.print(table)


if __name__ == "__main__":
    main()
