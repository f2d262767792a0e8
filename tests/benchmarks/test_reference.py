"""The benchmark's plain reference and `Learner` do the same maths, so that their times can be compared."""

import pytest
import torch
from helpers.scripts import script

from dsacc.agent import Batch, Learner, ObservationSpec
from dsacc.config import make_config

ACTIONS, SIZE, PICTURE = 18, 8, (4, 84, 84)
NETWORKS = {  # the reference's name: where `Learner.state` keeps the same layers, in the same order
    "actor": ("actor.encoder.", "actor.head."),
    "q1": ("critics.encoders.0.", "critics.heads.0."),
    "q2": ("critics.encoders.1.", "critics.heads.1."),
    "q1_target": ("target_critics.encoders.0.", "target_critics.heads.0."),
    "q2_target": ("target_critics.encoders.1.", "target_critics.heads.1."),
}


def layers(state: dict[str, torch.Tensor], prefixes: tuple[str, ...]) -> list[torch.Tensor]:
    return [plain(value) for prefix in prefixes for key, value in state.items() if key.startswith(prefix)]


def plain(value: torch.Tensor) -> torch.Tensor:
    """The learner flattens the last convolution as [7, 7, 64], the order of its memory; the reference as [64, 7, 7]."""
    return value.view(512, 7, 7, 64).permute(0, 3, 1, 2).reshape(512, -1) if value.shape == (512, 3136) else value


def pairs(agent, learner: Learner):
    """Every parameter of the reference beside the learner's, with a name."""
    state = learner.state()
    for name, prefixes in NETWORKS.items():
        ours = dict(getattr(agent, name).named_parameters())
        theirs = layers(state, prefixes)
        assert [p.shape for p in ours.values()] == [p.shape for p in theirs]
        yield from ((f"{name}.{key}", a, b) for (key, a), b in zip(ours.items(), theirs, strict=True))


def make_batch(seed: int) -> Batch:
    g = torch.Generator().manual_seed(seed)
    pictures = [torch.randint(256, (SIZE, *PICTURE), generator=g, dtype=torch.uint8) for _ in range(2)]
    return Batch(
        pictures[0],
        torch.randint(ACTIONS, (SIZE,), generator=g),
        torch.randn(SIZE, 1, generator=g),
        torch.ones(SIZE, dtype=torch.int64),
        (torch.arange(SIZE) % 4 == 0).float(),
        pictures[1],
        torch.zeros(SIZE),
    )


def test_reference_and_learner_give_the_same_losses_and_parameters():
    reference = script("benchmarks/reference.py")
    config = make_config("paper", batch_size=SIZE)
    learner = Learner(config, ObservationSpec("image", PICTURE), ACTIONS, torch.Generator().manual_seed(0))
    agent = reference.DiscreteSAC(ACTIONS)
    with torch.no_grad():
        for _, ours, theirs in pairs(agent, learner):
            ours.copy_(theirs)
    start = {name: ours.detach().clone() for name, ours, _ in pairs(agent, learner)}

    for step in range(3):
        batch = make_batch(step)
        theirs = learner.update(batch, torch.zeros(learner.noise_shape()), step)
        ours = agent.update(
            reference.Transitions(
                batch.observation, batch.action_B, batch.rewards_BN[:, 0], batch.terminated_B, batch.next_observation
            )
        )
        for name, value in ours.items():
            assert value == pytest.approx(float(theirs[name]), rel=1e-4), (step, name)
        if step == 1:  # so that the third update has targets that differ from the first ones
            learner.update_targets()
            agent.update_targets()

    # An Adam step is about the learning rate, 3e-4: agreement is asked to a hundredth of that.
    for name, ours, theirs in pairs(agent, learner):
        torch.testing.assert_close(ours.detach(), theirs, rtol=1e-4, atol=3e-6, msg=lambda m, name=name: f"{name}: {m}")
        assert (ours - start[name]).abs().max() > 1e-4, f"{name} did not move"
    assert agent.log_alpha.item() == pytest.approx(learner.state()["log_alpha"].item(), abs=1e-6)
