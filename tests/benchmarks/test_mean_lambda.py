"""The mean of lambda that a constant one is given: over updates, and of runs that solve for it alone."""

import json

import pytest
from helpers.scripts import script

from dsacc import DSAC
from dsacc.errors import ConfigError

TINY = {"random_steps": 20, "hidden": 8, "batch_size": 4, "log_every": 10}


@pytest.fixture(scope="module")
def averages():
    return script("benchmarks/mean_lambda.py")


def test_a_row_counts_as_often_as_it_has_updates(averages, tmp_path):
    rows = [{"updates": 0, "return": None}, {"updates": 10, "lambda": 0.2}, {"updates": 40, "lambda": 0.6}]
    (tmp_path / "metrics.jsonl").write_text("\n".join(map(json.dumps, rows)))
    assert averages.mean_lambda(tmp_path / "metrics.jsonl") == pytest.approx((10 * 0.2 + 30 * 0.6) / 40)
    (tmp_path / "metrics.jsonl").write_text(json.dumps(rows[0]))
    with pytest.raises(ConfigError, match="has no lambda"):
        averages.mean_lambda(tmp_path / "metrics.jsonl")


def test_runs_without_a_solved_lambda_are_left_out(averages, tmp_path):
    for name, constraint, more in (("m", "mean", {}), ("fixed", "mean", {"fixed_lambda": 0.9}), ("plain", None, {})):
        DSAC("CartPole-v1", constraint, **TINY, **more).learn(60, out=tmp_path / "runs" / name)
    found = averages.means(tmp_path)
    assert found == {"CartPole-v1": [averages.mean_lambda(tmp_path / "runs" / "m" / "metrics.jsonl")]}
    assert 0 < found["CartPole-v1"][0] < 0.9
