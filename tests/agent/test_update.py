"""The update against the same update written again from the equations: its reports, its gradients, its steps."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from helpers.one_update import NETWORKS, Expected, State, adam_step, gradient_taken, one_update

from dsacc.agent import Batch, Learner, ObservationSpec
from dsacc.config import make_config

SPEC = ObservationSpec("vector", (4,))
ACTIONS, SIZE, N = 3, 8, 3
FIVE = 5  # actions where there are masks


def learner(actions: int = ACTIONS, **settings: Any) -> Learner:
    quick = {"hidden": 16, "batch_size": SIZE, "n_step": N, "gamma": 0.7, "learning_rate": 1e-2, "target_tau": 0.1}
    config = make_config("classic", **{**quick, **settings})
    return Learner(config, SPEC, actions, torch.Generator().manual_seed(0))


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


def masked(b: Batch, seed: int) -> Batch:
    """The same transitions among five actions, of which each state allows one, three, four or all. With two allowed,
    the multipliers of two constraints would not be unique."""
    g = torch.Generator().manual_seed(seed)
    orders = [torch.stack([torch.randperm(FIVE, generator=g) for _ in range(SIZE)]) for _ in range(2)]
    counts = torch.tensor([1, 3, 4, 5])[torch.randint(4, (SIZE,), generator=g)]
    now, then = ((order < counts[:, None]) for order in orders)
    return replace(b, action_B=orders[0].argmin(dim=1), mask_BA=now, next_mask_BA=then)


def noise_for(model: Learner, seed: int) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(model.noise_shape()))


def copied(model: Learner) -> State:
    return {name: value.clone() for name, value in model.state().items()}


def warmed(model: Learner, updates: int = 12) -> Learner:
    for i in range(updates):
        model.update(batch(i), noise_for(model, i), i)
        model.update_targets()
    return model


def updated(
    model: Learner, warm: int = 12, augmented: torch.Tensor | None = None, with_masks: bool = False
) -> tuple[State, State, dict[str, float], Expected]:
    """The states around the update that comes after `warm` others, what it reported, and what it should have."""
    before, b, noise = copied(warmed(model, warm)), batch(99), noise_for(model, 99)
    b = masked(b, 1) if with_masks else b
    out = {name: float(value) for name, value in model.update(b, noise, 50, augmented).items()}
    after = copied(model)
    return before, after, out, one_update(model.config, before, after, b, noise, 50, augmented)


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
    {"critic_loss": "hl-gauss", "value_limit": 4.0},
    {"critic_loss": "hl-gauss", "value_limit": 1.0, "shared_trunk": True, "constraint": "mean"},
    {"critic_loss": "hl-gauss", "constraint": "variance", "critics": "min", "grad_clip": 0.1},
    {"alpha": 0.3, "alpha_scale": "range", "min_range": 2.0, "natural_gradient": True, "constraint": "mean"},
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


# --- masks ---

READINGS: list[dict[str, Any]] = [
    {"constraint": "mean", "perturbation": "weights"},
    {"constraint": "mean", "perturbation": "target", "noise_relative": True, "noise_std": 0.5},
    {"constraint": "mean", "perturbation": "values", "multiplier_form": "plain", "noise_std": 0.5},
    {"constraint": "variance", "perturbation": "values", "noise_relative": True, "noise_scope": "update"},
    {"constraint": "variance", "perturbation": "target", "natural_gradient": True, "average_policy": True},
    {"constraint": "both", "perturbation": "target", "noise_std": 0.5, "multiplier_form": "plain"},
    {"constraint": "both", "perturbation": "weights", "initial_alpha": 0.5, "shared_trunk": True},
]


MASKED = [
    *((one, False) for one in [*SETTINGS, *READINGS]),
    *((one, True) for one in [*SETTINGS[14:17], *READINGS[4:]]),
]


@pytest.mark.parametrize(("settings", "augmented"), MASKED, ids=str)
def test_actions_that_a_mask_does_not_allow_are_in_no_loss_no_target_and_no_constraint(settings, augmented):
    before, after, out, expected = updated(
        learner(FIVE, **settings), 3, CHANGED["three of eight"] if augmented else None, with_masks=True
    )
    assert_as_expected(before, after, out, expected)
    lambdas = [v for k, v in out.items() if k.startswith("lambda") and "_at_" not in k and k != "lambda_iterations"]
    assert lambdas == pytest.approx([m["lambda"] for m in expected.multipliers], abs=1e-4)


@pytest.mark.parametrize("settings", [SETTINGS[0], *READINGS], ids=str)
def test_an_update_with_a_mask_is_the_update_of_an_agent_that_lacks_these_actions(settings):
    kept = torch.tensor([0, 2])
    large, small = learner(**settings), learner(actions=len(kept), **settings)
    restricted = {
        name: value[kept] if ".head" in name and "optimizer" not in name else value
        for name, value in large.state().items()
    }
    small.load_state(restricted)
    b = batch(5)
    index = torch.randint(len(kept), (SIZE,), generator=torch.Generator().manual_seed(5))
    allowed = torch.zeros(SIZE, ACTIONS).bool().index_fill(1, kept, True)
    noise = noise_for(large, 5)
    reports = [
        large.update(replace(b, action_B=kept[index], mask_BA=allowed, next_mask_BA=allowed), noise, 50),
        small.update(replace(b, action_B=index), noise[:, kept] if noise.dim() == 2 else noise, 50),
    ]
    found, wanted = ({name: float(value) for name, value in report.items()} for report in reports)
    assert found == pytest.approx(wanted, rel=1e-4, abs=1e-5)
    for name, value in small.state().items():
        whole = large.state()[name]
        if value.shape == whole.shape:
            torch.testing.assert_close(whole, value, rtol=1e-3, atol=1e-5)
            continue
        torch.testing.assert_close(whole[kept], value, rtol=1e-3, atol=1e-5)
        if "exp_avg" in name:
            assert not whole[1].any()  # nothing was learned about the action that is not allowed


# --- augmented states ---

CHANGED = {
    "three of eight": batch(98).observation[:3],
    "all": batch(98).observation,
    "unchanged": batch(99).observation[:3],
}
AUGMENTED: list[dict[str, Any]] = [
    *SETTINGS,
    {"constraint": "mean", "shared_trunk": True, "alpha": 0.3},
    {"constraint": "both", "noise_scope": "update", "noise_relative": True},
    {"constraint": "variance", "perturbation": "weights"},
]


@pytest.mark.parametrize("settings", AUGMENTED, ids=str)
def test_augmented_states_learn_from_what_is_known_of_their_clean_ones(settings):
    assert_as_expected(*updated(learner(**settings), augmented=CHANGED["three of eight"]))


@pytest.mark.parametrize("augmented", CHANGED.values(), ids=CHANGED)
@pytest.mark.parametrize("shared", [True, False])
def test_losses_are_means_over_all_states_shown(shared, augmented):
    assert_as_expected(*updated(learner(shared_trunk=shared, constraint="mean"), augmented=augmented))


def test_a_minibatch_shown_twice_unchanged_gives_the_gradients_of_one_shown_once():
    (once_before, once, *_), (before, twice, *_) = (
        updated(learner(constraint="both"), augmented=changed) for changed in (None, batch(99).observation)
    )
    for optimizer in NETWORKS:
        wanted = gradient_taken(once_before, once, optimizer)
        for name, gradient in gradient_taken(before, twice, optimizer).items():
            torch.testing.assert_close(gradient, wanted[name], rtol=1e-3, atol=1e-5)


def test_what_is_reported_is_that_of_the_clean_states():
    """With a shared trunk Q is the one before the step, so augmented states cannot move it through the weights."""
    reports = [
        updated(learner(shared_trunk=True, constraint="both"), augmented=changed)[2]
        for changed in (None, 10 * CHANGED["all"])
    ]
    assert reports[1] == pytest.approx(reports[0], rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("settings", [{}, {"average_policy": True, "shared_trunk": True}, {"q_clip": 0.05}], ids=str)
def test_targets_and_the_actors_q_never_see_an_augmented_state(settings):
    """Online critics see the augmented states once, in one pass with the clean ones, and with them the actor's."""
    model, seen = warmed(learner(**settings)), dict[str, list[torch.Tensor]]()

    def watch(name: str, network: torch.nn.Module) -> None:
        network.register_forward_pre_hook(lambda _, given: seen.setdefault(name, []).append(given[0]))

    watch("target", model.target_critics.encoders[0])
    watch("online", model.critics.encoders[0])
    if model.target_actor is not None and model.target_actor.encoder is not None:
        watch("target", model.target_actor.encoder)
    if model.actor.encoder is not None:
        watch("actor", model.actor.encoder)
    b, changed = batch(99), CHANGED["three of eight"]
    model.update(b, noise_for(model, 99), 50, changed)
    allowed = {"clean": b.observation, "next": b.next_observation, "shown": torch.cat((b.observation, changed))}
    calls = {
        name: [next(what for what, x in allowed.items() if x.equal(given)) for given in inputs]
        for name, inputs in seen.items()
    }
    assert calls["target"] == (["next", "clean"] if settings.get("q_clip") else ["next"])
    if settings.get("shared_trunk"):
        assert calls["online"] == ["shown"]
    else:
        assert calls["online"] == ["shown", "clean"]  # and again after the step of the critics
        assert calls["actor"] == ["next", "shown"]


def test_with_a_shared_trunk_the_actors_loss_on_augmented_states_trains_its_head_alone():
    """The trunk takes the critics' gradient whatever the actor's loss is."""
    taken = []
    for kl in (0.0, 5.0):
        before, after, *_ = updated(learner(shared_trunk=True, surrogate_kl=kl), warm=0, augmented=CHANGED["all"])
        taken.append({name: gradient_taken(before, after, name) for name in NETWORKS})
    trunk = [t["critic_optimizer"] for t in taken]
    assert all(trunk[0][name].equal(trunk[1][name]) for name in trunk[0])
    assert not taken[0]["actor_optimizer"]["actor.head.weight"].equal(taken[1]["actor_optimizer"]["actor.head.weight"])


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
