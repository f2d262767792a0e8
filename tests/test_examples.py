"""Every example runs, from a folder that is not ours; shortened where it trains for long."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))
SHORT = {"custom_environment": ["--steps", "400"], "sb3_under_weather": ["--steps", "600", "--episodes", "4"]}
SHORT["weights_and_biases"] = ["--steps", "1000"]
NEEDS = {"sb3_under_weather": "stable_baselines3", "ray_two_nodes": "ray", "weights_and_biases": "wandb"}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs(path, tmp_path):
    if path.stem in NEEDS:
        pytest.importorskip(NEEDS[path.stem])
    source = str(path.parents[1] / "src")
    ended = subprocess.run(
        [sys.executable, str(path), *SHORT.get(path.stem, [])],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": source + os.pathsep + os.environ.get("PYTHONPATH", "")},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
    assert "condition" in ended.stdout  # the table
