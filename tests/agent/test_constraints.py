"""What a run logs of its solves."""

import pytest
import torch

from dsacc.agent.constraints import constraint_terms, report
from dsacc.config import make_config
from dsacc.training.loop import Meter

SETTINGS = [{"constraint": "mean"}, {"constraint": "both"}]


def logged(settings: dict, q: list[list[float]], eps: list[float]) -> dict[str, torch.Tensor]:
    config = make_config(perturbation="target", noise_std=1.0, **settings)
    q_BA = torch.tensor(q, dtype=torch.float64)
    pi_BA = torch.softmax(q_BA, dim=-1)
    noise_B = torch.tensor(eps, dtype=torch.float64)
    return report(constraint_terms(config, q_BA, pi_BA, torch.tensor(1.0), noise_B), pi_BA)


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_a_share_of_unsolved_states_is_logged_where_there_are_any_and_averaged_over_all_updates(settings):
    usual = logged(settings, [[0.0, 1.0, 3.0], [0.0, 2.0, 1.0]], [0.2, -0.1])
    assert "lambda_unsolved" not in usual
    # to bring the mean of 0 down by half of 1e20, 1 - lambda would have to be ln 2 / 1e20, between two floats
    extreme = logged(settings, [[-1e20, -1e20, 0.0], [0.0, 2.0, 1.0]], [0.5e20, -0.1])
    assert extreme["lambda_unsolved"].item() == 0.5
    assert all(torch.isfinite(value) for value in extreme.values())
    meter = Meter()
    for values in (usual, extreme, usual, usual):
        meter.add(values)
    assert meter.take()["lambda_unsolved"] == 0.5 / 4


def test_a_fixed_multiplier_needs_no_solving():
    for settings in SETTINGS:
        assert "lambda_unsolved" not in logged({**settings, "fixed_lambda": 0.5}, [[0.0, 1e20]], [0.25e20])
