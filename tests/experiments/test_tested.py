"""A plan's rows: one that was changed or lost is played again, and its plan can be written again."""

import json

import pytest
from helpers.experiments import Here, plan_of
from helpers.grids import tiny_grid

from dsacc.experiments.driver import run_experiment
from dsacc.experiments.task import is_done

GRID = tiny_grid(["dsac"], 60)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("experiment")
    plan = plan_of(GRID, folder)
    rows = run_experiment(plan, folder / "out", Here(), print)
    return plan, folder / "out", rows


def row_files(out):
    return sorted(out.glob("runs/*/evaluations/*.json"))


def test_a_changed_row_is_played_again_by_the_same_command(made):
    plan, out, rows = made
    path, results = row_files(out)[0], (out / "results.json").read_bytes()
    good = path.read_bytes()
    changed = json.loads(good)
    changed[0]["returns"][0] += 1
    path.write_text(json.dumps(changed))
    assert not is_done(plan.runs[0], plan.tests, out)
    with pytest.warns(UserWarning, match="played again: row 1 of 1: a row of tests does not match its sha256"):
        assert run_experiment(plan, out, Here(), print) == rows
    assert (path.read_bytes(), (out / "results.json").read_bytes()) == (good, results)


def test_a_row_that_is_gone_is_played_again(made):
    plan, out, rows = made
    path = row_files(out)[0]
    good = path.read_bytes()
    path.rename(out / "put_away")
    (path.parent / "another.json").write_bytes(good.replace(b'"greedy"', b'"gready"'))  # of nobody, and damaged
    assert not is_done(plan.runs[0], plan.tests, out)
    with pytest.warns(UserWarning, match="another.json is passed over"):
        assert run_experiment(plan, out, Here(), print) == rows
    assert path.read_bytes() == good
    assert is_done(plan.runs[0], plan.tests, out)
    (path.parent / "another.json").unlink()


def test_a_plan_that_was_damaged_is_deleted_and_written_again(made):
    plan, out, rows = made
    good = (out / "plan.json").read_bytes()
    (out / "plan.json").unlink()
    assert run_experiment(plan, out, Here(), print) == rows
    assert (out / "plan.json").read_bytes() == good


def test_the_rows_of_results_carry_their_sha256(made):
    _, out, rows = made
    assert json.loads((out / "results.json").read_text()) == [row.sealed() for row in rows]
