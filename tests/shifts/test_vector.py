"""Vectors, in units in which each entry's range is 2."""

import itertools

import numpy as np
import pytest

from dsacc.errors import ConfigError
from dsacc.shifts import LEVELS, find_kind, names, vector

SHAPE = (6,)
SEEN = np.array([0.5, -1, 0.25, 1, -0.75, 0.1], np.float32)


def draw(name: str, level: int | None, seed: int = 0):
    return find_kind(name, "vector").draw(np.random.default_rng(seed), SHAPE, level)


def test_the_kinds_for_vectors():
    assert names("vector") == ["gaussian_noise", "dropout", "bias"]
    with pytest.raises(ConfigError, match="the shift 'blur' makes no sense for vectors; choose one of gaussian_"):
        find_kind("blur", "vector")


@pytest.mark.parametrize("name", names("vector"))
def test_distance_grows_with_the_level(name):
    means = [np.mean([np.abs(draw(name, k, seed)(SEEN) - SEEN).mean() for seed in range(400)]) for k in LEVELS]
    assert means[0] > 0
    assert all(a < b for a, b in itertools.pairwise(means)), means


@pytest.mark.parametrize("name", names("vector"))
@pytest.mark.parametrize("level", [None, 4])
def test_a_draw_is_its_seed_and_leaves_what_it_is_given(name, level):
    seen = SEEN.copy()
    seen.flags.writeable = False
    out = draw(name, level, 5)(seen)
    assert (out.dtype, out.shape) == (np.float32, SHAPE)
    assert out.tobytes() == draw(name, level, 5)(seen, 9).tobytes()
    out[:] = 9
    assert np.array_equal(seen, SEEN)
    assert len({draw(name, level, seed)(seen).tobytes() for seed in range(30)}) > 5


def test_dropout_zeroes_and_leaves_the_rest():
    shares = []
    for seed in range(300):
        out = draw("dropout", 5, seed)(SEEN)
        assert ((out == SEEN) | (out == 0)).all()
        shares.append((out == 0).mean())
    assert abs(np.mean(shares) - vector.DROPOUT[-1]) < 0.05


def test_a_bias_is_the_same_offset_each_time():
    change = draw("bias", 3)
    assert np.allclose(np.abs(change(SEEN) - SEEN), vector.BIAS[2])
    assert np.allclose(change(SEEN) - SEEN, change(0 * SEEN))
