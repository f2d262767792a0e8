"""The learner as a whole: what two agents share, what is saved, what stops it. `test_update.py` has the equations."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from dsacc.agent import Batch, Learner, ObservationSpec
from dsacc.config import make_config
from dsacc.errors import TrainingDiverged

SPEC = ObservationSpec("vector", (4,))
ACTIONS = 3
State = dict[str, torch.Tensor]


def learner(weights: int = 0, **settings: Any) -> Learner:
    config = make_config("classic", **{"hidden": 16, "batch_size": 8, **settings})
    return Learner(config, SPEC, ACTIONS, torch.Generator().manual_seed(weights))


def batch(seed: int = 0, size: int = 8) -> Batch:
    g = torch.Generator().manual_seed(seed)
    return Batch(
        observation=torch.randn(size, 4, generator=g),
        action_B=torch.randint(ACTIONS, (size,), generator=g),
        rewards_BN=torch.randn(size, 1, generator=g),
        steps_B=torch.ones(size, dtype=torch.int64),
        terminated_B=(torch.rand(size, generator=g) < 0.2).float(),
        next_observation=torch.randn(size, 4, generator=g),
        entropy_B=torch.full((size,), math.log(ACTIONS)),
    )


def update(model: Learner, seed: int = 0) -> dict[str, torch.Tensor]:
    noise = torch.from_numpy(np.random.default_rng(seed).standard_normal(model.noise_shape()))
    return model.update(batch(seed), noise, seed)


def run(model: Learner, updates: int) -> State:
    for i in range(updates):
        update(model, i)
        model.update_targets()
    return copied(model)


def copied(model: Learner) -> State:
    return {name: value.clone() for name, value in model.state().items()}


def networks(state: State, prefix: str) -> State:
    return {name: value for name, value in state.items() if name.startswith(prefix)}


def same(a: State, b: State) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[k], b[k]) for k in a)


# --- agents ---


@pytest.mark.parametrize("constraint", ["mean", "variance", "both"])
def test_a_multiplier_of_zero_gives_dsac_bit_for_bit_over_100_updates(constraint):
    assert same(run(learner(), 100), run(learner(constraint=constraint, fixed_lambda=0.0), 100))


def test_the_mean_constraint_without_noise_is_dsac_bit_for_bit():
    assert same(run(learner(), 100), run(learner(constraint="mean", perturbation="none"), 100))


def test_a_constraint_changes_the_actor_and_nothing_else_of_the_first_update():
    """Critics and temperature take their steps without it; what follows differs because the actor does."""
    plain, constrained = learner(), learner(constraint="mean", fixed_lambda=1.0)
    for model in (plain, constrained):
        update(model)
    before, after = copied(plain), copied(constrained)
    assert same(networks(before, "critic"), networks(after, "critic"))
    assert before["log_alpha"].equal(after["log_alpha"])
    assert not same(networks(before, "actor."), networks(after, "actor."))


def test_dsac_reports_the_expected_error_and_no_multiplier():
    out = update(learner())
    assert set(out) == {"critic_loss", "actor_loss", "alpha", "entropy", "q_mean", "expected_error"}


@pytest.mark.parametrize(
    ("settings", "shape"),
    [
        ({"constraint": None}, (0,)),
        ({"constraint": "mean", "perturbation": "none"}, (0,)),
        ({"constraint": "mean"}, (8,)),
        ({"constraint": "mean", "batch_size": 5}, (5,)),
        ({"constraint": "both", "noise_scope": "update"}, (1,)),
        ({"constraint": "mean", "perturbation": "weights"}, (8, ACTIONS)),
        ({"constraint": "mean", "perturbation": "values", "noise_scope": "update"}, (1, ACTIONS)),
    ],
    ids=str,
)
def test_noise_is_drawn_per_state_or_per_update_and_per_action_only_inside_the_softmax(settings, shape):
    assert learner(**settings).noise_shape() == shape


# --- target networks and the policy that acts ---


@pytest.mark.parametrize("average", [False, True])
@pytest.mark.parametrize("tau", [0.25, 1.0])
def test_targets_move_by_tau_towards_the_networks_as_they_are_now(tau, average):
    model = learner(target_tau=0.5, average_policy=average)
    run(model, 3)
    model = loaded(learner(target_tau=tau, average_policy=average), copied(model))
    update(model, 3)
    before = copied(model)
    model.update_targets()
    after = copied(model)
    followed = {"target_critics.": "critics."} | ({"target_actor.": "actor."} if average else {})
    for target, online in followed.items():
        assert networks(before, target)
        for name, value in networks(before, target).items():
            now = before[online + name.removeprefix(target)]
            assert not value.equal(now)
            torch.testing.assert_close(after[name], (1 - tau) * value + tau * now)
    others = [name for name in before if not name.startswith("target_")]
    assert all(before[name].equal(after[name]) for name in others)


def test_an_update_leaves_the_targets_alone():
    model = learner(average_policy=True)
    before = networks(copied(model), "target_")
    update(model)
    assert same(before, networks(copied(model), "target_"))


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("average", [True, False])
def test_the_policy_that_acts_is_the_actor_or_its_average(shared, average):
    model = learner(shared_trunk=shared, average_policy=average, target_tau=0.1)
    state = {name: value.double().numpy() for name, value in run(model, 20).items()}
    which = "target_" if average else ""
    encoder = f"{which}critics.encoders.0" if shared else f"{which}actor.encoder"
    x = batch(99).observation.double().numpy()
    for layer in (0, 2):
        x = np.maximum(x @ state[f"{encoder}.body.{layer}.weight"].T + state[f"{encoder}.body.{layer}.bias"], 0)
    wanted = x @ state[f"{which}actor.head.weight"].T + state[f"{which}actor.head.bias"]
    np.testing.assert_allclose(model.policy_logits(batch(99).observation).numpy(), wanted, rtol=1e-4, atol=1e-5)


# --- temperature ---


@pytest.mark.parametrize("alpha", [0.0, 0.3])
def test_a_fixed_temperature_stays_and_zero_is_allowed_without_a_constraint(alpha):
    model = learner(alpha=alpha)
    out = [update(model, i) for i in range(3)][-1]
    assert model.alpha.item() == pytest.approx(alpha)
    assert out["alpha"].item() == pytest.approx(alpha)
    assert all(torch.isfinite(v) for v in out.values())


def test_the_target_entropy_follows_its_schedule():
    model = learner(target_entropy_ratio=0.9, target_entropy_final=0.1, target_entropy_steps=100)
    log_a = math.log(ACTIONS)
    assert [model.target_entropy(s) / log_a for s in (0, 50, 100, 1000)] == pytest.approx([0.9, 0.5, 0.1, 0.1])


@pytest.mark.parametrize(
    ("target", "least", "end"),
    [
        (0.0, 0.0, 0.31 * math.exp(-1.0)),  # the policy's entropy is above its target: log alpha falls 0.05 per update
        (0.0, 0.3, 0.3),
        (1.5, 0.3, 0.31 * math.exp(1.0)),  # a target out of reach: it rises as fast
    ],
)
def test_a_tuned_temperature_stops_at_its_least_and_may_rise_from_it(target, least, end):
    model = learner(initial_alpha=0.31, alpha_learning_rate=0.05, target_entropy_ratio=target, min_alpha=least)
    run(model, 20)
    assert model.alpha.item() == pytest.approx(end, rel=0.1 if end != least else 1e-6)


# --- saving, and what stops it ---


def loaded(model: Learner, state: State) -> Learner:
    model.load_state(state)
    return model


@pytest.mark.parametrize(
    "settings",
    [
        {"constraint": "mean"},
        {"shared_trunk": True, "average_policy": True, "target_tau": 0.25},
        {"alpha": 0.1},
        {"alpha": 0.1, "alpha_scale": "range", "constraint": "variance"},
    ],
    ids=str,
)
def test_a_saved_state_continues_bit_for_bit_in_a_learner_that_began_otherwise(settings):
    model = learner(**settings)
    saved = run(model, 5)
    other = loaded(learner(weights=1, **settings), saved)
    assert same(saved, copied(other))
    assert same(run(model, 5), run(other, 5))
    assert not same(saved, copied(other))


@pytest.mark.parametrize("bad", [math.inf, math.nan])
def test_a_loss_that_is_not_finite_stops_before_the_weights_take_it(bad):
    model = learner()
    run(model, 2)
    before = copied(model)
    spoiled = batch()
    spoiled.rewards_BN[0, 0] = bad
    with pytest.raises(TrainingDiverged, match=f"critic_loss became {bad}"):
        model.update(spoiled, torch.zeros(0), 0)
    assert same(before, model.state())


def test_the_generator_decides_the_initial_weights():
    assert same(learner().state(), learner().state())
    one, other = (learner(weights).state() for weights in (0, 1))
    drawn = [name for name in one if name.endswith("weight")]
    assert not any(one[name].equal(other[name]) for name in drawn)


# --- what is drawn by its error --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["mse", "huber", "hl-gauss"])
def test_a_transition_of_weight_zero_moves_the_critics_no_more_than_one_that_was_never_drawn(kind):
    """Twice the loss of half the states is the mean over those alone."""
    whole, half = batch(), learner(critic_loss=kind, grad_clip=0.0, shared_trunk=False, batch_size=4)
    weighted = replace(whole, weight_B=torch.tensor([2.0] * 4 + [0.0] * 4), slot_B=torch.arange(8))
    alone = whole.map(lambda part: part[:4])
    full = learner(critic_loss=kind, grad_clip=0.0, shared_trunk=False)
    full.update(weighted, torch.zeros(0), 0)
    half.update(alone, torch.zeros(0), 0)
    for name, value in networks(half.state(), "critics").items():
        torch.testing.assert_close(networks(full.state(), "critics")[name], value, atol=1e-5, rtol=1e-4)


def test_the_errors_are_the_targets_less_the_critics_values():
    """Everywhere terminated, so the targets are the rewards."""
    model, drawn = learner(), replace(batch(), terminated_B=torch.ones(8), slot_B=torch.arange(8))
    drawn = replace(drawn, weight_B=torch.ones(8))
    q_B = model.q_values(drawn.observation).gather(1, drawn.action_B[:, None])[:, 0]
    model.update(drawn, torch.zeros(0), 0)
    torch.testing.assert_close(model.error_B, drawn.rewards_BN[:, 0] - q_B)
