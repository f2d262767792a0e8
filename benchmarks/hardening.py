"""What each part of hardening is worth: one agent, many recipes, the share of its score that each student keeps.

    python benchmarks/hardening.py AGENT [AGENT...] --out parts.jsonl --only updates sets --episodes 10
    python benchmarks/hardening.py sb3:dqn.zip --env MsPacman --only parts
    python benchmarks/hardening.py CATCH_RUN [CATCH_RUN...] --updates 3000 --states 3000 --episodes 200
    python benchmarks/hardening.py --out docs/studies/rows/hardening-atari.jsonl --markdown

AGENT is anything that `dsacc evaluate` takes, and a file of Stable-Baselines3 is trusted. Without any, nothing is run
and the tables of the file are printed.

The share kept is (score - random) / (clean score of the agent before hardening - random). Each line of the file is one
student (or the agent itself) with its raw scores, so a second call does what is missing and prints the tables of all:
one per environment, the mean over agents and, where there are several, the worst of them. Students are run folders
beside the file, so a call that was stopped goes on where it was, and no recipe is made twice. CPU seconds are of
hardening, of this call alone: near 0 where the student was there already.

A greedy agent meets hardly any randomness in some Atari games: ten games may be four different ones. Its score is luck.
`--only sticky` plays with actions that stick with a probability of 0.1 per frame, the agent before hardening too.
"""

import argparse
import hashlib
import json
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from dsacc import DSAC, evaluate, harden
from dsacc.analysis.references import scale
from dsacc.envs import EnvSource, make_env
from dsacc.hardening.work import STATES, UPDATES
from dsacc.shifts import register_augmentation, resolve
from dsacc.system.memory import keep_freed_memory
from dsacc.system.threads import use_one_thread

register_augmentation("nothing", lambda rng, shape: lambda picture, other: picture)
WEATHER = ("snow", "rain", "fog")
CONDITIONS = [f"{shift} {policy}" for policy in ("greedy", "sampled") for shift in ("id", *WEATHER)]
GENERIC = resolve("generic")
BEFORE, STICKY = "parts: before", "sticky: before"  # what others are compared with
Variant = tuple[str, dict[str, Any] | None, dict[str, Any]]  # group and name, keywords of `harden`, of `evaluate`


def variants(updates: int, states: int) -> Iterator[Variant]:
    """All recipes, by group. None hardens nothing."""
    usual: dict[str, Any] = {"updates": updates, "states": states}
    yield BEFORE, None, {}
    yield "parts: hardened", usual, {}
    yield "parts: near", {**usual, "augment": "near"}, {}
    yield "parts: clean pictures alone", {**usual, "augment": ["nothing"]}, {}
    yield "begun: as a copy of the agent", {**usual, "fresh": False}, {}
    yield "encoder: nature", {**usual, "encoder": "nature"}, {}
    for name in ("none", "high-pass"):
        yield f"seen through: {name}", {**usual, "picture_filter": name}, {}
    for kind in GENERIC:
        yield f"sets: without {kind}", {**usual, "augment": [k for k in GENERIC if k != kind]}, {}
    for left_out in WEATHER:
        seen = [*GENERIC, *(shift for shift in WEATHER if shift != left_out)]
        yield f"weather: all but {left_out}", {**usual, "augment": seen}, {}
    for n in (1_000, 2_000, 4_000, 8_000, 16_000, 40_000):
        yield f"updates: {n:,}", {**usual, "updates": n}, {}
    for n in (500, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000):
        yield f"states: {n:,}", {**usual, "states": n}, {}
    for n in (0, 1, 2, 4):
        yield f"rounds of the student's play: {n}", {**usual, "rounds": n}, {}
    for level in (1, 2, 3, 4, 5):
        yield f"severities: {level}, before", None, {"severity": level}
        yield f"severities: {level}, hardened", usual, {"severity": level}
    for mode in ("frozen", "falling"):
        yield f"modes: {mode}, before", None, {"mode": mode}
        yield f"modes: {mode}, hardened", usual, {"mode": mode}
    yield STICKY, None, {"sticky": 0.1}
    yield "sticky: hardened", usual, {"sticky": 0.1}
    yield "sticky: near", {**usual, "augment": "near"}, {"sticky": 0.1}


def measure(run: str, env: str | None, variant: Variant, episodes: int, seed: int, kept: Path) -> dict[str, Any]:
    """One line of the file. Students and their games are kept in folders below `kept`, one per agent and recipe."""
    name, recipe, asked = variant
    key = hashlib.sha256(json.dumps([run, recipe, seed], sort_keys=True).encode()).hexdigest()[:8]
    folder = kept / f"{Path(run).stem}-{key}"
    agent, began = run if ":" in run else DSAC.load(run), time.process_time()
    student = agent if recipe is None else harden(agent, env, seed=seed, trust=True, out=folder, **recipe)
    seconds = time.process_time() - began
    policies = ["greedy"] if student is run else ["greedy", "sampled"]  # a DQN has no other
    sticky = asked.get("sticky", 0.0)
    game = agent.config.env if env is None and isinstance(agent, DSAC) else str(env)
    where: EnvSource | None = partial(make_env, game, sticky=sticky) if sticky else env
    games = folder.with_name(f"{folder.name}-sticky") if sticky else folder
    asked = {key: value for key, value in asked.items() if key != "sticky"}
    rows = evaluate(
        student, where, episodes=episodes, policy=policies, shifts=["id", *WEATHER], out=games, trust=True, **asked
    )
    facts = {name: rows[0][name] for name in ("env", "train_seed", "step")}
    line = {"run": run, **facts, "variant": name, "episodes": episodes, "seed": seed, "seconds": round(seconds, 1)}
    returns = {f"{row['shift']} {row['policy']}": row["returns"] for row in rows}
    return {**line, "returns": returns, **{condition: float(np.mean(scores)) for condition, scores in returns.items()}}


def shares(line: dict[str, Any], before: dict[str, Any]) -> dict[str, float]:
    """The share kept by condition, of the agent's clean score under the same policy."""
    known = scale(line["env"])
    random = 0.0 if known is None else known.random
    kept = {}
    for condition in (condition for condition in CONDITIONS if condition in line):
        best = before.get(f"id {condition.split()[1]}", before["id greedy"])  # a DQN's student samples, a DQN does not
        kept[condition] = (line[condition] - random) / (best - random)
    return kept


def tables(lines: list[dict[str, Any]]) -> Iterator[tuple[str, list[list[str]]]]:
    """By environment: one row per recipe, the mean share over agents and in brackets the worst."""
    before = {(line["run"], line["variant"]): line for line in lines if line["variant"] in (BEFORE, STICKY)}
    for env in dict.fromkeys(line["env"] for line in lines):
        rows = []
        for name in dict.fromkeys(line["variant"] for line in lines):
            same = STICKY if name.startswith("sticky") else BEFORE
            own = [line for line in lines if (line["env"], line["variant"]) == (env, name)]
            own = [line for line in own if (line["run"], same) in before]
            kept = [shares(line, before[line["run"], same]) for line in own]
            cells = [_cell([k[condition] for k in kept if condition in k]) for condition in CONDITIONS]
            if own:
                rows.append([name, str(len(own)), *cells, f"{np.mean([line['seconds'] for line in own]):.0f}"])
        yield env, rows


def _cell(kept: list[float]) -> str:
    return "-" if not kept else f"{np.mean(kept):.2f}" + (f" ({min(kept):.2f})" if len(kept) > 1 else "")


def show(lines: list[dict[str, Any]], markdown: bool) -> None:
    headings = ["recipe", "agents", *CONDITIONS, "CPU s"]
    for env, rows in tables(lines):
        if markdown:
            lines_of_table = (headings, ["---"] * len(headings), *rows)
            print(f"\n{env}\n", *(f"| {' | '.join(row)} |" for row in lines_of_table), sep="\n")
            continue
        table = Table(title=f"{env}: share of the clean score before hardening that is kept, mean (worst agent)")
        for heading in headings:
            table.add_column(heading, justify="left" if heading == "recipe" else "right")
        for row in rows:
            table.add_row(*row)
        Console(width=200).print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="*", metavar="AGENT", help="run folders, saved agents, or sb3:FILE")
    parser.add_argument("--env", help="environment of an agent that does not know it")
    parser.add_argument("--out", type=Path, default=Path("hardening.jsonl"), help="file of the results")
    parser.add_argument("--only", nargs="+", default=[], help="groups of recipes, by the beginning of their names")
    parser.add_argument("--updates", type=int, default=UPDATES, help="updates where these do not vary")
    parser.add_argument("--states", type=int, default=STATES, help="states where these do not vary")
    parser.add_argument("--episodes", type=int, default=10, help="games per condition")
    parser.add_argument("--seed", type=int, default=0, help="of hardening")
    parser.add_argument("--markdown", action="store_true", help="print the tables for a page of the docs")
    args = parser.parse_args()
    if not args.runs and not args.out.exists():
        parser.error(f"there is no file {args.out} to print; name an agent to make it")
    use_one_thread()
    keep_freed_memory()
    lines = [json.loads(text) for text in args.out.read_text().splitlines()] if args.out.exists() else []
    compared = [] if all(name.startswith("sticky") for name in args.only) else [BEFORE]
    for variant in variants(args.updates, args.states):
        wanted = variant[0].startswith((*compared, *args.only)) if args.only else not variant[0].startswith("sticky")
        for run in args.runs if wanted else ():
            if any((line["run"], line["variant"]) == (run, variant[0]) for line in lines):
                continue
            lines.append(measure(run, args.env, variant, args.episodes, args.seed, args.out.with_suffix("")))
            with args.out.open("a") as file:
                file.write(json.dumps(lines[-1]) + "\n")
    show(lines, args.markdown)


if __name__ == "__main__":
    main()
