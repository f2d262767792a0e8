"""What an agent may be shown, and the sentence that answers everything else."""

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st
from probes import Probe

from dsacc.envs.spaces import Observations, check_actions, check_reward, space_from_json, space_to_json
from dsacc.errors import EnvError, ModelError


def test_channel_last_and_channel_first_pictures_look_the_same_to_the_network():
    picture = np.random.default_rng(0).integers(0, 256, (40, 50, 3), dtype=np.uint8)
    last = Observations(spaces.Box(0, 255, (40, 50, 3), np.uint8))
    first = Observations(spaces.Box(0, 255, (3, 40, 50), np.uint8))
    assert last.spec == first.spec
    assert np.array_equal(last.encode(picture), first.encode(picture.transpose(2, 0, 1)))


def test_a_grey_picture_gets_one_channel():
    space = spaces.Box(0, 255, (40, 50), np.uint8)
    assert Observations(space).encode(space.sample()).shape == (1, 1, 40, 50)


@pytest.mark.parametrize("shape", [(4, 40, 50, 3), (4, 3, 40, 50)])
def test_a_stack_of_colour_pictures_becomes_channels(shape):
    space = spaces.Box(0, 255, shape, np.uint8)
    picture = space.sample()
    encoded = Observations(space).encode(picture)
    assert encoded.shape == (1, 12, 40, 50)
    second_red = picture[1, :, :, 0] if shape[-1] == 3 else picture[1, 0]
    assert np.array_equal(encoded[0, 3], second_red)


def test_discrete_observations_count_from_their_start():
    observations = Observations(spaces.Discrete(4, start=10))
    assert observations.encode(12).tolist() == [[2]]
    assert observations.encode(np.array([10, 13])).tolist() == [[0], [3]]


def test_multi_discrete_observations_are_flattened():
    observations = Observations(spaces.MultiDiscrete([[2, 3], [4, 5]]))
    assert observations.spec.categories == (2, 3, 4, 5)
    assert observations.encode(np.array([[1, 2], [3, 4]])).tolist() == [[1, 2, 3, 4]]


def test_bytes_in_a_vector_are_scaled_to_one():
    observations = Observations(spaces.Box(0, 255, (128,), np.uint8))
    assert observations.encode(np.full(128, 255, np.uint8)).max() == pytest.approx(1.0)


def test_float_pictures_are_taken_as_vectors():
    assert Observations(spaces.Box(0, 1, (3, 4), np.float64)).spec.shape == (12,)


@pytest.mark.parametrize(
    ("space", "message"),
    [
        (spaces.Dict({"a": spaces.Dict({"b": spaces.Discrete(2)})}), "'a' of a Dict observation is a Dict; make"),
        (spaces.Dict({"a": spaces.Text(5)}), "Text are not supported; use Box"),
        (spaces.Tuple((spaces.Discrete(2),)), "Tuple are not supported; wrap it"),
        (spaces.Text(5), "Text are not supported; use Box"),
    ],
)
def test_spaces_that_cannot_be_learned_from_are_refused(space, message):
    with pytest.raises(EnvError, match=message):
        Observations(space)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e300])
def test_numbers_that_are_not_finite_are_refused(bad):
    with pytest.raises(EnvError, match="NaN or infinity"):
        Observations(spaces.Box(-np.inf, np.inf, (2,), np.float64)).encode(np.array([0.0, bad]))


def test_an_observation_of_another_shape_is_refused():
    with pytest.raises(ModelError, match=r"shape \(3,\) does not fit: this agent sees \(2,\)"):
        Observations(spaces.Box(-1, 1, (2,), np.float32)).encode(np.zeros(3))


def test_a_float_picture_in_a_byte_space_is_refused():
    with pytest.raises(EnvError, match="of type float64, but its observation space says uint8"):
        Observations(spaces.Box(0, 255, (40, 50, 3), np.uint8)).encode(np.zeros((40, 50, 3)))


def test_an_index_outside_its_space_is_refused():
    with pytest.raises(EnvError, match="outside its space"):
        Observations(spaces.Discrete(3)).encode(3)


@pytest.mark.parametrize(
    ("space", "message"),
    [
        (spaces.Box(-1, 1, (2,), np.float32), "Box are not supported"),
        (spaces.Discrete(3, start=1), "must start at 0"),
    ],
)
def test_actions_must_be_discrete_from_zero(space, message):
    env = Probe()
    env.action_space = space
    with pytest.raises(EnvError, match=message):
        check_actions(env)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_reward_that_is_not_finite_is_refused_with_its_step(bad):
    with pytest.raises(EnvError, match="at step 7"):
        check_reward(bad, 7)


SPACES = st.one_of(
    st.builds(lambda n, s: spaces.Discrete(n, start=s), st.integers(1, 9), st.integers(-3, 3)),
    st.builds(spaces.MultiDiscrete, st.lists(st.integers(1, 5), min_size=1, max_size=4)),
    st.builds(spaces.MultiBinary, st.integers(1, 6)),
    st.builds(lambda s: spaces.Box(-1, 1, tuple(s), np.float32), st.lists(st.integers(1, 4), max_size=3)),
    st.builds(lambda h, w, c: spaces.Box(0, 255, (h, w, c), np.uint8), *[st.integers(8, 12)] * 2, st.integers(1, 4)),
)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(SPACES, st.integers(1, 4))
def test_one_and_many_encode_alike_and_a_saved_space_sees_the_same(space, n):
    observations = Observations(space)
    again = Observations(space_from_json(space_to_json(space)))
    assert again.spec == observations.spec
    space.seed(0)
    samples = [space.sample() for _ in range(n)]
    batch = observations.encode(np.stack(samples))
    assert batch.shape == (n, *observations.spec.shape)
    assert batch.dtype == observations.spec.dtype
    for sample, row in zip(samples, batch, strict=True):
        assert np.array_equal(again.encode(sample)[0], row)
