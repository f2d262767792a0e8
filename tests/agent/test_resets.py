"""Shrink and perturb: which weights are kept in part, which are new, and what becomes of Adam's moments."""

from typing import Any

import pytest
import torch
from torch import nn

from dsacc.agent import Batch, Learner, ObservationSpec, register_encoder
from dsacc.config import make_config

VECTOR, PICTURE = ObservationSpec("vector", (4,)), ObservationSpec("image", (2, 40, 40))
State = dict[str, torch.Tensor]


def learner(spec: ObservationSpec = VECTOR, weights: int = 0, **settings: Any) -> Learner:
    small = {"hidden": 8, "batch_size": 4, "average_policy": True, "target_tau": 0.1, **settings}
    return Learner(make_config("classic", **small), spec, 3, torch.Generator().manual_seed(weights))


def copied(model: Learner) -> State:
    return {name: value.clone() for name, value in model.state().items()}


def trained(model: Learner, updates: int = 3) -> State:
    for i in range(updates):
        g = torch.Generator().manual_seed(i)
        shape = (4, *model.spec.shape)
        seen = [torch.randn(shape, generator=g) for _ in range(2)]
        if model.spec.kind == "image":
            seen = [(x * 255).to(torch.uint8) for x in seen]
        model.update(
            Batch(
                observation=seen[0],
                action_B=torch.randint(3, (4,), generator=g),
                rewards_BN=torch.randn(4, 1, generator=g),
                steps_B=torch.ones(4, dtype=torch.int64),
                terminated_B=torch.zeros(4),
                next_observation=seen[1],
                entropy_B=torch.zeros(4),
            ),
            torch.zeros(0),
            0,
        )
        model.update_targets()
    return copied(model)


def networks(state: State) -> list[str]:
    return [name for name in state if name.startswith(("actor.", "critics.", "target_"))]


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize(("spec", "part"), [(PICTURE, "convolutions"), (VECTOR, "body")])
def test_a_share_of_the_encoder_is_kept_and_everything_else_is_new(spec: ObservationSpec, part: str, shared: bool):
    model = learner(spec, shared_trunk=shared, reset_keep=0.75)
    before, fresh = trained(model), learner(spec, 7, shared_trunk=shared).state()
    model.reset(torch.Generator().manual_seed(7))
    after = copied(model)
    kept = [name for name in networks(before) if f".{part}." in name]
    assert {name.split(".")[0] for name in kept} >= {"critics", "target_critics"}
    for name in networks(before):
        new = fresh[name.removeprefix("target_")]
        torch.testing.assert_close(after[name], 0.75 * before[name] + 0.25 * new if name in kept else new, msg=name)


def test_adams_moments_stay_where_weights_were_kept_and_start_anew_elsewhere():
    model = learner(PICTURE, shared_trunk=True)
    before = trained(model)
    model.reset(torch.Generator().manual_seed(7))
    names = [name for name, _ in model.critics.named_parameters()]
    left = {name for name in model.state() if "_optimizer." in name}
    moments = ("exp_avg", "exp_avg_sq", "step")
    kept = [f"critic_optimizer.{i}.{m}" for i, name in enumerate(names) if ".convolutions." in name for m in moments]
    assert len(kept) == 4 * 3  # two layers with weights and biases; nothing is left of the actor's, which is a head
    assert {name for name in left if not name.startswith("alpha")} == set(kept)
    assert all(before[name].equal(model.state()[name]) for name in kept)


@pytest.mark.parametrize("keep", [0.0, 1.0])
def test_to_keep_nothing_is_to_begin_again_and_to_keep_all_leaves_the_encoder_alone(keep: float):
    model = learner(reset_keep=keep)
    before, fresh = trained(model), learner(weights=7).state()
    model.reset(torch.Generator().manual_seed(7))
    for name in networks(before):
        wanted = before[name] if keep and ".body." in name else fresh[name.removeprefix("target_")]
        assert model.state()[name].equal(wanted), name


def test_of_an_encoder_of_ones_own_a_share_of_all_is_kept():
    register_encoder("for-resets", lambda space, config: nn.Sequential(nn.Linear(4, 5), nn.Tanh()))
    model = learner(encoder="for-resets", shared_trunk=True)
    before, fresh = trained(model), learner(weights=7, encoder="for-resets", shared_trunk=True).state()
    model.reset(torch.Generator().manual_seed(7))
    name = "critics.encoders.0.body.0.weight"
    torch.testing.assert_close(model.state()[name], (before[name] + fresh[name]) / 2)
    assert model.state()["critics.heads.1.weight"].equal(fresh["critics.heads.1.weight"])


def test_what_is_saved_between_a_reset_and_the_next_update_goes_on_alike():
    model, other = learner(PICTURE, shared_trunk=True), learner(PICTURE, 1, shared_trunk=True)
    trained(model)
    model.reset(torch.Generator().manual_seed(7))
    other.load_state(copied(model))
    one, two = trained(model), trained(other)
    assert one.keys() == two.keys()
    assert all(one[name].equal(two[name]) for name in one)


def test_the_temperature_is_not_reset():
    model = learner(alpha=0.1, alpha_scale="range")
    before = trained(model)
    model.reset(torch.Generator().manual_seed(7))
    assert all(model.state()[name].equal(before[name]) for name in ("log_alpha", "value_range"))
