"""What critics end in: bins of values and dueling heads learn, save, export and show as one number per action does."""

import copy
from typing import Any

import numpy as np
import pytest
import torch
from helpers.extras import needs
from probes import ActionMatters, DelayedReward

from dsacc import DSAC
from dsacc.agent import Learner, ObservationSpec
from dsacc.agent.heads import Head
from dsacc.config import make_config
from dsacc.views.insight import look

BINS = {"critic_loss": "hl-gauss", "value_limit": 3.0, "value_bins": 31}
SMALL = {"hidden": 32, "batch_size": 32, "random_steps": 50, "n_step": 1, "learning_rate": 1e-2, "target_tau": 0.2}


def learner(**settings: Any) -> Learner:
    config = make_config("classic", hidden=16, **{**BINS, **settings})
    return Learner(config, ObservationSpec("vector", (4,)), 3, torch.Generator().manual_seed(0))


def test_q_begins_near_zero_and_the_twins_differ() -> None:
    q1, q2 = learner().critics(torch.randn(20, 4, generator=torch.Generator().manual_seed(1)))
    assert q1.shape == (20, 3)
    assert 0 < q1.abs().max() < 0.1
    assert not q1.allclose(q2, atol=1e-4)


def test_bins_are_in_no_saved_state_and_copied_with_the_networks() -> None:
    model = learner()
    assert not [name for name in model.state() if "bins" in name]
    assert copy.deepcopy(model.critics).bins.centres.equal(model.critics.bins.centres)  # type: ignore[union-attr]
    assert model.state()["critics.heads.0.weight"].shape == (3 * 31, 16)
    assert learner(critic_loss="huber").critics.bins is None


def test_the_share_of_targets_beyond_the_bins_is_reported() -> None:
    bins = learner().critics.bins
    assert bins is not None
    assert bins.outside(torch.tensor([0.0, 3.0, -3.1, 50.0])).item() == 0.5


def test_dueling_heads_have_a_row_more_per_bin_and_give_q_of_the_same_shape() -> None:
    scalar, binned = learner(critic_loss="huber", dueling=True), learner(dueling=True)
    assert scalar.state()["critics.heads.0.weight"].shape == (1 + 3, 16)
    assert binned.state()["critics.heads.0.weight"].shape == ((1 + 3) * 31, 16)
    seen = torch.randn(5, 4, generator=torch.Generator().manual_seed(1))
    for model in (scalar, binned):
        assert model.q_values(seen).shape == (5, 3)


def test_what_a_dueling_critic_learns_of_one_action_moves_the_others_too() -> None:
    """One update towards a higher value of the first action alone, with features that do not change."""
    for dueling, moved in ((False, False), (True, True)):
        head = Head(make_config("classic", dueling=dueling), 4, 3)
        features = torch.ones(1, 4)
        before = head(features)
        before[0, 0].backward()
        with torch.no_grad():
            head.weight += head.weight.grad
            assert bool((head(features)[0, 1:] > before[0, 1:]).all()) == moved


@pytest.mark.parametrize("dueling", [False, True])
def test_the_values_of_a_delayed_reward_are_learned(dueling: bool) -> None:
    model = DSAC(DelayedReward(), gamma=0.6, alpha=0.0, dueling=dueling, **SMALL, **BINS).learn(350)
    q = model.learner.q_values(torch.tensor([[0.0, 1.0], [1.0, 1.0]]))[:, 0]
    assert q.tolist() == pytest.approx([0.6, 1.0], abs=0.05)


@pytest.mark.parametrize("constraint", [None, "mean", "variance"])
def test_every_agent_learns_which_action_pays(constraint: str | None) -> None:
    rows: list[Any] = []
    model = DSAC(ActionMatters(), constraint, alpha=0.3, noise_std=0.1, seed=1, **SMALL, **BINS)
    model.learn(200, callback=rows.append)
    q = model.learner.q_values(torch.tensor([[0.0, 1.0]]))[0]
    assert q.tolist() == pytest.approx([0.0, 1.0], abs=0.1)
    pi = torch.softmax(torch.from_numpy(model.logits(np.array([0.0, 1.0], np.float32))), -1)[0]
    assert pi[1] > 0.8 if constraint is None else pi[1] > 0.5
    assert rows[-1]["targets_outside"] == 0


def test_a_saved_agent_has_the_same_values_and_its_inside_can_be_looked_at(tmp_path) -> None:
    model = DSAC(ActionMatters(), "mean", alpha=0.3, **SMALL, **BINS).learn(80)
    again = DSAC.load(model.save(tmp_path / "a"), ActionMatters())
    seen = np.array([[0.0, 1.0], [0.5, 1.0]], np.float32)
    assert np.array_equal(look(again, seen).q_BA, look(model, seen).q_BA)
    assert look(model, seen).q_BA.shape == (2, 2)
    again.learn(30)


@needs("onnx", "onnx")
def test_it_is_exported_as_a_graph_and_as_a_small_agent(tmp_path) -> None:
    from dsacc.play.export import export_agent, export_onnx

    model = DSAC(ActionMatters(), "mean", alpha=0.3, shared_trunk=True, **SMALL, **BINS).learn(80)
    assert export_onnx(model, tmp_path / "a.onnx").actions == 2
    small = DSAC.load(export_agent(model, tmp_path / "small").path)
    seen = np.array([[0.0, 1.0]], np.float32)
    np.testing.assert_allclose(look(small, seen).q_BA, look(model, seen).q_BA, atol=0.02)
