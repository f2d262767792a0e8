"""Every example runs as it stands, shortened where it trains for long."""

import runpy
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
SHORT = {"custom_environment": ["--steps", "400"], "sb3_under_weather": ["--steps", "600", "--episodes", "4"]}
NEEDS = {"sb3_under_weather": "stable_baselines3", "ray_two_nodes": "ray"}


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_an_example_runs(path, tmp_path, monkeypatch, capsys):
    if path.stem in NEEDS:
        pytest.importorskip(NEEDS[path.stem])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [str(path), *SHORT.get(path.stem, [])])
    runpy.run_path(str(path), run_name="__main__")
    assert "condition" in capsys.readouterr().out  # the table
