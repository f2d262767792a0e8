"""Learning, tested by value: on environments small enough to know the answer."""

import numpy as np
import pytest
import torch
from probes import ActionMatters, ConstantReward, DelayedReward, ForeverOne, Probe, RewardIsObservation, TwoStateChain

from dsacc import DSAC

FAST = {"random_steps": 50, "train_every": 1, "n_step": 1, "hidden": 32, "learning_rate": 3e-3, "target_tau": 0.05}
SOFT = {**FAST, "critic_entropy": 1.0}


def seen(*states: float) -> np.ndarray:
    return np.stack([Probe.see(s) for s in states])


def q_at(model: DSAC, *states: float) -> np.ndarray:
    """The mean of the twin critics, [states, actions]."""
    with torch.no_grad():
        q1, q2 = model.learner.critics(torch.tensor(seen(*states)))
    return ((q1 + q2) / 2).numpy()


def test_constant_reward_is_the_value():
    model = DSAC(ConstantReward(), **FAST).learn(400)
    assert q_at(model, 0.0) == pytest.approx(1.0, abs=0.02)


@pytest.mark.slow
def test_reward_that_depends_on_the_observation_is_told_apart():
    model = DSAC(RewardIsObservation(), **FAST).learn(600)
    assert q_at(model, -1.0, 1.0)[:, 0] == pytest.approx([-1.0, 1.0], abs=0.05)


@pytest.mark.slow
@pytest.mark.parametrize("n_step", [1, 3])
def test_delayed_reward_is_discounted_once_per_step(n_step):
    model = DSAC(DelayedReward(), gamma=0.5, **{**FAST, "n_step": n_step}).learn(800)
    assert q_at(model, 0.0, 1.0)[:, 0] == pytest.approx([0.5, 1.0], abs=0.05)


@pytest.mark.slow
@pytest.mark.parametrize("n_step", [1, 3])
def test_truncation_bootstraps(n_step):
    model = DSAC(ForeverOne(), gamma=0.5, **{**FAST, "n_step": n_step}).learn(900)
    assert q_at(model, 0.0) == pytest.approx(2.0, abs=0.1)


@pytest.mark.slow
def test_soft_policy_of_a_bandit_is_its_boltzmann_policy():
    model = DSAC(ActionMatters(), alpha=0.5, **FAST).learn(1500)
    pi = torch.softmax(torch.tensor(model.logits(seen(0.0))), dim=-1)[0]
    assert q_at(model, 0.0)[0] == pytest.approx([0.0, 1.0], abs=0.05)
    assert pi[1] == pytest.approx(1 / (1 + np.exp(-2.0)), abs=0.03)


@pytest.mark.slow
def test_constant_lambda_raises_the_actors_temperature_as_derived():
    """At fixed lambda the mean-constrained actor is softmax((1 - lambda) Q / alpha)."""
    model = DSAC(ActionMatters(), constraint="mean", alpha=0.5, fixed_lambda=0.5, **FAST).learn(1500)
    pi = torch.softmax(torch.tensor(model.logits(seen(0.0))), dim=-1)[0]
    assert pi[1] == pytest.approx(1 / (1 + np.exp(-1.0)), abs=0.03)


@pytest.mark.slow
@pytest.mark.parametrize("critics", ["average", "min"])
def test_two_state_chain_has_its_soft_values(critics):
    model = DSAC(TwoStateChain(), alpha=0.3, gamma=0.8, critics=critics, **SOFT).learn(4000)
    expected = TwoStateChain.soft_q(0.8, 0.3)
    assert q_at(model, 0.0, 1.0) == pytest.approx(expected, rel=0.06)


@pytest.mark.slow
def test_decoupled_critics_learn_the_value_without_the_entropy_bonus():
    model = DSAC(TwoStateChain(), alpha=0.3, gamma=0.8, critic_entropy=0.0, **FAST).learn(4000)
    pi = torch.softmax(torch.tensor(model.logits(seen(0.0, 1.0))), dim=-1).numpy()
    v = np.zeros(2)
    for _ in range(1000):  # the value of the learned policy, rewards alone
        q = np.arange(2.0)[:, None] + 0.8 * v[None]
        v = (pi * q).sum(axis=1)
    assert q_at(model, 0.0, 1.0) == pytest.approx(q, rel=0.06)


@pytest.mark.slow
def test_temperature_brings_the_entropy_to_its_target():
    rows = []
    settings = {**FAST, "log_every": 200}
    DSAC(ActionMatters(), target_entropy_ratio=0.5, **settings).learn(4000, callback=rows.append)
    assert np.mean([r["entropy"] for r in rows[-3:]]) == pytest.approx(0.5 * np.log(2), abs=0.05)
