"""The cost of a grid's variants: which settings are measured, and what the table says."""

from typing import Any

import pytest
from helpers.documents import ROOT
from helpers.extras import atari
from helpers.scripts import script

from dsacc.config import make_config
from dsacc.experiments.grids import load_plan


@pytest.fixture(scope="module")
def cost() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "benchmarks")  # as where it is run
        return script("benchmarks/variant_cost.py")


def test_every_variant_is_measured_once_with_the_settings_of_its_runs(cost):
    screen = load_plan("recipe-screen")
    found = cost.settings_of(["recipe-screen", "recipe-long"])
    assert next(iter(found)) == "efficient"
    assert found.keys() == {run.label for grid in (screen, load_plan("recipe-long")) for run in grid.runs}
    for run in screen.runs:
        made = make_config(env=run.env, seed=run.seed, constraint=run.config.constraint, **found[run.label])
        assert made == run.config


def test_a_grid_that_is_not_there_is_a_sentence(cost, capsys):
    assert cost.main(["nothing"]) == 2
    assert "there is no grid 'nothing'" in capsys.readouterr().err


@pytest.mark.slow
@atari
def test_the_table_compares_every_variant_with_the_first(cost, tmp_path, capsys):
    grid = 'envs = ["Breakout"]\nagents = ["dsac-m"]\nsteps = 10\npreset = "efficient"\n'
    grid += '[[variants]]\n[[variants]]\nlabel = "three updates"\nsettings = { updates = 3 }\n'
    (tmp_path / "grid.toml").write_text(grid)
    assert cost.main([str(tmp_path / "grid.toml"), "--turns", "2"]) == 0
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in capsys.readouterr().out.splitlines()]
    assert [row[0] for row in rows] == ["variant", "---", "as it is", "three updates"]
    assert rows[2][2] == "1.00"
    assert all(float(cell) > 0 for row in rows[2:] for cell in row[1:])
