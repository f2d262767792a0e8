"""What is shown of an agent is what its update computes, and the clip does what the paper's figure says."""

import copy
import math

import numpy as np
import pytest
import torch
from scipy.optimize import brentq

from dsacc import DSAC
from dsacc.agent import learner as learner_module
from dsacc.config import make_config
from dsacc.errors import ModelError
from dsacc.views.insight.look import FREE, keeps, lambdas_under_noise, look, understand

TINY = {"random_steps": 20, "hidden": 16, "batch_size": 8}
HALF = torch.tensor([[0.5, 0.5]])
Q01 = torch.tensor([[0.0, 1.0]])


def logit(p: float) -> float:
    return math.log(p / (1 - p))


def seen(constraint, noise=None, *, q=Q01, pi=HALF, alpha=1.0, **settings):
    config = make_config("classic", constraint=constraint, noise_std=1.0, **settings)
    drawn = None if noise is None else torch.tensor(noise, dtype=torch.float64)
    return understand(config, q, pi, torch.tensor(alpha), drawn)


@pytest.mark.parametrize(
    ("eps", "clipped", "kept_without"),
    [(0.3, 1.0, False), (0.1, None, True), (-0.1, 0.0, True)],  # past 1, inside, below 0
)
def test_two_actions_by_hand_under_the_mean_constraint(eps, clipped, kept_without):
    # softmax([0, 1]) gives the second action s = 1 / (1 + 1/e), so mu_theta = s, and pi(lambda) gives it
    # sigmoid(1 - lambda): the target s - eps is met at lambda = 1 - logit(s - eps).
    target = 1 / (1 + math.exp(-1)) - eps
    insight = seen("mean", [eps])
    root = 1 - logit(target)
    assert insight.target_BK[0, 0] == pytest.approx(target, abs=1e-12)
    assert insight.root_B[0] == pytest.approx(root, abs=1e-9)
    assert insight.lambda_BK[0, 0] == pytest.approx(root if clipped is None else clipped, abs=1e-9)
    assert insight.unclipped_BA[0, 1] == pytest.approx(target, abs=1e-9)
    assert insight.clipped_BA[0, 1] == pytest.approx(1 / (1 + math.exp(insight.lambda_BK[0, 0] - 1)), abs=1e-9)
    assert [bool(x[0]) for x in insight.kept] == [True, kept_without]
    assert insight.reached_B[0]


def test_two_actions_by_hand_under_the_variance_constraint():
    # mu_phi = 1/2, eps = 1/4: v = (Q - 1/4)^2 = [1/16, 9/16]. With p = pi(second), E[v] = 1/16 + p/2, to be s (1 - s);
    # and logit p = 1 - lambda / 2.
    s = 1 / (1 + math.exp(-1))
    insight = seen("variance", [0.25])
    p = 2 * (s * (1 - s) - 1 / 16)
    assert insight.root_B[0] == pytest.approx(2 * (1 - logit(p)), abs=1e-9)
    assert insight.lambda_BK[0, 0] == 1
    assert insight.clipped_BA[0, 1] == pytest.approx(1 / (1 + math.exp(-0.5)), abs=1e-12)
    assert insight.unclipped_BA[0, 1] == pytest.approx(p, abs=1e-9)
    assert [bool(x[0]) for x in insight.kept] == [True, False]


def test_without_noise_the_mean_constraint_asks_for_nothing():
    insight = seen("mean", q=torch.tensor([[0.3, -0.2, 1.0], [5.0, 5.0, 5.0]]), pi=torch.full((2, 3), 1 / 3), alpha=0.2)
    assert (insight.lambda_BK == 0).all()
    assert np.abs(insight.root_B).max() < 1e-9
    assert np.allclose(insight.clipped_BA, insight.surrogate_BA)
    assert np.allclose(insight.surrogate_BA[0], np.exp([1.5, -1, 5]) / np.exp([1.5, -1, 5]).sum())


def test_the_plain_form_has_the_closed_form_and_no_alpha_in_its_policy():
    insight = seen("mean", alpha=5.0, multiplier_form="plain")
    assert insight.lambda_BK[0, 0] == pytest.approx(0.8, abs=1e-9)
    assert np.allclose(insight.clipped_BA, insight.surrogate_BA)


def test_a_target_outside_all_q_is_met_by_no_lambda_and_is_said_to_be():
    above, below = seen("mean", [-3.0]), seen("mean", [3.0])
    assert (above.root_B[0], below.root_B[0]) == FREE
    assert not above.reached_B[0]
    assert not below.reached_B[0]
    assert below.unclipped_BA[0].tolist() == [1, 0]
    assert below.clipped_BA[0].tolist() == [0.5, 0.5]


def test_the_unclipped_root_is_scipys():
    rng = np.random.default_rng(0)
    q, noise = rng.normal(size=(20, 5)), 0.3 * rng.normal(size=20)
    insight = seen("mean", noise, q=torch.from_numpy(q), pi=torch.full((20, 5), 0.2), alpha=0.3)

    def g(lam, q_A, target):
        e = (1 - lam) * q_A / 0.3
        w = np.exp(e - e.max())
        return (w * q_A).sum() / w.sum() - target

    checked = 0
    for q_A, root, target in zip(q, insight.root_B, insight.target_BK[:, 0], strict=True):
        if q_A.min() + 1e-3 < target < q_A.max() - 1e-3:
            assert root == pytest.approx(brentq(g, -100, 100, args=(q_A, target), xtol=1e-13), abs=1e-7)
            checked += 1
    assert checked > 10


@pytest.mark.parametrize("settings", [{}, {"constraint": "both"}, {"constraint": "mean", "fixed_lambda": 0.4}])
def test_where_no_multiplier_is_solved_without_bounds_there_is_no_unclipped_policy(settings):
    insight = seen(settings.pop("constraint", None), **settings)
    assert insight.unclipped_BA is None
    assert insight.root_B is None
    assert insight.kept is None
    assert insight.reached_B is None
    assert (insight.clipped_BA is None) == (insight.names == ())
    if settings:
        assert insight.lambda_BK.tolist() == [[0.4]]


def test_a_tie_keeps_the_best_action_and_a_turn_loses_it():
    q = np.array([[1.0, 2.0, 0.0]] * 3)
    assert keeps(q, np.array([[1 / 3] * 3, [0.2, 0.5, 0.3], [0.4, 0.3, 0.3]])).tolist() == [True, True, False]


@pytest.mark.parametrize("constraint", ["mean", "variance", "both"])
@pytest.mark.parametrize("perturbation", ["target", "weights"])
def test_lambda_is_the_one_that_the_update_uses(constraint, perturbation, monkeypatch):
    model = DSAC("CartPole-v1", constraint=constraint, perturbation=perturbation, noise_std=0.2, **TINY)
    calls, rows = [], []
    real = learner_module.constraint_terms

    def spy(config, *arguments, mask):
        calls.append([x.detach().clone() for x in arguments])
        return real(config, *arguments, mask=mask)

    update = model.learner.update
    monkeypatch.setattr(learner_module, "constraint_terms", spy)
    monkeypatch.setattr(model.learner, "update", lambda *args: rows.append(update(*args)) or rows[-1])
    model.learn(30)
    names = {"mean": ["lambda"], "variance": ["lambda_2"], "both": ["lambda_1", "lambda_2"]}[constraint]
    assert calls
    for (q_BA, pi_BA, alpha, noise), row in zip(calls, rows, strict=True):
        insight = understand(model.config, q_BA, pi_BA, alpha, noise)
        assert insight.lambda_BK.mean(axis=0).tolist() == pytest.approx([float(row[name]) for name in names], rel=1e-14)


def test_looking_reads_the_networks_and_changes_nothing():
    model = DSAC("CartPole-v1", constraint="mean", critics="min", **TINY).learn(60)
    before = copy.deepcopy(model.learner.state())
    states = np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32)
    insight = look(model, states, noise=np.zeros(6))
    with torch.no_grad():
        q1, q2 = model.learner.critics(torch.from_numpy(states))
    assert np.array_equal(insight.q_BA, torch.minimum(q1, q2).double().numpy())
    logits = model.logits(states)
    assert np.allclose(insight.policy_BA, np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True))
    assert insight.alpha == pytest.approx(float(model.learner.alpha))
    assert insight.best_B.tolist() == insight.q_BA.argmax(axis=1).tolist()
    assert all(torch.equal(before[key], value) for key, value in model.learner.state().items())
    assert look(model, states[0]).q_BA.shape == (1, 2)
    assert np.array_equal(look(model, states).lambda_BK, insight.lambda_BK)


def test_noise_of_another_shape_is_refused():
    with pytest.raises(ModelError, match=r"noise of shape \(3,\) does not fit; these states need the shape \(1,\)"):
        seen("mean", [0.1, 0.2, 0.3])


def test_many_draws_at_once_are_the_single_draws():
    config = make_config("classic", constraint="both", noise_std=0.5)
    q_BA, pi_BA = torch.randn(3, 4, dtype=torch.float64), torch.full((3, 4), 0.25, dtype=torch.float64)
    noise = np.array([-1.0, 0.2, 1.5])
    alpha = torch.tensor(0.3, dtype=torch.float64)
    many = lambdas_under_noise(config, q_BA, pi_BA, alpha, noise)
    assert many.shape == (3, 3, 2)
    for n, eps in enumerate(noise):
        one = understand(config, q_BA, pi_BA, alpha, torch.full((3,), eps))
        assert np.allclose(many[:, n], one.lambda_BK, atol=1e-9)
    plain = make_config("classic")
    assert lambdas_under_noise(plain, q_BA, pi_BA, alpha, noise).shape == (3, 3, 0)
