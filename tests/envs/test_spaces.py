"""What an agent may be shown, and the sentence that answers everything else."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st
from probes import Probe

from dsacc import DSAC, evaluate
from dsacc.envs.spaces import Observations, check_actions, space_from_json, space_to_json
from dsacc.errors import EnvError, ModelError


class Shows(gym.Env):
    """Samples of a space, in episodes of five steps."""

    action_space = spaces.Discrete(2)

    def __init__(self, space):
        self.observation_space = space

    def reset(self, *, seed=None, options=None):
        self.age = 0
        return self.observation_space.sample(), {}

    def step(self, action):
        self.age += 1
        return self.observation_space.sample(), 1.0, self.age == 5, False, {}


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


@pytest.mark.parametrize(
    "space",
    [
        spaces.Box(0, 1, (3, 4), np.float64),
        spaces.Box(0, 1, (4, 84), np.float32),
        spaces.Box(0, 1, (15, 40, 3), np.float32),
        spaces.Box(-1, 1, (40, 40, 3), np.float32),
        spaces.Box(0, np.inf, (40, 40), np.float32),
    ],
)
def test_floats_that_do_not_look_like_pictures_are_vectors(space):
    assert Observations(space).spec.shape == (np.prod(space.shape),)


@pytest.mark.parametrize("shape", [(40, 50), (40, 50, 3), (3, 40, 50), (4, 40, 50, 3)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("top", [1, 255])
def test_pictures_of_floats_look_like_the_same_pictures_in_bytes(shape, dtype, top):
    picture = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    floats, inside = Observations(spaces.Box(0, top, shape, dtype)), Observations(spaces.Box(0, 255, shape, np.uint8))
    assert floats.spec == inside.spec
    given = picture.astype(dtype) if top == 255 else (picture / 255).astype(dtype)
    assert np.array_equal(floats.encode(given), inside.encode(picture))
    again = Observations(space_from_json(space_to_json(floats.space)))
    assert np.array_equal(again.encode(given), inside.encode(picture))


def test_between_two_levels_the_nearest_is_kept():
    pictures = Observations(spaces.Box(0, 1, (16, 16), np.float32))
    shades = np.linspace(0, 1, 256, dtype=np.float32).reshape(16, 16)
    kept = pictures.encode(shades)[0, 0] / 255
    assert np.abs(kept - shades).max() <= 0.5 / 255
    assert pictures.encode(np.full((16, 16), 0.4 / 255, np.float32)).max() == 0


@pytest.mark.parametrize("bad", [np.nan, -0.1, 1.1, 255.0])
def test_a_picture_of_floats_outside_its_bounds_is_refused(bad):
    picture = np.zeros((16, 16), np.float32)
    picture[3, 3] = bad
    with pytest.raises(EnvError, match=r"gave a picture with values from .*, but its observation space says 0 to 1"):
        Observations(spaces.Box(0, 1, (16, 16), np.float32)).encode(picture)


def test_pictures_without_the_bounds_of_pictures_are_told_of():
    with pytest.warns(
        UserWarning, match=r"shape \(40, 40, 3\) are taken as 4,800 numbers, not as pictures; .*bounds 0"
    ):
        DSAC(Shows(spaces.Box(-1, 1, (40, 40, 3), np.float32)), hidden=8)
    for space in (spaces.Box(0, 1, (40, 40, 3), np.float32), spaces.Box(-1, 1, (40, 40)), spaces.Box(-1, 1, (9, 9, 3))):
        assert Observations(space).note() is None


def test_an_agent_from_before_floats_were_pictures_still_plays_and_learns_on(tmp_path):
    env = Shows(spaces.Box(0, 1, (20, 20), np.float32))
    flat = DSAC(Shows(spaces.Box(-1, 1, (20, 20), np.float32)), hidden=8, random_steps=5, batch_size=4)
    assert space_to_json(flat.observations.space) == {"type": "Box", "shape": [20, 20], "dtype": "float32"}
    flat.save(tmp_path / "flat")
    model = DSAC.load(tmp_path / "flat", env=env)
    model.learn(10)
    assert evaluate(model, lambda: env, shifts=["id"], episodes=1)[0]["lengths"] == [5]


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
        (spaces.Discrete(1_000_000), "1,000,000 actions are too many: .* the limit is 16,384; let"),
    ],
)
def test_actions_must_be_discrete_from_zero(space, message):
    env = Probe()
    env.action_space = space
    with pytest.raises(EnvError, match=message):
        check_actions(env)


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
