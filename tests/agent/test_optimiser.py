"""Adam with decoupled weight decay, against torch's AdamW and by value."""

from typing import Any

import pytest
import torch
from torch import nn

from dsacc.agent import Learner, ObservationSpec
from dsacc.agent.optimiser import Adam, matrices
from dsacc.config import make_config


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 5), nn.LayerNorm(5), nn.ReLU(), nn.Linear(5, 2))


def loss_of(model: nn.Module, seed: int) -> torch.Tensor:
    x = torch.randn(6, 4, generator=torch.Generator().manual_seed(seed))
    return (model(x) - x[:, :2]).square().mean()


@pytest.mark.parametrize("decay", [0.0, 0.5])
def test_it_is_torchs_adamw_with_decay_on_the_weights_of_layers_alone_at_any_rate(decay: float) -> None:
    ours, theirs = network(), network()
    optimizer = Adam(ours.parameters(), 0.02, 1e-8, decay=decay, decayed=matrices(ours))
    weights = [p for p in theirs.parameters() if p.dim() > 1]
    others = [p for p in theirs.parameters() if p.dim() == 1]
    assert (len(weights), len(others)) == (2, 4)
    groups: list[Any] = [{"params": weights, "weight_decay": decay}, {"params": others, "weight_decay": 0.0}]
    wanted = torch.optim.AdamW(groups, lr=0.02, eps=1e-8)
    for i in range(20):
        optimizer.scale_rate(0.9**i)
        for group in wanted.param_groups:
            group["lr"] = 0.02 * 0.9**i
        optimizer.minimise(loss_of(ours, i), "loss")
        wanted.zero_grad()
        loss_of(theirs, i).backward()
        wanted.step()
    for one, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("shared", [True, False])
def test_critics_and_encoders_decay_and_the_actors_head_does_not(shared: bool) -> None:
    config = make_config("classic", hidden=8, weight_decay=0.5, shared_trunk=shared, actor_learning_rate=1e-2)
    model = Learner(config, ObservationSpec("vector", (4,)), 3, torch.Generator().manual_seed(0))
    before = {name: value.clone() for name, value in model.state().items()}
    for some, optimizer in ((model.critics, model.critic_optimizer), (model.actor, model.actor_optimizer)):
        zero = sum((p.sum() * 0 for p in some.parameters()), torch.zeros(()))
        optimizer.minimise(zero, "nothing to learn")
    after = model.state()
    for name in [name for name in before if name.startswith(("critics.", "actor."))]:
        rate = 5e-4 if name.startswith("critics.") else 1e-2
        decays = before[name].dim() > 1 and name != "actor.head.weight"
        torch.testing.assert_close(after[name], before[name] * (1 - rate * 0.5 if decays else 1.0), msg=name)


def test_without_decay_nothing_is_touched_but_by_adam() -> None:
    model = network()
    assert Adam(model.parameters(), 0.1, 1e-8, decayed=matrices(model)).decayed == []
