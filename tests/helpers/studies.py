"""Studies for tests of pages: folders in the real format with made-up numbers, without any training.

Everything here is SYNTHETIC, and every study's name says so.
"""

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dsacc.analysis.names import PAPER_SHIFTS as SHIFTS
from dsacc.analysis.references import paper_table, reference_scores
from dsacc.analysis.rows import Row
from dsacc.experiments.driver import collect
from dsacc.experiments.plan import Plan, Run, Tests, write_plan
from dsacc.experiments.task import TaskFile
from dsacc.play.store import RowStore
from dsacc.runs.folder import FORMAT

NINE = tuple(reference_scores())
THREE = ("dsac", "dsac-m", "dsac-v")


def synthetic_study(
    out: Path,
    games: Sequence[str] = ("Breakout",),
    agents: Sequence[str] = ("dsac", "dsac-m"),
    seeds: int = 3,
    steps: int = 100_000,
    severity: tuple[str | int, ...] = ("paper",),
    policy: tuple[str, ...] = ("greedy", "sampled"),
    labels: Sequence[str] = ("",),
    points: int = 100,
    shifts: tuple[str, ...] = SHIFTS,
    checks: int = 0,
) -> Plan:
    """A finished experiment as `dsacc experiment` would leave it, except for checkpoints. It has `checks` tests during
    training, as `dsacc train --evaluate-every` makes them."""
    runs = [
        Run(game, agent, seed, steps, "efficient", {"noise_std": 1.0 + i} if i else {}, label)
        for i, label in enumerate(labels)
        for game in games
        for agent in agents
        for seed in range(seeds)
    ]
    tests = Tests(shifts, severity, episodes=10, policy=policy)
    plan = Plan("SYNTHETIC study, numbers made up for a test", tuple(runs), tests)
    write_plan(plan, out)
    for i, run in enumerate(runs):
        write_run(out / "runs" / run.name, run, tests, np.random.default_rng([7, i]), points)
        _write_checks(out / "runs" / run.name, run, tests, np.random.default_rng([8, i]), checks)
        task = TaskFile(out, run.name)
        task.begin(run, tests)
        task.set("done")
    (out / "results.json").write_text(json.dumps([row.to_json() for row in collect(plan, out)], indent=2))
    return plan


def write_run(path: Path, run: Run, tests: Tests, rng: np.random.Generator, points: int = 100) -> None:
    """A run folder with settings, metrics, times, status and tests."""
    path.mkdir(parents=True)
    config = dataclasses.asdict(run.config)
    content = {
        "format": FORMAT,
        "run_id": run.config.run_id,
        "agent": run.agent,
        "config": config,
        "runtime": {"device": "cpu", "threads": 1},
        "versions": {"python": "3.11.7", "dsacc": "0.1.0", "torch": "2.13.0"},
    }
    (path / "config.json").write_text(json.dumps(content, indent=2))
    status = {"state": "finished", "step": run.steps, "steps": run.steps, "run_id": run.config.run_id, "pid": 1}
    (path / "status.json").write_text(json.dumps(status))
    rows = _metrics(run, rng, points)
    (path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    times = [{"step": r["step"], "seconds": round(r["step"] / 55, 3), "steps_per_second": 55.0} for r in rows]
    (path / "timing.jsonl").write_text("".join(json.dumps(row) + "\n" for row in times))
    store = RowStore(path, f"synthetic {run.name}")
    skill = rng.normal(0.0, 0.25)
    for policy in tests.policy:
        for shift in tests.shifts:
            for level in tests.severity if shift != "id" else (None,):
                mode = None if shift == "id" else tests.mode
                mean = _score(run, shift, level) * (1 + skill) * (1.0 if policy == "greedy" else 0.93)
                returns = np.maximum(rng.normal(mean, abs(mean) * 0.2 + 0.5, tests.episodes), -20).round(0).tolist()
                about = (run.env, run.agent, run.seed, tests.seed, run.steps, shift, level, mode, policy)
                store.save(Row(*about, returns=returns, lengths=[100] * len(returns)))


def _write_checks(path: Path, run: Run, tests: Tests, rng: np.random.Generator, checks: int) -> None:
    store = RowStore(path, f"synthetic {run.name}")
    for i in range(1, checks + 1):
        for policy in tests.policy:
            mean = _score(run, "id", None) * (1 - np.exp(-3 * i / (checks + 1))) * (1.0 if policy == "greedy" else 0.9)
            returns = rng.normal(mean, abs(mean) * 0.2 + 0.5, 5).round(0).tolist()
            about = (run.env, run.agent, run.seed, tests.seed, run.steps * i // (checks + 1), "id", None, None, policy)
            store.save(Row(*about, returns=returns, lengths=[100] * len(returns)))


def _score(run: Run, shift: str, level: Any) -> float:
    """Near the paper's score and lower with severity. Without one, it grows with the length of the name."""
    known = paper_table().get((run.env, shift, run.agent))
    clean = paper_table().get((run.env, "id", run.agent))
    if known is None or clean is None:
        return 1.0 + len(run.agent) / 10 - (0 if shift == "id" else 0.5)
    return known.mean if not isinstance(level, int) else clean.mean + (known.mean - clean.mean) * level / 2.5


def _metrics(run: Run, rng: np.random.Generator, points: int) -> list[dict[str, Any]]:
    top = _score(run, "id", None) * (1 + rng.normal(0, 0.2))
    rows = []
    for i in range(1, points + 1):
        x = i / points
        row: dict[str, Any] = {"step": run.steps * i // points, "updates": i, "episodes": i}
        played = rng.random() > 0.1
        row["return"] = float(top * (1 - np.exp(-3 * x)) + rng.normal(0, abs(top) * 0.15)) if played else None
        row |= {"critic_loss": 0.1, "actor_loss": -0.1, "alpha": 0.1}
        row["entropy"] = float(1.3 - 0.6 * x + (0.15 if run.agent == "dsac-m" else 0) + rng.normal(0, 0.03))
        row["q_mean"] = float(2 * x + (0 if run.agent == "dsac" else -0.4 * x) + rng.normal(0, 0.05))
        row["expected_error"] = float(abs((0.2 if run.agent == "dsac" else 0.1) * (1 - 0.5 * x) + rng.normal(0, 0.01)))
        if run.agent != "dsac":
            row["lambda"] = float(np.clip(0.8 - 0.4 * np.exp(-5 * x) + rng.normal(0, 0.03), 0, 1))
            row["lambda_at_lower"], row["lambda_at_upper"] = float(0.4 - 0.1 * x), float(0.1 + 0.2 * x)
            row["constraint_residual"] = -0.1
        rows.append(row)
    return rows


def change_rows(path: Path, old: str, new: str) -> None:
    """Another text in a file of rows, as if dsacc had written it so: with the checksums that fit."""
    rows = json.loads(path.read_text().replace(old, new))
    bare = [{key: value for key, value in row.items() if key != "sha256"} for row in rows]
    path.write_text(json.dumps([Row.from_json(row).sealed() for row in bare], indent=2))
