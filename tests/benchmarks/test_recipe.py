"""The table of a screen of recipes: from real runs of a tiny one, and its rule, worked out by hand."""

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.scripts import script

from dsacc import DSAC, evaluate
from dsacc.experiments.grids import load_plan
from dsacc.experiments.plan import write_plan

GRID = """
envs = ["dsacc/Catch-v0"]
agents = ["dsac-m"]
seeds = [0, 1]
steps = 80
preset = "efficient"
order = "seeds"
[settings]
random_steps = 20
log_every = 10
encoder = "small"
hidden = 16
batch_size = 4
actor_learning_rate = 0.1
target_tau = 0.5
[[variants]]
label = "efficient"
[[variants]]
label = "warm"
settings = { alpha = 1.0 }
[[variants]]
label = "later"
settings = { noise_std = 0.5 }
[tests]
episodes = 8
policy = ["sampled", "greedy"]
"""
RANDOM, BEST = 2 * 2 / 7 - 1, 1.0  # Catch's scores of a player that does not look, and of the best


@pytest.fixture(scope="module")
def recipe() -> Any:
    return script("benchmarks/recipe.py")


@pytest.fixture(scope="module")
def screen(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two of three variants are finished with both seeds."""
    out = tmp_path_factory.mktemp("screen")
    (out / "grid.toml").write_text(GRID)
    plan = load_plan(out / "grid.toml")
    write_plan(plan, out)
    for run in [run for run in plan.runs if run.label != "later"]:
        model = DSAC(run.env, "mean", run.preset, run.seed, **run.settings).learn(80, out=out / "runs" / run.name)
        evaluate(model, run.env, shifts=("id",), episodes=8, policy=("sampled", "greedy"), out=out / "runs" / run.name)
    return out


def test_candidates_are_compared_with_the_baseline_of_the_same_seed_and_what_is_missing_is_said(recipe, screen, capsys):
    assert recipe.main([str(screen), "--reference", "human", "--csv", str(screen / "runs.csv")]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("4 of 6 runs are finished and tested. Normalised by human.")
    assert "| later |" in shown
    assert "open (0 of 2)" in shown
    gains = []
    plan = load_plan(screen / "grid.toml")
    for seed in (0, 1):
        figures = {}
        for run in [run for run in plan.runs if run.seed == seed and run.label != "later"]:
            folder = screen / "runs" / run.name
            rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
            returns, last = [], None
            for row in rows:
                last = last if row["return"] is None else row["return"]
                returns += [last] if row["step"] > 20 and last is not None else []
            tests = [json.loads(p.read_text()) for p in (folder / "evaluations").glob("*.json")]
            games = [np.mean(row["returns"]) for test in tests for row in test]
            assert len(games) == 2
            figures[run.label] = (np.mean(returns) + np.mean(games)) / 2
        gains.append((figures["warm"] - figures["efficient"]) / (BEST - RANDOM))
    assert any(gains)
    error = abs(gains[0] - gains[1]) / 2
    assert f"| warm | {np.mean(gains):+.3f} ± {error:.3f} |" in shown
    lines = list(csv.DictReader((screen / "runs.csv").read_text().splitlines()))
    assert [(line["candidate"], line["seed"]) for line in lines] == [
        (name, seed) for seed in "01" for name in ("efficient", "warm", "later")
    ]
    assert [line["area"] == "" for line in lines] == [False, False, True] * 2


def test_folders_count_together_and_a_run_that_both_plan_counts_once(recipe, screen, tmp_path, capsys):
    (tmp_path / "grid.toml").write_text(GRID.replace("later", "sooner").replace("0.5 }", "0.25 }"))
    second = load_plan(tmp_path / "grid.toml")
    write_plan(second, tmp_path)
    both = recipe.read_folders([tmp_path, screen])
    assert [(e.run.label, e.run.seed, e.result is None) for e in both] == [
        ("efficient", 0, False),
        ("warm", 0, False),
        ("sooner", 0, True),
        ("efficient", 1, False),
        ("warm", 1, False),
        ("sooner", 1, True),
        ("later", 0, True),
        ("later", 1, True),
    ]
    (tmp_path / "grid.toml").write_text(GRID.replace("steps = 80", "steps = 90"))
    write_plan(load_plan(tmp_path / "grid.toml"), tmp_path)
    assert recipe.main([str(screen), str(tmp_path)]) == 2
    assert capsys.readouterr().err == "recipe.py: runs of 80 and 90 steps cannot be compared\n"


def test_curves_are_means_over_steps_and_leave_the_random_ones_out(recipe, screen, capsys):
    rows = ({"step": 10, "return": 1.0}, {"step": 20, "return": None}, {"step": 40, "return": 4.0})
    run = load_plan(screen / "grid.toml").runs[0]  # its first 20 steps are random
    done = recipe.Entry(run, "finished", "", recipe.Result(0.0, {"sampled": 7.0}, rows))
    line = recipe.curves([done, recipe.Entry(run, "waiting", "", None)], 40).splitlines()[-1]
    assert line == "| efficient | dsacc/Catch-v0, seed 0 | 4.0 | nan | 7.0 |"  # nothing was logged from 40 to 80
    assert recipe.main([str(screen), "--reference", "human", "--curves", "40"]) == 0
    assert "| candidate | run | to 40 | to 80 | greedy | sampled |" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        recipe.main([str(screen), "--curves", "0"])


def test_a_baseline_or_reference_that_is_not_there_is_one_sentence(recipe, screen, tmp_path, capsys):
    for arguments in (["--baseline", "paper"], ["--reference", "dreamer"]):
        assert recipe.main([str(screen), *arguments]) == 2
    assert recipe.main([str(tmp_path)]) == 2
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 3
    assert said[0] == "recipe.py: the experiment has no variant 'paper'; it has efficient, warm, later"


def test_scores_are_normalised_by_the_reference_that_was_asked_for(recipe):
    assert recipe.scale_of("Breakout", "human") == recipe.Scale(1.7, 30.5, "human")
    assert recipe.scale_of("Breakout", "paper").top == 47.07
    assert recipe.scale_of("Seaquest", "spr_100k").top == 558.1


def verdict(recipe: Any, gains: dict[str, list[float]], below: tuple[int, int] = (0, 0), planned: int = 6) -> str:
    pairs = [recipe.Pair(game, seed, 2 * x, 0.0) for game, some in gains.items() for seed, x in enumerate(some)]
    found = recipe.Verdict("it", tuple(pairs), planned, *below)
    assert found.gain == pytest.approx(np.mean([x for some in gains.values() for x in some]))
    return str(found.helps)


def test_a_candidate_helps_by_the_rule_and_by_nothing_else(recipe):
    good = {"A": [0.1, 0.2], "B": [0.2, 0.1], "C": [0.1, 0.1]}
    assert verdict(recipe, good) == "**yes**"
    assert verdict(recipe, {**good, "C": [-0.01, -0.02]}) == "**yes**"  # four of six
    assert verdict(recipe, good, planned=8) == "open (6 of 8)"
    assert verdict(recipe, {"A": [0.1], "B": [-0.1], "C": [-0.1]}) == "open (3 of 6)"  # the other three may be better
    assert verdict(recipe, {"A": [-0.1], "B": [0.0], "C": [-0.1]}) == "no: too few pairs (3 of 6 run)"
    assert verdict(recipe, {"A": [-0.1, 0.0], "B": [0.0, 0.0], "C": [0.0, 0.0]}) == "no"
    assert verdict(recipe, {"A": [0.9, -0.8], "B": [0.1, 0.1], "C": [0.1, 0.1]}) == "no: D is within its error"
    assert verdict(recipe, {"A": [0.5, 0.5], "B": [0.5, -0.01], "C": [-0.01, -0.01]}) == "no: too few pairs"
    assert verdict(recipe, {"A": [0.5, 0.5], "B": [0.5, 0.5], "C": [-0.15, -0.06]}) == "no: C"
    assert verdict(recipe, good, below=(2, 1)) == "no: more tests below random"
    assert verdict(recipe, good, below=(1, 1)) == "**yes**"


def test_a_run_counts_only_where_the_baselines_is_finished_too_and_the_best_comes_first(recipe, screen):
    def entry(label: str, seed: int, area: float | None) -> Any:
        run = next(r for r in load_plan(screen / "grid.toml").runs if (r.label, r.seed) == (label, seed))
        result = None if area is None else recipe.Result(area, {"sampled": 0.0, "greedy": 0.0})
        return recipe.Entry(run, "finished", "", result)

    areas = {"efficient": (0.0, None), "warm": (0.1, 5.0), "later": (0.2, 0.3)}
    entries = [entry(label, seed, area) for label, some in areas.items() for seed, area in enumerate(some)]
    found = recipe.verdicts(entries, "efficient", "human")
    assert [(v.label, [pair.seed for pair in v.pairs], v.helps) for v in found] == [
        ("later", [0], "open (1 of 2)"),
        ("warm", [0], "open (1 of 2)"),
    ]
    assert found[0].gain == pytest.approx(0.1 / (BEST - RANDOM))
