"""Random shifts of pictures, against padding and cutting."""

import numpy as np
import pytest
import torch

from dsacc import DSAC
from dsacc.agent.augment import shifted


@pytest.mark.parametrize("pixels", [1, 4])
@pytest.mark.parametrize("shape", [(5, 4, 20, 16), (3, 1, 9, 30)])
def test_a_shift_is_padding_by_repetition_and_a_cut(shape, pixels):
    pictures = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    before = pictures.copy()
    out = shifted(pictures, pixels, np.random.default_rng(7))
    moves = np.random.default_rng(7).integers(-pixels, pixels + 1, (shape[0], 2))
    padded = np.pad(pictures, ((0, 0), (0, 0), (pixels, pixels), (pixels, pixels)), mode="edge")
    for one, whole, (down, right) in zip(out, padded, moves, strict=True):
        top, left = pixels - down, pixels - right
        np.testing.assert_array_equal(one, whole[:, top : top + shape[2], left : left + shape[3]])
    np.testing.assert_array_equal(pictures, before)


def test_every_shift_is_as_likely_as_the_others():
    pictures = np.zeros((4_000, 1, 9, 9), np.uint8)
    pictures[:, :, 4, 4] = 1
    out = shifted(pictures, 1, np.random.default_rng(0))
    counts = out.sum(axis=(0, 1))[3:6, 3:6]
    assert counts.sum() == 4_000
    assert (abs(counts - 4_000 / 9) < 5 * np.sqrt(4_000 / 9)).all()


SMALL = {"random_steps": 20, "batch_size": 4, "hidden": 16}


def test_a_shifted_minibatch_changes_what_is_learned_and_nothing_else_that_is_drawn():
    plain, moved = (DSAC("dsacc/Catch-v0", augment_shift=pixels, **SMALL).learn(40) for pixels in (0, 4))
    states = [model._trainer.streams for model in (plain, moved)]
    for name in ("batches", "noise"):
        assert len({str(getattr(streams, name).bit_generator.state) for streams in states}) == 1
    weights = [model.learner.state()["critics.heads.0.weight"] for model in (plain, moved)]
    assert not weights[0].equal(weights[1])


def test_vectors_are_not_shifted():
    plain, moved = (DSAC("CartPole-v1", augment_shift=pixels, **SMALL).learn(40) for pixels in (0, 4))
    assert all(moved.learner.state()[name].equal(tensor) for name, tensor in plain.learner.state().items())


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
