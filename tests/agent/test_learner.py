"""The update: what differs between the agents, what must not, and what stops it."""

import math

import numpy as np
import pytest
import torch

from dsacc import DSAC
from dsacc.agent import Batch, Learner, ObservationSpec
from dsacc.agent.constraints import constraint_terms, noise_shape, penalty
from dsacc.config import make_config
from dsacc.errors import TrainingDiverged
from dsacc.maths import boltzmann, expected_value, expected_variance, mean_multiplier

SPEC = ObservationSpec("vector", (4,))
ACTIONS = 3


def learner(**settings) -> Learner:
    config = make_config("classic", **{"hidden": 16, "batch_size": 8, **settings})
    return Learner(config, SPEC, ACTIONS, torch.Generator().manual_seed(0))


def batch(seed: int = 0, size: int = 8, n: int = 1) -> Batch:
    g = torch.Generator().manual_seed(seed)
    return Batch(
        torch.randn(size, 4, generator=g),
        torch.randint(ACTIONS, (size,), generator=g),
        torch.randn(size, n, generator=g),
        torch.full((size,), n),
        (torch.rand(size, generator=g) < 0.2).float(),
        torch.randn(size, 4, generator=g),
        torch.full((size,), math.log(ACTIONS)),
    )


def noise_for(model: Learner, seed: int) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(model.noise_shape()))


def run(model: Learner, updates: int) -> dict[str, torch.Tensor]:
    for i in range(updates):
        model.update(batch(i), noise_for(model, i), i)
        model.update_targets()
    return model.state()


def same(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[k], b[k]) for k in a)


@pytest.mark.parametrize("constraint", ["mean", "variance", "both"])
def test_lambda_zero_gives_dsac_bit_for_bit_over_100_updates(constraint):
    plain = run(learner(), 100)
    constrained = run(learner(constraint=constraint, fixed_lambda=0.0), 100)
    assert same(plain, constrained)


def test_mean_constraint_without_noise_is_dsac_bit_for_bit():
    assert same(run(learner(), 100), run(learner(constraint="mean", perturbation="none"), 100))


@pytest.mark.parametrize("constraint", ["mean", "variance", "both"])
def test_a_constraint_with_noise_changes_the_actor(constraint):
    plain, constrained = run(learner(), 3), run(learner(constraint=constraint), 3)
    assert not torch.equal(plain["actor.head.weight"], constrained["actor.head.weight"])


@pytest.mark.parametrize("perturbation", ["target", "weights", "values", "none"])
@pytest.mark.parametrize("scope", ["state", "update"])
@pytest.mark.parametrize("relative", [False, True])
@pytest.mark.parametrize("constraint", ["mean", "variance", "both"])
def test_every_reading_trains_and_reports(perturbation, scope, constraint, relative):
    reading = {"perturbation": perturbation, "noise_scope": scope, "noise_relative": relative}
    model = learner(constraint=constraint, multiplier_form="plain", **reading)
    out = model.update(batch(), noise_for(model, 0), 0)
    tags = ["_1", "_2"] if constraint == "both" else [""]
    for tag in tags:
        assert 0 <= out[f"lambda{tag}"] <= 1
        assert out[f"lambda_at_lower{tag}"] + out[f"lambda_at_upper{tag}"] <= 1
    assert all(torch.isfinite(v) for v in out.values())


def test_dsac_reports_the_expected_error_too():
    out = learner().update(batch(), torch.zeros(0), 0)
    assert {"critic_loss", "actor_loss", "alpha", "entropy", "q_mean", "expected_error"} <= out.keys()
    assert "lambda" not in out


def test_actor_step_leaves_the_critics_alone():
    model = learner(constraint="mean")
    q = torch.randn(8, ACTIONS)
    logits = torch.randn(8, ACTIONS, requires_grad=True)
    pi = torch.softmax(logits, -1)
    q.requires_grad_(True)
    penalty(constraint_terms(model.config, q, pi, torch.tensor(0.5), torch.randn(8).double()), pi).backward()
    assert q.grad is None
    assert logits.grad is not None


def test_terms_of_the_mean_constraint_are_the_equations():
    q, eps, alpha = torch.randn(8, ACTIONS).double(), torch.randn(8).double(), torch.tensor(0.5)
    pi = torch.softmax(torch.randn(8, ACTIONS), -1)
    config = make_config(constraint="mean", noise_std=0.7)
    (term,) = constraint_terms(config, q, pi, alpha, eps)
    mu = expected_value(boltzmann(q, alpha), q)
    torch.testing.assert_close(term.target_B, mu - 0.7 * eps)
    torch.testing.assert_close(term.lam_B, mean_multiplier(q, mu - 0.7 * eps, alpha).value)
    assert torch.equal(term.f_BA, q)


def test_terms_of_the_variance_constraint_carry_eps_beside_the_actors_mean():
    q, eps, alpha = torch.randn(8, ACTIONS).double(), torch.randn(8).double(), torch.tensor(0.5)
    pi = torch.softmax(torch.randn(8, ACTIONS).double(), -1)
    (term,) = constraint_terms(make_config(constraint="variance"), q, pi, alpha, eps)
    mu_phi = (pi * q).sum(-1, keepdim=True)
    torch.testing.assert_close(term.f_BA, (q - mu_phi + eps[:, None]) ** 2)
    torch.testing.assert_close(term.target_B, expected_variance(boltzmann(q, alpha), q))


def test_relative_noise_is_measured_in_each_states_spread():
    q, eps, alpha = torch.randn(8, ACTIONS).double(), torch.randn(8).double(), torch.tensor(0.5)
    pi = torch.full((8, ACTIONS), 1 / ACTIONS)
    (small,) = constraint_terms(make_config(constraint="mean", noise_relative=True), q, pi, alpha, eps)
    (large,) = constraint_terms(make_config(constraint="mean", noise_relative=True), 1000 * q, pi, 1000 * alpha, eps)
    torch.testing.assert_close(small.lam_B, large.lam_B)
    mu = expected_value(boltzmann(q, alpha), q)
    torch.testing.assert_close(small.target_B, mu - eps * q.std(-1, correction=0))


@pytest.mark.parametrize(
    ("settings", "shape"),
    [
        ({"constraint": None}, (0,)),
        ({"constraint": "mean", "perturbation": "none"}, (0,)),
        ({"constraint": "mean"}, (8,)),
        ({"constraint": "both", "noise_scope": "update"}, (1,)),
        ({"constraint": "mean", "perturbation": "weights"}, (8, ACTIONS)),
        ({"constraint": "mean", "perturbation": "values", "noise_scope": "update"}, (1, ACTIONS)),
    ],
)
def test_noise_has_one_draw_where_the_reading_says_so(settings, shape):
    assert learner(**settings).noise_shape() == shape


def test_noise_shape_of_a_batch():
    assert noise_shape(make_config(constraint="mean"), 5, 4) == (5,)


def test_target_critics_move_by_tau():
    model = learner(target_tau=0.25)
    before = [p.clone() for p in model.target_critics.parameters()]
    run(model, 0)
    model.update(batch(), torch.zeros(0), 0)
    online = [p.detach().clone() for p in model.critics.parameters()]
    model.update_targets()
    for old, new, now in zip(before, model.target_critics.parameters(), online, strict=True):
        torch.testing.assert_close(new, 0.75 * old + 0.25 * now)


def test_tau_one_copies_the_critics():
    model = learner(target_tau=1.0)
    model.update(batch(), torch.zeros(0), 0)
    model.update_targets()
    for a, b in zip(model.critics.parameters(), model.target_critics.parameters(), strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("shared", [True, False])
def test_an_averaged_policy_acts_and_bootstraps(shared):
    """The critics' loss, by hand: V of the averaged actor on the target critics' features (or its own)."""
    model = learner(shared_trunk=shared, average_policy=True, target_tau=0.1, alpha=0.3, critic_entropy=1.0, n_step=1)
    run(model, 20)
    b = batch(99)
    target, actor = model.target_critics, model.target_actor
    with torch.no_grad():
        logits = actor(b.next_observation, target.encoders[0](b.next_observation))
        assert torch.equal(model.policy_logits(b.next_observation), logits)
        online = model.actor(b.next_observation, model.critics.encoders[0](b.next_observation))
        assert not torch.allclose(online, logits)
        log_pi = torch.log_softmax(logits, dim=-1)
        q1, q2 = target(b.next_observation)
        v = (log_pi.exp() * ((q1 + q2) / 2 - 0.3 * log_pi)).sum(dim=1)
        wanted = b.rewards_BN[:, 0] + 0.99 * (1 - b.terminated_B) * v
        chosen = [q.gather(1, b.action_B[:, None])[:, 0] for q in model.critics(b.observation)]
        loss = sum(((q - wanted) ** 2).mean() for q in chosen)
    assert model.update(b, torch.zeros(0), 20)["critic_loss"].item() == pytest.approx(loss.item(), rel=1e-5)


def test_the_averaged_actor_moves_by_tau_and_is_saved():
    model = learner(shared_trunk=True, average_policy=True, target_tau=0.25)
    before = model.target_actor.head.weight.clone()
    model.update(batch(), torch.zeros(0), 0)
    now = model.actor.head.weight.detach().clone()
    model.update_targets()
    torch.testing.assert_close(model.target_actor.head.weight, 0.75 * before + 0.25 * now)
    again = learner(shared_trunk=True, average_policy=True, target_tau=0.25)
    again.load_state({name: tensor.clone() for name, tensor in model.state().items()})
    assert same(run(model, 5), run(again, 5))


def test_fixed_alpha_stays_and_zero_is_allowed_without_a_constraint():
    for alpha in (0.0, 0.3):
        model = learner(alpha=alpha)
        out = model.update(batch(), torch.zeros(0), 0)
        assert model.alpha.item() == pytest.approx(alpha)
        assert all(torch.isfinite(v) for v in out.values())


def test_target_entropy_follows_its_schedule():
    model = learner(target_entropy_ratio=0.9, target_entropy_final=0.1, target_entropy_steps=100)
    log_a = math.log(ACTIONS)
    assert [model.target_entropy(s) / log_a for s in (0, 50, 100, 1000)] == pytest.approx([0.9, 0.5, 0.1, 0.1])


def test_shared_trunk_is_trained_by_the_critics_alone():
    model = learner(shared_trunk=True, learning_rate=1e-2)
    features = model.critics.features(batch().observation)[0]
    model.actor(batch().observation, features).sum().backward()
    assert all(p.grad is None for p in model.critics.parameters())
    assert len(model.critics.encoders) == 1
    assert model.actor.encoder is None
    trunk = model.critics.encoders[0].body[0].weight.clone()
    model.update(batch(), torch.zeros(0), 0)
    assert not torch.equal(trunk, model.critics.encoders[0].body[0].weight)


@pytest.mark.parametrize(
    "settings",
    [
        {"q_clip": 1e-3},
        {"entropy_penalty": 0.5},
        {"surrogate_kl": 0.5},
        {"critic_loss": "huber"},
        {"grad_clip": 0.01},
        {"natural_gradient": True},
        {"critics": "min"},
    ],
)
def test_an_option_changes_the_update_and_stays_finite(settings):
    plain, changed = run(learner(), 5), run(learner(**settings), 5)
    assert not same(plain, changed)
    assert all(torch.isfinite(v).all() for v in changed.values())


def test_saved_state_continues_bit_for_bit():
    model = learner(constraint="mean")
    run(model, 5)
    saved = {k: v.clone() for k, v in model.state().items()}
    other = learner(constraint="mean")
    other.load_state(saved)
    assert same(run(model, 5), run(other, 5))


def test_a_loss_that_is_not_finite_stops_before_the_weights_take_it():
    model = learner()
    before = {k: v.clone() for k, v in model.state().items()}
    spoiled = batch()
    spoiled.rewards_BN[0, 0] = math.inf
    with pytest.raises(TrainingDiverged, match="critic_loss became inf"):
        model.update(spoiled, torch.zeros(0), 0)
    assert same(before, model.state())


def test_same_generator_same_weights():
    assert same(learner().state(), learner().state())
    other = Learner(make_config(hidden=16), SPEC, ACTIONS, torch.Generator().manual_seed(1))
    assert not torch.equal(other.state()["actor.head.weight"], learner().state()["actor.head.weight"])


# --- rates of their own, and a least temperature ---

SMALL = {"random_steps": 20, "batch_size": 4, "hidden": 16}


def test_the_temperature_may_learn_at_its_own_rate():
    slow, fast = (DSAC("CartPole-v1", alpha_learning_rate=rate, **SMALL).learn(60) for rate in (1e-5, 1e-2))
    assert slow.learner.alpha.item() == pytest.approx(1.0, abs=1e-3)
    assert abs(fast.learner.alpha.item() - 1.0) > 0.01
    same, named = (DSAC("CartPole-v1", alpha_learning_rate=rate, **SMALL).learn(60) for rate in (None, 5e-4))
    assert same.learner.alpha.equal(named.learner.alpha)


def test_a_tuned_temperature_stops_at_its_least_and_may_rise_from_it():
    def alpha(target: float, least: float) -> float:
        settings = {"initial_alpha": 0.31, "alpha_learning_rate": 1e-2, "target_entropy_ratio": target, **SMALL}
        return DSAC("CartPole-v1", min_alpha=least, **settings).learn(60).learner.alpha.item()

    assert alpha(0.0, 0.0) < 0.25
    assert alpha(0.0, 0.3) == pytest.approx(0.3)
    assert alpha(1.5, 0.3) > 0.4


def test_the_actor_may_learn_at_its_own_rate():
    models = [DSAC("CartPole-v1", actor_learning_rate=rate, **SMALL) for rate in (None, 5e-4, 1e-9)]
    before = models[2].learner.state()["actor.head.weight"].clone()
    same, named, still = (model.learn(60).learner.state()["actor.head.weight"] for model in models)
    assert same.equal(named)
    assert torch.allclose(still, before, atol=1e-6)
    assert not torch.allclose(same, before, atol=1e-4)


def test_a_large_epsilon_of_the_actors_own_holds_actor_and_temperature_back():
    free, held = (DSAC("CartPole-v1", actor_adam_eps=eps, **SMALL) for eps in (1e-8, 1e6))
    for model in (free, held):
        start = {name: tensor.clone() for name, tensor in model.learner.state().items()}
        model.learn(60)
        moved = {name: not model.learner.state()[name].allclose(start[name], atol=1e-6) for name in start}
        assert moved["critics.heads.0.weight"]
        assert moved["actor.head.weight"] == moved["log_alpha"] == (model is free)
