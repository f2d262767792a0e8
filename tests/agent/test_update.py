"""The update against the same update written again from the equations: its reports, its gradients, its steps."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from helpers.one_update import NETWORKS, Expected, State, adam_step, gradient_taken, one_update

from dsacc.agent import Batch, Learner, ObservationSpec
from dsacc.config import make_config

SPEC = ObservationSpec("vector", (4,))
ACTIONS, SIZE, N = 3, 8, 3


def learner(**settings: Any) -> Learner:
    quick = {"hidden": 16, "batch_size": SIZE, "n_step": N, "gamma": 0.7, "learning_rate": 1e-2, "target_tau": 0.1}
    config = make_config("classic", **{**quick, **settings})
    return Learner(config, SPEC, ACTIONS, torch.Generator().manual_seed(0))


def batch(seed: int) -> Batch:
    """Transitions of one to three steps: a reward counts only until its episode ends."""
    g = torch.Generator().manual_seed(seed)
    steps = torch.randint(1, N + 1, (SIZE,), generator=g)
    rewards = torch.randn(SIZE, N, generator=g) * (torch.arange(N) < steps[:, None])
    return Batch(
        observation=torch.randn(SIZE, 4, generator=g),
        action_B=torch.randint(ACTIONS, (SIZE,), generator=g),
        rewards_BN=rewards,
        steps_B=steps,
        terminated_B=(torch.rand(SIZE, generator=g) < 0.3).float(),
        next_observation=torch.randn(SIZE, 4, generator=g),
        entropy_B=torch.rand(SIZE, generator=g) * math.log(ACTIONS),
    )


def noise_for(model: Learner, seed: int) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(model.noise_shape()))


def copied(model: Learner) -> State:
    return {name: value.clone() for name, value in model.state().items()}


def updated(model: Learner, warm: int = 12) -> tuple[State, State, dict[str, float], Expected]:
    """The states around the update that comes after `warm` others, what it reported, and what it should have."""
    for i in range(warm):
        model.update(batch(i), noise_for(model, i), i)
        model.update_targets()
    before, b, noise = copied(model), batch(99), noise_for(model, 99)
    out = {name: float(value) for name, value in model.update(b, noise, 50).items()}
    after = copied(model)
    return before, after, out, one_update(model.config, before, after, b, noise, 50)


def assert_as_expected(before: State, after: State, out: dict[str, float], expected: Expected) -> None:
    assert {name: out[name] for name in expected.report} == pytest.approx(expected.report, rel=1e-4, abs=1e-6)
    for optimizer in NETWORKS:
        if f"{optimizer}.0.exp_avg" in after:
            taken = gradient_taken(before, after, optimizer)
            largest = max(float(expected.gradients[name].abs().max()) for name in taken)
            for name, gradient in taken.items():
                wanted = expected.gradients[name]
                torch.testing.assert_close(gradient, wanted, rtol=1e-3, atol=3e-4 * largest, msg=name)


SETTINGS: list[dict[str, Any]] = [
    {},
    {"alpha": 0.3},
    {"alpha": 0.0},
    {"critics": "min"},
    {"critic_entropy": 1.0},
    {"critic_entropy": 0.5, "critics": "min"},
    {"critic_loss": "huber"},
    {"q_clip": 0.05},
    {"q_clip": 0.05, "critic_loss": "huber"},
    {"shared_trunk": True},
    {"shared_trunk": True, "critics": "min", "constraint": "mean"},
    {"average_policy": True, "critic_entropy": 1.0},
    {"average_policy": True, "critic_entropy": 1.0, "shared_trunk": True},
    {"entropy_penalty": 0.5},
    {"surrogate_kl": 0.5},
    {"natural_gradient": True},
    {"natural_gradient": True, "constraint": "both", "entropy_penalty": 0.5},
    {"grad_clip": 0.1},
    {"target_entropy_ratio": 0.9, "target_entropy_final": 0.1, "target_entropy_steps": 200},
    {"constraint": "mean", "fixed_lambda": 0.4},
    {"constraint": "variance", "fixed_lambda": 0.4},
    {"constraint": "both", "fixed_lambda": 0.4},
]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_losses_and_gradients_are_those_of_the_equations(settings):
    assert_as_expected(*updated(learner(**settings)))


@pytest.mark.parametrize("form", ["tempered", "plain"])
@pytest.mark.parametrize("relative", [False, True])
@pytest.mark.parametrize("scope", ["state", "update"])
@pytest.mark.parametrize("perturbation", ["target", "weights", "values", "none"])
@pytest.mark.parametrize("constraint", ["mean", "variance", "both"])
def test_every_reading_of_a_constraint_gives_the_multipliers_and_gradients_of_its_equations(
    constraint, perturbation, scope, relative, form
):
    reading = {"perturbation": perturbation, "noise_scope": scope, "noise_relative": relative, "noise_std": 0.5}
    model = learner(constraint=constraint, multiplier_form=form, initial_alpha=0.5, **reading)
    before, after, out, expected = updated(model, warm=3)
    assert_as_expected(before, after, out, expected)
    lambdas = [v for k, v in out.items() if k.startswith("lambda") and "_at_" not in k and k != "lambda_iterations"]
    assert lambdas == pytest.approx([m["lambda"] for m in expected.multipliers], abs=1e-4)
    for name in ("residual", "violation"):
        found = [v for k, v in out.items() if k.startswith(f"constraint_{name}")]
        assert found == pytest.approx([m[name] for m in expected.multipliers], rel=1e-3, abs=1e-4)
    if perturbation != "none":  # without noise lambda is at its bound by rounding alone
        for end in ("at_lower", "at_upper"):
            found = [v for k, v in out.items() if k.startswith(f"lambda_{end}")]
            assert found == pytest.approx([m[end] for m in expected.multipliers])


@pytest.mark.parametrize(
    ("settings", "rates", "epsilons"),
    [
        ({}, (1e-2, 1e-2, 1e-2), (1e-8, 1e-8, 1e-8)),
        ({"actor_learning_rate": 1e-3, "alpha_learning_rate": 1e-4}, (1e-2, 1e-3, 1e-4), (1e-8, 1e-8, 1e-8)),
        ({"adam_eps": 1e-3}, (1e-2, 1e-2, 1e-2), (1e-3, 1e-3, 1e-3)),
        ({"actor_adam_eps": 0.1}, (1e-2, 1e-2, 1e-2), (1e-8, 0.1, 0.1)),
    ],
    ids=str,
)
def test_critics_actor_and_temperature_each_take_one_adam_step_at_their_own_rate(settings, rates, epsilons):
    before, after, _, _ = updated(learner(**settings))
    for optimizer, rate, eps in zip(NETWORKS, rates, epsilons, strict=True):
        for name, step in adam_step(after, optimizer, rate, eps).items():
            torch.testing.assert_close(after[name].double() - before[name], step, rtol=1e-3, atol=1e-6)


def test_a_shared_trunk_is_the_critics_own_and_the_actor_has_only_a_head():
    names = learner(shared_trunk=True).state()
    assert {name for name in names if name.startswith("actor.")} == {"actor.head.weight", "actor.head.bias"}
    assert not any(name.startswith("critics.encoders.1") for name in names)
