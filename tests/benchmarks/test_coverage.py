"""The simulation behind the sentence beside an interval from few seeds, with fewer trials."""

import numpy as np
import pytest
from helpers.scripts import script


@pytest.fixture(scope="module")
def simulation():
    return script("benchmarks/coverage.py")


@pytest.mark.parametrize(("scenario", "three", "ten"), [("one game", 0.743, 0.931), ("the paper's DSAC", 0.828, 0.927)])
def test_three_seeds_make_the_interval_too_narrow_and_ten_nearly_mend_it(simulation, scenario, three, ten):
    how = {"trials": 1_000, "resamples": 400, "rng": np.random.default_rng(0)}
    few = simulation.coverage(simulation.SCENARIOS[scenario], 3, **how)
    many = simulation.coverage(simulation.SCENARIOS[scenario], 10, **how)
    error = 4 * np.sqrt(0.25 / 1_000)
    assert few < 0.95 - error  # clearly too narrow
    assert few == pytest.approx(three, abs=error)  # what docs/statistics.md says
    assert many == pytest.approx(ten, abs=error)
    assert many > few + 0.03
