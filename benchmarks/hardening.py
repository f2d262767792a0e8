"""What each part of hardening is worth: one agent, many recipes, the share of its score that each student keeps.

    python benchmarks/hardening.py AGENT [AGENT...] --out parts.jsonl --only updates sets --episodes 10
    python benchmarks/hardening.py sb3:dqn.zip --env MsPacman --only parts
    python benchmarks/hardening.py CATCH_RUN [CATCH_RUN...] --updates 3000 --states 3000 --episodes 200

AGENT is anything that `dsacc evaluate` takes, and a file of Stable-Baselines3 is trusted.

The share kept is (score - random) / (clean score of the agent before hardening - random). Each line of the file is one
student (or the agent itself) with its raw scores, so a second call does what is missing and prints the table of all.
"""

import argparse
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from dsacc import DSAC, evaluate, harden
from dsacc.analysis.references import scale
from dsacc.shifts import register_augmentation, resolve
from dsacc.system.memory import keep_freed_memory
from dsacc.system.threads import use_one_thread

register_augmentation("nothing", lambda rng, shape: lambda picture, other: picture)
WEATHER = ("snow", "rain", "fog")
GENERIC = resolve("generic")
Variant = tuple[str, dict[str, Any] | None, dict[str, Any]]  # group and name, keywords of `harden`, of `evaluate`


def variants(updates: int, states: int) -> Iterator[Variant]:
    """All recipes, by group. None hardens nothing."""
    usual: dict[str, Any] = {"updates": updates, "states": states}
    yield "parts: before", None, {}
    yield "parts: hardened", usual, {}
    yield "parts: near", {**usual, "augment": "near"}, {}
    yield "parts: clean pictures alone", {**usual, "augment": ["nothing"]}, {}
    for kind in GENERIC:
        yield f"sets: without {kind}", {**usual, "augment": [k for k in GENERIC if k != kind]}, {}
    for left_out in WEATHER:
        seen = [*GENERIC, *(shift for shift in WEATHER if shift != left_out)]
        yield f"weather: all but {left_out}", {**usual, "augment": seen}, {}
    for n in (1_000, 2_500, 5_000, 10_000, 20_000, 40_000):
        yield f"updates: {n:,}", {**usual, "updates": n}, {}
    for n in (2_000, 4_000, 8_000, 16_000, 32_000):
        yield f"states: {n:,}", {**usual, "states": n}, {}
    for n in (0, 1, 2, 4):
        yield f"rounds of the student's play: {n}", {**usual, "rounds": n}, {}
    for level in (1, 2, 3, 4, 5):
        yield f"severities: {level}, before", None, {"severity": level}
        yield f"severities: {level}, hardened", usual, {"severity": level}
    for mode in ("frozen", "falling"):
        yield f"modes: {mode}, before", None, {"mode": mode}
        yield f"modes: {mode}, hardened", usual, {"mode": mode}


def measure(run: str, env: str | None, variant: Variant, episodes: int, seed: int) -> dict[str, Any]:
    """One line of the file."""
    name, recipe, asked = variant
    agent, began = run if ":" in run else DSAC.load(run), time.process_time()
    student = agent if recipe is None else harden(agent, env, seed=seed, trust=True, **recipe)
    seconds = time.process_time() - began
    policies = ["greedy"] if student is run else ["greedy", "sampled"]  # a DQN has no other
    rows = evaluate(student, env, episodes=episodes, policy=policies, shifts=["id", *WEATHER], trust=True, **asked)
    scores = {f"{row['shift']} {row['policy']}": float(np.mean(row["returns"])) for row in rows}
    facts = {name: rows[0][name] for name in ("env", "train_seed", "step")}
    return {
        "run": run,
        **facts,
        "variant": name,
        "episodes": episodes,
        "seed": seed,
        "seconds": round(seconds, 1),
    } | scores


def show(lines: list[dict[str, Any]], console: Console) -> None:
    """Mean share kept over runs, greedy and sampled, per variant."""
    clean = {line["run"]: line for line in lines if line["variant"] == "parts: before"}
    conditions = [f"{shift} {policy}" for policy in ("greedy", "sampled") for shift in ("id", *WEATHER)]
    table = Table(title="share of the clean score before hardening that is kept, mean over runs")
    for heading in ("recipe", "runs", *conditions, "CPU s"):
        table.add_column(heading, justify="left" if heading == "recipe" else "right")
    for name in dict.fromkeys(line["variant"] for line in lines):
        own = [line for line in lines if line["variant"] == name and line["run"] in clean]
        shares = []
        for condition in conditions:
            policy = condition.split()[1]
            kept = []
            for line in own:
                random = getattr(scale(line["env"]), "random", 0.0)
                before = clean[line["run"]]
                best = before.get(f"id {policy}", before["id greedy"])
                if condition in line:
                    kept.append((line[condition] - random) / (best - random))
            shares.append(f"{np.mean(kept):.2f}" if kept else "-")
        table.add_row(name, str(len(own)), *shares, f"{np.mean([line['seconds'] for line in own]):.0f}" if own else "-")
    console.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", metavar="AGENT", help="run folders, saved agents, or sb3:FILE")
    parser.add_argument("--env", help="environment of an agent that does not know it")
    parser.add_argument("--out", type=Path, default=Path("hardening.jsonl"), help="file of the results")
    parser.add_argument("--only", nargs="+", default=[], help="groups of recipes, by the beginning of their names")
    parser.add_argument("--updates", type=int, default=20_000, help="updates where these do not vary")
    parser.add_argument("--states", type=int, default=16_000, help="states where these do not vary")
    parser.add_argument("--episodes", type=int, default=10, help="games per condition")
    parser.add_argument("--seed", type=int, default=0, help="of hardening")
    args = parser.parse_args()
    use_one_thread()
    keep_freed_memory()
    console = Console(width=160)
    lines = [json.loads(text) for text in args.out.read_text().splitlines()] if args.out.exists() else []
    for variant in variants(args.updates, args.states):
        wanted = not args.only or variant[0].startswith(("parts: before", *args.only))
        for run in args.runs if wanted else ():
            if any((line["run"], line["variant"]) == (run, variant[0]) for line in lines):
                continue
            lines.append(measure(run, args.env, variant, args.episodes, args.seed))
            with args.out.open("a") as file:
                file.write(json.dumps(lines[-1]) + "\n")
    show(lines, console)


if __name__ == "__main__":
    main()
