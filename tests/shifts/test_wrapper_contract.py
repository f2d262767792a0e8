"""The network is what sees it; vectors, refusals, Gymnasium, and going on from a saved state."""

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces, wrappers
from gymnasium.utils.env_checker import check_env
from helpers.pictures import LAYOUTS, H, Pictures, W, pictures_of, play
from probes import TwoStateChain

import dsacc
from dsacc import DSAC, Shift, make_env
from dsacc.envs import copies
from dsacc.envs.atari import Atari
from dsacc.envs.catch import Catch
from dsacc.envs.saving import load_env, save_env, why_not
from dsacc.errors import ConfigError, EnvError, RunError

# --- the network ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "kind"),
    [(Catch, "occlusion"), (lambda: Atari("Breakout"), "brightness"), (lambda: make_env("CartPole-v1"), "bias")],
)
def test_the_tensor_that_enters_the_network_has_changed(make, kind):
    model = DSAC(make(), replay_size=100, hidden=16)
    entered = []
    look = model.learner.policy_logits
    model.learner.policy_logits = lambda x: entered.append(x.clone()) or look(x)
    shifted, clean = Shift(make(), kind, 3).reset(seed=0)[0], make().reset(seed=0)[0]
    logits = [model.logits(x) for x in (clean, shifted)]
    distance = (entered[0].float() - entered[1].float()).abs().mean()
    assert entered[0].shape == entered[1].shape
    assert distance > (5 if entered[0].dtype == torch.uint8 else 0.02)
    assert not np.array_equal(*logits)


def test_an_agent_learns_under_a_shift():
    model = DSAC(Shift(make_env("dsacc/Catch-v0"), "occlusion", 1), replay_size=100, random_steps=20, batch_size=4)
    model.learn(24)
    assert model.step == 24


# --- vectors ----------------------------------------------------------------------------------------------------------


def test_noise_on_a_vector_is_new_each_frame_in_units_of_each_range():
    env = Shift(make_env("CartPole-v1"), "gaussian_noise", 3)
    clean = make_env("CartPole-v1")
    noise = []
    for seed in range(60):
        for a, b in zip(play(env, [0, 1, 0, 1], seed), play(clean, [0, 1, 0, 1], seed), strict=True):
            assert a.dtype == np.float32
            assert a in env.observation_space
            noise.append(a - b)
    assert len({x.tobytes() for x in noise}) == len(noise)
    wanted = 0.1 * np.array([4.8, 1, 0.41887903, 1])  # the ranges of both velocities are unknown
    assert np.allclose(np.std(noise, axis=0), wanted, rtol=0.15)


def test_a_frozen_bias_is_one_offset_an_episode():
    env, clean = Shift(make_env("CartPole-v1"), "bias", 5, "frozen"), make_env("CartPole-v1")
    offsets = [a - b for a, b in zip(play(env, [0, 1, 0]), play(clean, [0, 1, 0]), strict=True)]
    assert np.allclose(offsets, offsets[0], atol=1e-6)
    assert np.allclose(np.abs(offsets[0]), 0.4 * np.array([4.8, 1, 0.41887903, 1]))


def test_dropout_leaves_other_entries_bit_for_bit_and_bounds_hold():
    class Edge(TwoStateChain):
        def __init__(self):
            super().__init__()
            self.observation_space = spaces.Box(np.float32(-3.3), np.float32(3.3), (2, 3), np.float64)

        def reset(self, *, seed=None, options=None):
            gym.Env.reset(self, seed=seed)
            return np.array([[0.1, 3.3, -3.3], [1 / 3, 2e-9, -0.7]]).clip(*self.bounds()), {}

        def bounds(self):
            return self.observation_space.low, self.observation_space.high

    x = Edge().reset(seed=0)[0]
    env = Shift(Edge(), "dropout", 5)
    seen = [env.reset(seed=s)[0] for s in range(20)]
    assert all(((y == x) | (y == 0)).all() for y in seen)
    assert len({y.tobytes() for y in seen}) > 10
    for kind in ("bias", "gaussian_noise"):
        env = Shift(Edge(), kind, 5)
        for s in range(20):
            assert env.reset(seed=s)[0] in env.observation_space


# --- refusals ---------------------------------------------------------------------------------------------------------


class Sees(gym.Env):
    def __init__(self, space):
        self.observation_space, self.action_space = space, spaces.Discrete(2)


def box(shape, dtype=np.uint8, high=255):
    return Sees(spaces.Box(0, high, shape, dtype))


@pytest.mark.parametrize(
    ("env", "settings", "sentence"),
    [
        (Pictures(), {"kind": "snwo2"}, "unknown shift 'snwo2'"),
        (Pictures(), {"kind": "blurr"}, "did you mean 'blur'"),
        (Pictures(), {"kind": "dropout"}, "'dropout' makes no sense for pictures"),
        (Sees(spaces.Box(-1, 1, (3,))), {"kind": "blur"}, "'blur' makes no sense for vectors"),
        (Pictures(), {"severity": 6}, "severity is 'paper' or 1 to 5, not 6"),
        (Pictures(), {"mode": "melting"}, "mode must be independent, frozen or falling, not 'melting'"),
        (Pictures(), {"seed": -1}, "the seed of a shift must be a whole number of at least 0, not -1"),
        (Pictures(), {"where": "screen"}, "Pictures gives no access to its screen; use where='observation'"),
        (Pictures(), {"where": "nowhere"}, "where must be 'screen' or 'observation', not 'nowhere'"),
        (Pictures(), {"channels": 3}, "channels must be 1 or 3 and divide the observation's 4; 3 does not"),
        (Pictures((H, W, 12)), {"channels": 4}, "channels must be 1 or 3"),
        (Pictures(), {"kind": "saturation"}, "saturation changes nothing in a grey picture"),
        (Sees(spaces.Box(-1, 1, (3,))), {"kind": "bias", "channels": 1}, "channels only applies to pictures"),
        (Sees(spaces.Discrete(4)), {}, "not observations of type Discrete"),
        (Sees(spaces.Dict({"a": spaces.Discrete(4)})), {}, "can change one picture, but this one has none"),
        (Sees(spaces.MultiBinary(4)), {}, "not observations of type MultiBinary"),
        (box((128,)), {}, r"not uint8 of shape \(128,\)"),
        (box((4,), np.int32), {}, "vectors of floats"),
        (box((15, 40, 3)), {}, "a shift needs at least 16 pixels per side; these pictures are 15x40"),
        (box((3, 10, 10)), {}, "these pictures are 10x10"),
    ],
)
def test_a_mistake_is_refused_with_a_sentence(env, settings, sentence):
    with pytest.raises(ConfigError, match=sentence) as caught:
        Shift(env, **{"kind": "gaussian_noise", **settings})
    assert "\n" not in str(caught.value)


def test_an_observation_that_is_not_what_the_space_says_is_an_error_of_the_environment():
    class Lies(Pictures):
        def observe(self):
            return super().observe().astype(np.float32)

    with pytest.raises(EnvError, match=r"of shape \(4, 20, 24\) and type float32, but its space says"):
        Shift(Lies(), "blur").reset(seed=0)


# --- Gymnasium --------------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    "make",
    [
        *(lambda shape=shape: make_env("ShiftPictures-v0", shape=shape, render_mode="rgb_array") for shape in LAYOUTS),
        lambda: make_env("dsacc/Catch-v0", render_mode="rgb_array"),
        lambda: Atari("Pong", render_mode="rgb_array"),
        lambda: make_env("CartPole-v1"),
    ],
)
def test_gymnasium_accepts_it(make):
    for mode in ("independent", "falling"):
        env = Shift(make(), "gaussian_noise", 2, mode)
        assert env.observation_space == env.env.observation_space
        check_env(env, skip_render_check="CartPole" in str(env))


def test_gymnasium_makes_it_again_with_the_same_settings():
    env = Shift(make_env("dsacc/Catch-v0", balls=2), "gaussian_noise", 4, "frozen", 7)
    (copy,) = copies(env, 1)
    assert isinstance(copy, Shift)
    assert copy is not env
    assert np.array_equal(copy.reset(seed=3)[0], env.reset(seed=3)[0])


@pytest.mark.parametrize("shape", LAYOUTS, ids=str)
def test_render_shows_the_newest_picture_as_the_agent_sees_it(shape):
    env = Shift(Pictures(shape, render_mode="rgb_array"), "gaussian_noise", 3)
    with pytest.raises(gym.error.ResetNeeded):
        env.render()
    observation = play(env, [0, 1])[-1]
    seen = env.render()
    assert (seen.shape, seen.dtype) == ((H, W, 3), np.uint8)
    assert np.array_equal(seen, np.broadcast_to(pictures_of(env, observation)[-1], seen.shape))
    seen[:] = 0
    assert env.render().max() > 0


def test_the_public_name():
    assert dsacc.Shift is Shift


# --- saving -----------------------------------------------------------------------------------------------------------


class Slides(Pictures):
    def state(self):
        return {"frame": self.frame, "key": self.key, "pictures": list(self.pictures)}

    def load_state(self, state):
        self.frame, self.key, self.pictures = state["frame"], state["key"], state["pictures"]


SAVED = {
    "Atari": (lambda: Atari("Seaquest", max_frames=120), {}),
    "Atari, observation": (lambda: Atari("Breakout", max_frames=120), {"where": "observation"}),
    "pictures in a stack": (Slides, {}),
    "Catch": (lambda: make_env("dsacc/Catch-v0", balls=3), {}),
    "Catch in a stack": (lambda: wrappers.FrameStackObservation(make_env("dsacc/Catch-v0", balls=3), 4), {}),
    "CartPole": (lambda: make_env("CartPole-v1"), {}),
}


@pytest.mark.parametrize("mode", ["independent", "frozen", "falling"])
@pytest.mark.parametrize("name", SAVED)
def test_a_saved_shift_goes_on_bit_for_bit(name, mode):
    make, settings = SAVED[name]

    def shifted():
        return Shift(make(), "gaussian_noise", 3, mode, 5, **settings)

    def go_on(env):
        seen = [env.render().tobytes()] if name != "CartPole" else []
        for k in range(50):
            observation, reward, terminated, truncated, _ = env.step(k % 2)
            seen.append((observation.tobytes(), reward, terminated, truncated))
            if terminated or truncated:
                seen.append(env.reset()[0].tobytes())
        return seen

    env, other = shifted(), shifted()
    assert why_not(env) is not None or name.startswith("Atari")  # not before a reset
    env.reset(seed=2), other.reset(seed=9)
    for k in range(7):
        if any(env.step(k % 2)[2:4]):
            env.reset()
    assert why_not(env) is None
    saved = save_env(env)
    there = go_on(env)
    load_env(other, saved)
    assert go_on(other) == there


def test_a_state_of_another_shift_is_refused():
    env, other = Shift(Slides(), "gaussian_noise", 3), Shift(Slides(), "gaussian_noise", 4)
    env.reset(seed=0), other.reset(seed=0)
    with pytest.raises(RunError, match="the saved state belongs to the shift"):
        load_env(other, save_env(env))
    with pytest.raises(RunError):
        load_env(Slides(), save_env(env))


def test_a_state_from_before_there_were_lenses_is_still_read():
    env = Atari("Breakout")
    env.reset(seed=0)
    assert "seen" not in env.state()
    load_env(env, save_env(env))
