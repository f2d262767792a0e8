"""A saved environment goes on bit for bit: pictures, rewards, ends, and the resets after them."""

import copy
import json
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces, wrappers
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as nps
from safetensors.numpy import load, save

from dsacc import Shift, make_env
from dsacc.envs.catch import Catch
from dsacc.envs.saving import load_env, save_env, why_not
from dsacc.errors import EnvError, RunError
from dsacc.system.packing import flatten, unflatten


class Walk(gym.Env):
    """A user's own environment, by the protocol: np_random is not its business."""

    observation_space, action_space = spaces.Box(-np.inf, np.inf, (2,)), spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.path = [self.np_random.normal(size=2).astype(np.float32)]
        return self.path[-1], {}

    def step(self, action):
        self.path.append(self.path[-1] + np.float32(action) * self.np_random.normal(size=2).astype(np.float32))
        return self.path[-1], 0.0, len(self.path) > 20, False, {}

    def state(self):
        return {"path": self.path}

    def load_state(self, state):
        self.path = state["path"]


class Doubled(gym.RewardWrapper):
    """A user's wrapper, of which nothing is known."""

    def reward(self, reward):
        return 2 * reward


class Growing(gym.RewardWrapper):
    """A user's wrapper that keeps something, by the protocol."""

    steps = 0

    def reward(self, reward):
        self.steps += 1
        return reward + self.steps

    def state(self):
        return {"steps": self.steps}

    def load_state(self, state):
        self.steps = state["steps"]


KINDS = {
    "Breakout": lambda: make_env("Breakout"),
    "sticky Pong": lambda: make_env("Pong", sticky=0.25, max_frames=400),
    "Catch": lambda: make_env("dsacc/Catch-v0", balls=3),
    "bare Catch": Catch,
    "MinAtar's Asterix": lambda: make_env("minatar/Asterix"),
    "MinAtar's Breakout": lambda: make_env("minatar/Breakout"),
    "MinAtar's Freeway, cut off": lambda: make_env("minatar/Freeway", max_episode_steps=200),
    "MinAtar's Seaquest": lambda: make_env("minatar/Seaquest"),
    "MinAtar's SpaceInvaders, in snow": lambda: Shift(make_env("minatar/SpaceInvaders"), "snow", seed=1),
    "CartPole": lambda: make_env("CartPole-v1"),
    "CartPole, cut off early": lambda: make_env("CartPole-v1", max_episode_steps=7),
    "Acrobot": lambda: make_env("Acrobot-v1", max_episode_steps=90),
    "MountainCar": lambda: make_env("MountainCar-v0"),
    "FrozenLake": lambda: make_env("FrozenLake-v1"),
    "FrozenLake8x8": lambda: make_env("FrozenLake8x8-v1"),
    "Taxi": lambda: make_env("Taxi-v4", is_rainy=True, fickle_passenger=True),
    "CliffWalking": lambda: make_env("CliffWalking-v1", is_slippery=True),
    "Blackjack": lambda: make_env("Blackjack-v1"),
    "a stack": lambda: wrappers.FrameStackObservation(make_env("dsacc/Catch-v0", balls=2), 4),
    "a padded stack": lambda: wrappers.FrameStackObservation(make_env("CartPole-v1"), 3, padding_type="zero"),
    "a stack of places": lambda: wrappers.FrameStackObservation(make_env("FrozenLake-v1"), 3),
    "small and grey": lambda: wrappers.ResizeObservation(wrappers.GrayscaleObservation(Catch(balls=2)), (42, 42)),
    "statistics": lambda: wrappers.RecordEpisodeStatistics(make_env("CartPole-v1"), buffer_length=5),
    "a user's environment": Walk,
    "a user's wrapper": lambda: Growing(make_env("CartPole-v1")),
}


def through_files(state: Any) -> Any:
    """To the bytes of two files and back."""
    arrays, plain = flatten(state)
    return unflatten(load(save(arrays)), json.loads(json.dumps(plain, allow_nan=False)))


def bits(x: Any) -> Any:
    """Comparable: types, shapes and bits. An episode's wall-clock time is left out."""
    if isinstance(x, dict):
        return {key: bits(value) for key, value in x.items() if key != "t"}
    if isinstance(x, list | tuple):
        return type(x), [bits(y) for y in x]
    if isinstance(x, np.str_) or not isinstance(
        x, np.ndarray | np.generic
    ):  # the width of an empty text is numpy's whim
        return type(x), repr(x)
    return type(x), x.dtype, x.shape, x.tobytes()


def play(env: gym.Env, steps: int, rng: np.random.Generator) -> list[Any]:
    """All that random play sees; episodes that end are followed by a reset without a seed."""
    seen = []
    for _ in range(steps):
        seen.append(env.step(int(rng.integers(env.action_space.n))))
        if seen[-1][2] or seen[-1][3]:
            seen.append(env.reset())
    return seen


@pytest.mark.parametrize(("steps", "reset_first"), [(0, False), (1, True), (150, False), (150, True)])
@pytest.mark.parametrize("kind", KINDS)
def test_a_loaded_environment_goes_on_bit_for_bit(kind, steps, reset_first):
    env, fresh = KINDS[kind](), KINDS[kind]()
    env.reset(seed=3)
    play(env, steps, np.random.default_rng(0))
    assert why_not(env) is None
    state = save_env(env)
    if reset_first:
        fresh.reset(seed=99)
        play(fresh, 5, np.random.default_rng(1))
    load_env(fresh, through_files(state))
    after = [play(e, 300, np.random.default_rng(2)) for e in (env, fresh)]
    assert bits(after[0]) == bits(after[1])
    assert fresh.np_random_seed == env.np_random_seed


def test_these_games_do_end_and_are_cut_off_within_the_test():
    for kind, column in {"Catch": 2, "MountainCar": 3, "sticky Pong": 3, "CartPole, cut off early": 3}.items():
        env = KINDS[kind]()
        env.reset(seed=3)
        assert any(len(row) == 5 and row[column] for row in play(env, 300, np.random.default_rng(2))), kind


@pytest.mark.parametrize("kind", KINDS)
def test_a_saved_state_does_not_change_when_the_environment_or_its_heir_goes_on(kind):
    env, heir = KINDS[kind](), KINDS[kind]()
    env.reset(seed=0)
    play(env, 40, np.random.default_rng(0))
    state = save_env(env)
    before = bits(state)
    play(env, 10, np.random.default_rng(1))
    assert bits(state) == before
    load_env(heir, state)
    play(heir, 10, np.random.default_rng(1))
    assert bits(state) == before


def test_a_fickle_passenger_stays_fickle():
    def taxi() -> gym.Env:
        return make_env("Taxi-v4", fickle_passenger=True, fickle_probability=1.0)

    env, fresh = taxi(), taxi()
    env.reset(seed=0)
    env.unwrapped.s = aboard = env.unwrapped.encode(2, 2, 4, 0)  # random play hardly ever gets there
    load_env(fresh, through_files(save_env(env)))
    after = [e.step(0) for e in (env, fresh)]
    assert bits(after[0]) == bits(after[1])
    assert after[0][0] % 4 != aboard % 4  # another destination


def test_saving_draws_no_random_number():
    saved, left_alone = (make_env("FrozenLake-v1") for _ in range(2))
    for env in (saved, left_alone):
        env.reset(seed=1)
    assert save_env(saved)
    rng = np.random.default_rng
    assert bits(play(saved, 100, rng(0))) == bits(play(left_alone, 100, rng(0)))


def test_a_loaded_generator_is_the_same_object_that_others_may_hold():
    env, fresh = Walk(), Walk()
    env.reset(seed=1)
    fresh.reset(seed=2)
    held = fresh.np_random
    load_env(fresh, save_env(env))
    assert held.random() == env.np_random.random()


# --- what cannot be known ---------------------------------------------------------------------------------------------


class NoRules(Catch):
    state = None


class Heavier(gym.envs.classic_control.CartPoleEnv):
    """May keep more than CartPole."""


class Opaque(Walk):
    def state(self):
        return {"path": object()}


UNKNOWN = {
    "LunarLander keeps its state in a physics engine": lambda: make_env("LunarLander-v3"),
    "the wrapper Doubled is not known": lambda: Doubled(make_env("CartPole-v1")),
    "the wrapper TransformReward is not known": lambda: wrappers.TransformReward(make_env("CartPole-v1"), abs),
    "the wrapper NormalizeObservation is not known": lambda: wrappers.NormalizeObservation(make_env("CartPole-v1")),
    "NoRules has no state() and load_state()": NoRules,
    "Heavier has no state() and load_state()": Heavier,
    "SyncVectorEnv is not a single Gymnasium environment": lambda: gym.vector.SyncVectorEnv([Catch]),
    "a value of type object (object) cannot be saved": Opaque,
}


@pytest.mark.parametrize("reason", UNKNOWN)
def test_an_unknown_state_is_none_with_a_reason(reason):
    env = UNKNOWN[reason]()
    env.reset(seed=0)
    assert save_env(env) is None
    assert why_not(env) == reason
    env.close()


@pytest.mark.parametrize("kind", ["CartPole", "MountainCar", "Blackjack", "bare Catch"])
def test_an_environment_that_was_never_reset_has_no_state(kind):
    env = KINDS[kind]()
    assert save_env(env) is None
    assert "reset" in why_not(env) or "state() of Catch failed" in why_not(env)


def test_a_generator_of_another_kind_is_not_saved():
    env = Walk()
    env.reset(seed=0)
    env.np_random = np.random.Generator(np.random.MT19937(0))
    assert why_not(env) == "Walk does not draw from Gymnasium's random generator"


# --- foreign and damaged states ---------------------------------------------------------------------------------------


def saved(kind: str) -> dict[str, Any]:
    env = KINDS[kind]()
    env.reset(seed=0)
    play(env, 30, np.random.default_rng(0))
    state = save_env(env)
    assert state is not None
    return state


def assert_refused(kind: str, state: Any) -> None:
    env = KINDS[kind]()
    with pytest.raises(RunError, match="saved state") as caught:
        load_env(env, state)
    assert "\n" not in str(caught.value)
    env.reset(seed=0)
    play(env, 5, np.random.default_rng(0))  # a new episode can be played instead


@pytest.mark.parametrize(
    ("kind", "other"), [("CartPole", "Acrobot"), ("Breakout", "sticky Pong"), ("Catch", "bare Catch")]
)
def test_the_state_of_another_environment_is_refused_with_both_names(kind, other):
    with pytest.raises(RunError, match=r"the saved state is of .*, and not of "):
        load_env(KINDS[kind](), saved(other))


@pytest.mark.parametrize("state", [None, {}, [], 3, "x", {"kind": "CartPole-v1"}, {"kind": 1, "layers": [1]}, object()])
def test_what_is_no_state_at_all_is_refused(state):
    assert_refused("CartPole", state)


WRONG = {
    "TimeLimit": {"_elapsed_steps": ["3", None]},
    "OrderEnforcing": {"_has_reset": [1, "yes"]},
    "CartPoleEnv": {"state": [None, [0.0] * 4, np.zeros(3), np.zeros((4, 1)), np.full(4, np.nan), "abcd"]},
    "MountainCarEnv": {"state": [(1.0,), (1.0, "a"), np.zeros(4)]},
    "FrozenLakeEnv": {"s": [16, -1, 1.5, "0", None], "lastaction": [4, "left"]},
    "TaxiEnv": {"s": [500], "fickle_step": [None], "taxi_orientation": ["north"]},
    "BlackjackEnv": {"player": [[], [11, 2], 5, [[1]]], "dealer": [(1, 2)], "dealer_top_card_suit": [1]},
    "Catch": {"left": [99, -1, "a"], "paddle": [6], "row": [7], "column": [-1], "np_random": [{}, None]},
    "FrameStackObservation": {"obs_queue": [[], None, [np.zeros((84, 84, 3), np.uint8)] * 5, [np.zeros(3)] * 4]},
    "RecordEpisodeStatistics": {"episode_returns": ["a"], "return_queue": [[None]]},
    "Atari": {
        "stack": [np.zeros((84, 84), np.uint8), np.zeros((1, 84, 84), np.uint8)],
        "screens": [np.zeros((2, 210, 160, 1), np.uint8)],
        "emulator": [np.zeros(100, np.uint8), np.zeros(14446, np.uint8), 5],
        "last_action": [17],
        "lives": [None],
    },
}
HOMES = ["CartPole", "MountainCar", "FrozenLake", "Taxi", "Blackjack", "Catch", "a stack", "statistics", "Breakout"]


@pytest.mark.parametrize("kind", HOMES)
def test_values_of_another_form_are_refused(kind):
    tried, original = 0, saved(kind)
    for name, values in original["layers"]:
        for attribute, wrongs in WRONG.get(name, {}).items():
            assert attribute in values
            for wrong in [*wrongs, "missing"]:
                state = copy.deepcopy(original)
                layer = dict(state["layers"])[name]
                layer.pop(attribute)
                if not isinstance(wrong, str) or wrong != "missing":
                    layer[attribute] = wrong
                assert_refused(kind, state)
                tried += 1
    assert tried > 3


@pytest.mark.parametrize(
    "drawn", [{}, "x", 3, {"bit_generator": "MT19937"}, {"bit_generator": "PCG64", "state": {"state": -1, "inc": 1}}]
)
def test_random_numbers_of_another_form_are_refused(drawn):
    assert_refused("FrozenLake", saved("FrozenLake") | {"np_random": drawn})


def test_an_extra_value_is_refused():
    state = saved("CartPole")
    state["layers"][-1][1]["gravity"] = 1.0
    assert_refused("CartPole", state)


def test_a_state_cannot_be_loaded_into_an_unknown_environment():
    with pytest.raises(RunError, match="saved state"):
        load_env(make_env("LunarLander-v3"), saved("CartPole"))


# --- arrays and skeleton ----------------------------------------------------------------------------------------------

DTYPES = [
    "bool",
    "uint8",
    "int8",
    "int16",
    "uint16",
    "int32",
    "uint32",
    "int64",
    "uint64",
    "float16",
    "float32",
    "float64",
]
dtypes = st.sampled_from(DTYPES).map(np.dtype)
numpy_arrays = dtypes.flatmap(lambda dtype: nps.arrays(dtype, nps.array_shapes(min_dims=0, min_side=0, max_side=3)))
numpy_scalars = dtypes.flatmap(nps.from_dtype) | st.text().map(np.str_)
texts = st.text() | st.sampled_from(["$", "$$", "$tuple", "$ndarray", "$float", "array0"])
leaves = st.none() | st.booleans() | st.integers() | st.integers(2**64, 2**128) | st.floats() | texts
nested = st.recursive(
    leaves | numpy_arrays | numpy_scalars,
    lambda inner: st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(texts, inner),
    max_leaves=12,
)


@given(nested)
@settings(max_examples=300, deadline=None)
def test_what_is_flattened_comes_back_of_the_same_types_and_bits(state):
    assert bits(through_files(state)) == bits(state)


def test_arrays_in_any_memory_order_come_back():
    array = np.arange(24, dtype=np.float32).reshape(2, 3, 4).T[::-1]
    back = through_files({"x": array})["x"]
    assert back.dtype == array.dtype
    np.testing.assert_array_equal(back, array)


@pytest.mark.parametrize(
    "value",
    [
        b"x",
        {1: 2},
        {1, 2},
        1j,
        np.longdouble(1),
        np.ma.zeros(2),
        *map(np.array, ([None], ["a"], [1j])),
        np.zeros(2, ">f4"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_files_cannot_hold_exactly_is_refused(value):
    with pytest.raises(EnvError, match="cannot be saved"):
        flatten([{"x": (value,)}])


@pytest.mark.parametrize(
    "plain",
    [{"$ndarray": "array1"}, {"$ndarray": []}, {"$tuple": 3}, {"$float": "x"}, [{"x": {"$tuple": [{"$generic": 1}]}}]],
)
def test_a_damaged_skeleton_is_refused_by_a_sentence(plain):
    with pytest.raises(RunError, match=r"^a saved state is damaged \((?!RunError)"):
        unflatten({"array0": np.zeros(3)}, plain)
