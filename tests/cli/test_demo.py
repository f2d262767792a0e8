"""The demo, shortened: the same processes, files and table."""

import dataclasses
import io
import json

from PIL import Image
from rich.console import Console

from dsacc.analysis.rows import Row
from dsacc.cli.demo_pictures import telling_ball
from dsacc.cli.demo_run import run_demo
from dsacc.config import AGENTS, make_config
from dsacc.experiments.grids import load_plan
from dsacc.experiments.plan import Plan, Stage, Tests


def short_plan() -> Plan:
    plan = load_plan("demo")
    settings = {"random_steps": 100, "log_every": 40}
    runs = tuple(
        dataclasses.replace(
            run,
            steps=160,
            settings=settings,
            harden=tuple(dataclasses.replace(stage, updates=8, states=128) for stage in run.harden),
        )
        for run in plan.runs
    )
    return dataclasses.replace(plan, runs=runs, tests=dataclasses.replace(plan.tests, episodes=10))


def test_the_demo_trains_tests_and_says_where_the_results_are(tmp_path, capsys):
    out, plan = tmp_path / "demo", short_plan()
    rows = run_demo(out, plan)
    assert sorted((r.agent, r.shift, r.policy) for r in rows) == [
        (agent, shift, policy)
        for agent in ("dsac", "dsac-m", "dsac-m, hardened")
        for shift in ("fog", "id", "rain", "snow")
        for policy in ("greedy", "sampled")
    ]
    assert json.loads((out / "results.json").read_text()) == [row.sealed() for row in rows]
    assert all(len(r.returns) == 10 and set(r.returns) <= {-1.0, 1.0} for r in rows)
    said = capsys.readouterr().out
    for agent, progress in (("dsac", "step 160/160"), ("dsac-m", "step 160/160"), ("dsac-m, hardened", "update 8/8")):
        assert f"{agent:16} {progress}" in said
    assert "Then hardening dsac-m: a student learns to do the same from disturbed pictures" in said
    (line,) = [line for line in said.splitlines() if line.strip().startswith("dsac-m, hardened") and "unseen" in line]
    assert line.count("unseen") == 3
    assert f"results: {out / 'results.json'}" in said
    assert f"The agents in fog: {out / 'fog.png'}" in said
    assert f"Learning curves: {out / 'curves.png'}" in said
    assert f"Report: {out / 'report.html'}" in said
    assert said.splitlines()[-1].startswith("Next: dsacc train ")
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "One seed each, so there is no interval" in page
    assert "Catch-v0, from left to right: clean, snow, rain, fog" in page
    for file in ("fog.png", "curves.png"):
        with Image.open(out / file) as picture:
            assert picture.width > 1000
    for name in [what.name for run in plan.runs for what in run.family]:
        assert json.loads((out / "runs" / name / "status.json").read_text())["state"] == "finished"

    (out / "tasks" / f"{plan.names[0]}.json").unlink()  # so that one run is looked at again
    screen = io.StringIO()
    assert run_demo(out, plan, Console(file=screen, force_terminal=True, width=120)) == rows
    shown = screen.getvalue()
    assert "2 runs, 1 done" in shown
    assert "3 finished" in shown  # the live table, at its end


def test_the_picture_shows_the_first_ball_that_only_the_last_agent_catches():
    def fog(*returns: float) -> Row:
        about = ("dsacc/Catch-v0", "dsac", 0, 0, 160, "fog", "paper", "independent", "greedy")
        return Row(*about, returns=list(returns), lengths=[6] * len(returns))

    assert telling_ball([fog(-1, 1, -1, -1), fog(-1, -1, -1, -1), fog(-1, 1, 1, 1)])[0] == 2
    number, why = telling_ball([fog(1, 1), fog(-1, 1)])
    assert (number, "only" in why) == (0, False)


def test_the_grid_has_the_settings_of_the_demo():
    plan = load_plan("demo")
    assert [(run.env, run.agent, run.seed, run.steps, run.preset) for run in plan.runs] == [
        ("dsacc/Catch-v0", agent, 0, 3_000, "efficient") for agent in ("dsac", "dsac-m")
    ]
    changed = {"learning_rate": 1e-3, "random_steps": 500, "log_every": 100}
    assert all(
        run.config == make_config("efficient", env=run.env, constraint=AGENTS[run.agent], **changed)
        for run in plan.runs
    )
    assert [run.harden for run in plan.runs] == [(), (Stage(("generic",), 2_000, 2_000, 2, fresh=True),)]
    assert plan.tests == Tests(("id", "snow", "rain", "fog"), episodes=200, policy=("greedy", "sampled"))
