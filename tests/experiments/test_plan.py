"""Grids become plans: every run once, named as `dsacc train` names it, and every mistake one sentence."""

import dataclasses
import tarfile
from pathlib import Path

import pytest
from helpers.extras import minatar

from dsacc.cli import main
from dsacc.config import AGENTS, PRESETS, make_config
from dsacc.dsac import DSAC
from dsacc.errors import ConfigError, RunError
from dsacc.experiments.grids import Overrides, builtin_names, load_plan
from dsacc.experiments.plan import Plan, Run, Tests, read_plan, why_not_grown, write_plan

ROWS = Path(__file__).resolve().parents[2] / "docs" / "studies" / "rows"
GRID = """
envs = ["CartPole-v1"]
agents = ["dsac", "dsac-m"]
seeds = 2
steps = 100
[settings]
hidden = 16
[tests]
episodes = 2
"""


def plan_of(text: str, tmp_path, **overrides) -> Plan:
    path = tmp_path / "grid.toml"
    path.write_text(text)
    return load_plan(path, Overrides(**overrides))


def test_the_built_in_grids_are_what_they_say():
    first = ["demo", "hardening-atari", "hardening-catch", "lowdata", "minatar-lambda", "minatar-paper"]
    second = ["minatar-readings", "paper", "paper-100k", "readings", "readings-catch", "recipe-long"]
    assert builtin_names() == [*first, *second, "recipe-screen", "recipe-six", "smoke"]
    paper, small = load_plan("paper"), load_plan("paper-100k")
    assert (len(paper.runs), {r.steps for r in paper.runs}, {r.seed for r in paper.runs}) == (
        81,
        {1_000_000},
        {0, 1, 2},
    )
    assert (len(small.runs), {r.steps for r in small.runs}, len({r.seed for r in small.runs})) == (135, {100_000}, 5)
    assert {r.env for r in paper.runs} == {r.env for r in small.runs}
    assert len({r.env for r in paper.runs}) == 9
    assert paper.tests.shifts == ("id", "snow", "rain", "fog")
    assert paper.tests.conditions == 8
    assert paper.notes == small.notes == ()
    assert [r.seed for r in small.runs] == sorted(r.seed for r in small.runs)  # each round is a whole answer
    assert ({len(r.students) for r in small.runs}, {len(r.students) for r in paper.runs}) == ({1}, {0})


def test_lowdata_runs_its_control_after_the_games_of_the_others():
    runs = load_plan("lowdata").runs
    assert [(r.config.constraint, r.config.fixed_lambda) for r in runs] == [(None, None), ("mean", None)] * 3 + [
        ("mean", 0.5)
    ] * 3
    assert [r.env for r in runs] == [e for e in ("UpNDown", "Breakout", "MsPacman") for _ in range(2)] + [
        "UpNDown",
        "Breakout",
        "MsPacman",
    ]


@pytest.mark.parametrize(("grid", "steps"), [("recipe-screen", 30_000), ("recipe-long", 100_000)])
def test_the_screens_of_recipes_go_seed_by_seed_and_each_candidate_changes_something(grid, steps):
    plan = load_plan(grid)
    labels = list(dict.fromkeys(run.label for run in plan.runs))
    games = ("Breakout", "MsPacman", "Seaquest")
    assert [(r.seed, r.label, r.env) for r in plan.runs] == [(s, n, g) for s in (0, 1) for n in labels for g in games]
    assert labels[0] == "efficient"
    assert plan.runs[0].config == make_config("efficient-1", env="Breakout", constraint="mean")
    assert (plan.notes, {r.steps for r in plan.runs}, plan.tests.episodes) == ((), {steps}, 10)


def test_the_second_step_of_the_recipes_study_has_new_seeds_and_efficient_as_it_is():
    plan, first = load_plan("recipe-six"), load_plan("recipe-long")
    assert {run.seed for run in plan.runs}.isdisjoint(run.seed for run in first.runs)
    assert len({(run.env, run.agent, run.seed) for run in plan.runs}) == 6 * 2 * 2
    baseline = [run for run in plan.runs if run.label == "efficient"]
    assert len(baseline) == 24
    for run in baseline:
        own = {"env": run.env, "constraint": AGENTS[run.agent], "seed": run.seed}
        assert run.config == make_config("efficient-1", **own)


def test_the_order_of_a_grid_is_by_variants_or_by_seeds(tmp_path):
    variants = '[[variants]]\n[[variants]]\nlabel = "quiet"\nsettings = { noise_std = 0.5 }\n'
    by_variant, by_seed = (plan_of(order + GRID + variants, tmp_path) for order in ("", 'order = "seeds"'))
    assert [r.seed for r in by_variant.runs] == [0, 1] * 4
    assert [r.seed for r in by_seed.runs] == [0] * 4 + [1] * 4
    assert [r.title for r in by_seed.runs] == ["dsac", "dsac-m", "dsac, quiet", "dsac-m, quiet"] * 2
    with pytest.raises(ConfigError, match="order must be one of variants, seeds, not 'games'"):
        plan_of('order = "games"' + GRID, tmp_path)


@minatar
def test_the_grid_of_minatar_has_every_agent_and_control_with_ten_seeds_of_five_games():
    plan = load_plan("minatar-paper")
    titles = ["dsac", "dsac-m", "dsac-v", "dsac-mv", "dsac, decoupled critic entropy", "dsac-m, constant lambda"]
    games = ["Asterix", "Breakout", "Freeway", "Seaquest", "SpaceInvaders"]
    found = {(run.title, run.env, run.seed) for run in plan.runs}
    assert found == {(t, f"minatar/{g}", s) for t in titles for g in games for s in range(10)}
    assert len(plan.runs) == 300
    assert plan.tests.shifts == ("id", "snow", "rain", "fog")
    fixed = {run.env: run.config.fixed_lambda for run in plan.runs if run.label == "constant lambda"}
    assert all(value is not None for value in fixed.values())
    pilot = load_plan("minatar-lambda")
    assert {run.seed for run in pilot.runs}.isdisjoint(run.seed for run in plan.runs)
    same = [run.config for run in plan.runs if run.title == "dsac-m" and run.seed == 0]
    assert [dataclasses.replace(run.config, seed=0) for run in pilot.runs if run.seed == 100] == same


def test_a_variant_may_have_settings_for_each_environment(tmp_path):
    text = GRID.replace('["CartPole-v1"]', '["CartPole-v1", "Acrobot-v1"]') + (
        '[[variants]]\nlabel = "own"\nsettings = { gamma = 0.9, n_step = 3 }\n'
        '[variants.settings_by_env]\n"CartPole-v1" = { gamma = 0.8 }\n"Acrobot-v1" = { alpha = "none" }\n'
    )
    found = {(run.env, run.title, run.config.gamma, run.config.n_step) for run in plan_of(text, tmp_path).runs}
    own = {("CartPole-v1", 0.8), ("Acrobot-v1", 0.9)}
    assert found == {(env, f"{agent}, own", gamma, 3) for env, gamma in own for agent in ("dsac", "dsac-m")}
    assert {run.config.gamma for run in plan_of(text, tmp_path, envs=["CartPole-v1"]).runs} == {0.8}
    with pytest.raises(ConfigError, match=r"variants\[1\].settings_by_env has no settings for MountainCar-v0"):
        plan_of(text, tmp_path, envs=["MountainCar-v0"])


def test_the_command_names_every_built_in_grid(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    with pytest.raises(SystemExit):
        main(["experiment", "--help"])
    assert f"{', '.join(builtin_names())}, or a .toml file" in " ".join(capsys.readouterr().out.split())


def test_a_variant_may_take_a_setting_of_the_preset_away(tmp_path):
    text = GRID + '[[variants]]\nlabel = "tuned"\nsettings = { alpha = "none", actor_learning_rate = "none" }\n'
    configs = [r.config for r in plan_of(text, tmp_path, preset="efficient-1").runs]
    assert {(c.alpha, c.actor_learning_rate) for c in configs} == {(None, None)}


READINGS = {(p, f) for p in ("target", "weights", "values", "none") for f in ("tempered", "plain")}


@minatar
def test_the_readings_on_minatar_are_all_of_them_with_ten_seeds_of_two_games():
    plan = load_plan("minatar-readings")
    configs = [run.config for run in plan.runs]
    assert {(c.perturbation, c.multiplier_form) for c in configs if c.constraint == "mean"} == READINGS
    assert (len(plan.runs), len({c.env for c in configs}), len({c.seed for c in configs})) == (180, 2, 10)
    assert plan.notes == ()


@pytest.mark.parametrize("grid", ["readings", "readings-catch"])
def test_readings_has_every_place_of_the_noise_in_both_forms_and_the_controls(grid):
    configs = [run.config for run in load_plan(grid).runs]
    seen = {(c.perturbation, c.multiplier_form) for c in configs if c.constraint == "mean" and c.fixed_lambda is None}
    assert seen == READINGS
    assert any(c.fixed_lambda == 0.8 for c in configs)
    assert any(c.surrogate_kl == 1.0 and c.constraint is None for c in configs)
    assert {c.critic_entropy for c in configs if c.constraint is None} == {0.0, 1.0}


@pytest.mark.parametrize("env", ["CartPole-v1", "dsacc/Catch-v0", "Breakout", "ALE/Breakout-v5"])
def test_a_run_has_the_id_that_dsac_and_dsacc_train_give_it(env, tmp_path):
    text = f'envs = ["{env}"]\nagents = ["dsac-m"]\nsteps = 100\nseeds = [7]\n[settings]\nhidden = 16'
    (run,) = plan_of(text, tmp_path).runs
    model = DSAC(env, AGENTS["dsac-m"], seed=7, hidden=16)
    assert run.config == model.config
    assert run.name == model.config.run_name


def test_the_folder_that_dsacc_train_makes_has_the_runs_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["train", "CartPole-v1", "--agent", "dsac-m", "--seed", "1", "--hidden", "16", "--steps", "20"]) == 0
    run = next(r for r in plan_of(GRID, tmp_path).runs if (r.agent, r.seed) == ("dsac-m", 1))
    assert [p.name for p in (tmp_path / "runs").iterdir()] == [run.name]


def test_the_command_line_overrides_the_file(tmp_path):
    plan = plan_of(GRID, tmp_path, envs=["Acrobot-v1"], agents=["dsac-v"], seeds=3, steps=7, preset="paper")
    assert {(r.env, r.agent, r.steps, r.preset) for r in plan.runs} == {("Acrobot-v1", "dsac-v", 7, "paper")}
    assert [r.seed for r in plan.runs] == [0, 1, 2]


def test_variants_multiply_the_grid_and_equal_runs_are_run_once(tmp_path):
    text = GRID + (
        '[[variants]]\nlabel = "plain"\n[[variants]]\nlabel = "default"\nagents = ["dsac-m"]\n'
        'settings = { noise_std = 1.0 }\n[[variants]]\nlabel = "quiet"\nagents = ["dsac-m"]\n'
        'settings = { perturbation = "none" }\n'
    )
    plan = plan_of(text, tmp_path)
    assert [(r.title, r.seed) for r in plan.runs] == [
        ("dsac, plain", 0), ("dsac, plain", 1), ("dsac-m, plain", 0), ("dsac-m, plain", 1),
        ("dsac-m, quiet", 0), ("dsac-m, quiet", 1),
    ]  # fmt: skip
    assert len(plan.notes) == 2
    assert "dsac-m, default on CartPole-v1, seed 0 has the settings of dsac-m, plain" in plan.notes[0]
    assert [r.config.perturbation for r in plan.runs][-1] == "none"


def test_an_empty_variant_is_the_grid_as_it_is(tmp_path):
    plan = plan_of(GRID + '[[variants]]\n[[variants]]\nlabel = "short"\nsettings = { n_step = 3 }\n', tmp_path)
    assert [r.title for r in plan.runs if r.seed == 0] == ["dsac", "dsac-m", "dsac, short", "dsac-m, short"]


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("steps = 100", "stepz = 100", "unknown key stepz; did you mean 'steps'?"),
        ("steps = 100", "", "steps is missing"),
        ("steps = 100", "steps = 0", "steps must be a whole number of at least 1, not 0"),
        ("steps = 100", "steps = true", "steps must be a whole number"),
        ("CartPole-v1", "CartPole-v9", "envs: there is no environment 'CartPole-v9'; did you mean 'CartPole-v1'?"),
        ("CartPole-v1", "Pendulum-v1", "envs: actions of type Box are not supported"),
        ('"dsac-m"]', '"dsac-x"]', "agents must be one of dsac, dsac-m, dsac-v, dsac-mv, not 'dsac-x'"),
        ('"dsac-m"]', '"dsac"]', "agents names something twice"),
        ("seeds = 2", "seeds = [1, 1]", "seeds must be a number of seeds, or a list of different ones"),
        ("seeds = 2", "seeds = 0", "seeds must be a number"),
        ("hidden = 16", "hiden = 16", "settings: unknown setting 'hiden'; did you mean 'hidden'?"),
        ("hidden = 16", "hidden = 0", "settings: hidden must be at least 1, not 0"),
        ("hidden = 16", "seed = 1", "settings.seed is not a setting here; use seeds instead"),
        ("episodes = 2", "episode = 2", "unknown key tests.episode; did you mean 'episodes'?"),
        ("episodes = 2", "episodes = 0", "tests.episodes must be a whole number of at least 1"),
        ("episodes = 2", 'policy = "best"', "tests.policy must be one of greedy, sampled, or both, not 'best'"),
        ("episodes = 2", "severity = 6", "tests.severity must be 'paper', 1 to 5, or a list of these, not 6"),
        ("episodes = 2", 'mode = "odd"', "tests.mode must be one of independent, frozen, falling, not 'odd'"),
        (
            "episodes = 2",
            'every = 50\nevery_shifts = ["fog"]',
            "tests.every_shifts must be some of tests.shifts, and fog is",
        ),
        (
            "episodes = 2",
            'every_shifts = ["id"]',
            "tests.every_shifts is for tests during training; give tests.every too",
        ),
        ("[tests]", "[[tests]]", "tests must be a table"),
        ("[tests]", '[[variants]]\nlabel = ""\n[tests]', "variants[1].label must be a text"),
        ("[tests]", '[[variants]]\nlabel = "a"\nagent = 1\n[tests]', "unknown key variants[1].agent"),
        (
            "[tests]",
            '[[variants]]\nlabel = "a"\nsettings_by_env = 1\n[tests]',
            "variants[1].settings_by_env must be a table with the settings for each of envs, not 1",
        ),
        ("[tests]", '[[variants]]\nlabel = "a"\nagents = ["dsac-v"]\n[tests]', "no variant is for dsac, dsac-m"),
        ("seeds = 2", "seeds = ", "is not TOML"),
    ],
)
def test_a_mistake_is_one_sentence_with_file_and_key(before, after, message, tmp_path):
    assert before in GRID
    with pytest.raises(ConfigError) as caught:
        plan_of(GRID.replace(before, after), tmp_path)
    assert message in str(caught.value)
    assert "grid.toml" in str(caught.value)


def test_a_mistake_of_the_command_line_names_its_option(tmp_path):
    with pytest.raises(ConfigError, match=r"^--agents must be one of"):
        plan_of(GRID, tmp_path, agents=["dqn"])
    with pytest.raises(ConfigError, match="there is no grid 'papr'; did you mean 'paper'"):
        load_plan("papr")
    with pytest.raises(ConfigError, match=r"none\.toml cannot be read"):
        load_plan(tmp_path / "none.toml")


def test_a_plan_is_read_as_it_was_written(tmp_path):
    plan = plan_of(GRID + "every = 50\nseverity = [1, 5]", tmp_path)
    write_plan(plan, tmp_path / "out")
    assert read_plan(tmp_path / "out") == plan


def test_a_plan_from_before_its_preset_changed_keeps_its_settings_and_names(tmp_path, monkeypatch):
    """The rows of recipe-long were committed when `efficient` was what `efficient-1` always is."""
    monkeypatch.setitem(PRESETS, "efficient", {**PRESETS["efficient-1"], "batch_size": 8})
    with tarfile.open(ROWS / "recipe-long.tar.gz") as packed:
        packed.extractall(tmp_path, filter="data")
    plan = read_plan(tmp_path / "recipe-long")
    assert plan.runs[0].label == "efficient"
    assert plan.runs[0].preset == "efficient-1"
    assert plan.runs[0].config == make_config("efficient-1", env="Breakout", constraint="mean")
    assert (tmp_path / "recipe-long" / "runs" / plan.runs[0].name / "metrics.jsonl").exists()
    assert why_not_grown(plan, load_plan("recipe-long")) is None  # the same command goes on

    write_plan(plan, tmp_path)
    assert read_plan(tmp_path) == plan
    monkeypatch.setattr("dsacc.experiments.plan.EARLIER", {})
    with pytest.raises(RunError, match=r"has a run Breakout\S+ that this version of dsacc would name differently"):
        read_plan(tmp_path / "recipe-long")


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"format": 9}', '{"format": 1, "runs": [1], "tests": {}}'])
def test_a_damaged_plan_is_a_sentence(text, tmp_path):
    (tmp_path / "plan.json").write_text(text)
    with pytest.raises(RunError, match=r"plan\.json"):
        read_plan(tmp_path)


def test_tests_on_the_way_may_be_fewer_and_change_no_key_where_they_are_all(tmp_path):
    shifts = 'every = 50\nshifts = ["id", "gaussian_noise"]\nepisodes = 2'
    every = plan_of(GRID.replace("episodes = 2", shifts), tmp_path).tests
    few = plan_of(GRID.replace("episodes = 2", shifts + '\nevery_shifts = ["id"]'), tmp_path).tests
    assert (every.on_the_way, few.on_the_way.shifts, few.shifts) == (every, ("id",), every.shifts)
    assert every.key != few.key
    assert Tests().key == "d6f88ebddb64c192"  # task files of earlier versions hold it
    run = Run("CartPole-v1", "dsac", 0, 100, "classic")
    assert why_not_grown(Plan("x", (run,), every), Plan("x", (run,), few)).startswith("tests.every_shifts None there")


def test_a_plan_may_grow_and_not_change():
    run = Run("CartPole-v1", "dsac", 0, 100, "classic")
    old = Plan("x", (run,), Tests(shifts=("id",)))

    def differs(tests=old.tests, **changes):
        return why_not_grown(old, Plan("x", (dataclasses.replace(run, **changes),), tests))

    assert why_not_grown(old, old) is None
    assert why_not_grown(old, Plan("x", (run, dataclasses.replace(run, seed=1)), old.tests)) is None
    assert differs(steps=200) is None
    assert differs(Tests(shifts=("id", "snow"), episodes=20)) is None
    assert differs(steps=50) == f"100 steps of {run.name} there, 50 here"
    assert differs(settings={"hidden": 8}) == 'settings {} there, {"hidden": 8} here'
    assert differs(agent="dsac-m") == "agent dsac there, dsac-m here"
    assert differs(Tests(shifts=("id",), episodes=5)) == "tests.episodes 10 there, 5 here"
    assert differs(Tests(shifts=("snow",))) == "tests.shifts id there, snow here"
