"""Random shifts of pictures, against padding and cutting."""

import numpy as np
import pytest

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


def first_batch(pixels):
    """The agent after 40 steps, and the first minibatch that it learned from."""
    model = DSAC("dsacc/Catch-v0", augment_shift=pixels, **SMALL)
    seen, update = [], model.learner.update

    def watched(batch, *rest):
        seen.append(batch)
        return update(batch, *rest)

    model.learner.update = watched
    return model.learn(40), seen[0]


def is_shift_of(moved, still, pixels):
    """Whether one picture is the other, moved by at most `pixels` each way with its border repeated."""
    padded = np.pad(still, ((0, 0), (pixels, pixels), (pixels, pixels)), mode="edge")
    height, width = still.shape[1:]
    places = [(top, left) for top in range(2 * pixels + 1) for left in range(2 * pixels + 1)]
    return any(np.array_equal(moved, padded[:, top : top + height, left : left + width]) for top, left in places)


def test_a_minibatch_is_shifted_and_nothing_else_that_is_drawn_changes():
    (plain, still), (augmented, moved) = (first_batch(pixels) for pixels in (0, 4))
    for name in ("observation", "next_observation"):
        ours, theirs = getattr(moved, name).numpy(), getattr(still, name).numpy()
        assert not np.array_equal(ours, theirs)
        assert all(is_shift_of(a, b, 4) for a, b in zip(ours, theirs, strict=True))
    for name in ("action_B", "rewards_BN", "steps_B", "terminated_B", "entropy_B"):
        assert getattr(moved, name).equal(getattr(still, name))
    for name in ("batches", "noise"):
        states = {str(getattr(model.streams, name).bit_generator.state) for model in (plain, augmented)}
        assert len(states) == 1


def test_vectors_are_not_shifted():
    plain, moved = (DSAC("CartPole-v1", augment_shift=pixels, **SMALL).learn(40) for pixels in (0, 4))
    assert all(moved.learner.state()[name].equal(tensor) for name, tensor in plain.learner.state().items())
