"""Actions of several choices are learned as one action per combination."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st

from dsacc import DSAC, evaluate
from dsacc.envs.actions import combinations, count_actions, from_env, to_env
from dsacc.envs.spaces import action_names
from dsacc.errors import EnvError, ModelError

TINY = {"random_steps": 20, "batch_size": 8, "hidden": 8}


class Safe(gym.Env):
    """Three dials; every dial that stands at its digit pays 1. Digits start at 1, 0 and 5."""

    RIGHT = (2, 0, 6)

    def __init__(self):
        self.observation_space = spaces.Box(0, 1, (1,), np.float32)
        self.action_space = spaces.MultiDiscrete([3, 1, 2], start=[1, 0, 5])

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {}

    def step(self, action):
        assert action in self.action_space, action
        return np.zeros(1, np.float32), float((action == self.RIGHT).sum()), True, False, {}


class OtherSafe(Safe):
    def __init__(self):
        super().__init__()
        self.action_space = spaces.MultiDiscrete([2, 1, 3])


SPACES = st.one_of(
    st.builds(spaces.MultiDiscrete, st.lists(st.integers(1, 5), min_size=1, max_size=4)),
    st.builds(lambda a, b: spaces.MultiDiscrete([[a, b], [2, 3]], start=[[1, -2], [0, 7]]), *[st.integers(1, 5)] * 2),
    st.builds(spaces.MultiBinary, st.integers(1, 6)),
)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(SPACES)
def test_every_combination_has_one_number_and_comes_back(space):
    count = count_actions(space)
    vectors = to_env(space, np.arange(count))
    assert len({vector.tobytes() for vector in vectors}) == count == len(set(combinations(space)))
    assert all(vector in space for vector in vectors)
    assert from_env(space, vectors, count).tolist() == list(range(count))
    assert all(np.array_equal(to_env(space, number), vectors[number]) for number in range(count))


def test_discrete_actions_stay_as_they_are():
    assert to_env(spaces.Discrete(3), 2) == 2
    assert from_env(spaces.Discrete(3), np.array([2, 0]), 2).tolist() == [2, 0]


@pytest.mark.parametrize(
    ("space", "message"),
    [
        (spaces.MultiDiscrete([17, 241]), "sizes 17 x 241 have 4,097 combinations, and at most 4,096 can be learned"),
        (spaces.MultiBinary(13), "8,192 combinations"),
        (spaces.MultiDiscrete([1000] * 9), "combinations"),
        (spaces.Dict({"a": spaces.Discrete(2)}), "Dict are not supported"),
    ],
)
def test_actions_with_too_many_combinations_are_refused(space, message):
    with pytest.raises(EnvError, match=message):
        count_actions(space)


def test_as_many_as_4096_combinations_are_allowed():
    assert count_actions(spaces.MultiDiscrete([64, 64])) == 4096


def test_the_environment_gets_vectors_and_predict_gives_them(tmp_path):
    model = DSAC(Safe(), **TINY).learn(60)
    assert model.learner.actions == 6
    one, _ = model.predict(np.zeros(1, np.float32))
    many, _ = model.predict(np.zeros((5, 1), np.float32), deterministic=True)
    assert one in Safe().action_space
    assert many.shape == (5, 3)
    assert all(action in Safe().action_space for action in many)
    again = DSAC.load(model.save(tmp_path / "agent"), env=Safe())
    assert np.array_equal(again.predict(np.zeros((5, 1), np.float32), deterministic=True)[0], many)
    with pytest.raises(ModelError, match=r"3 x 1 x 2 from 1, 0, 5 actions .* this environment has 2 x 1 x 3"):
        DSAC.load(tmp_path / "agent", env=OtherSafe())
    with pytest.raises(ModelError, match="3 x 1 x 2 from 1, 0, 5 actions and this environment 2 x 1 x 3"):
        evaluate(model, OtherSafe, episodes=1)


@pytest.mark.parametrize("agent", ["right", "right as a number", "random", "ours"])
def test_any_agent_is_tested_on_several_choices(agent):
    number = int(from_env(Safe().action_space, np.array([Safe.RIGHT]), 1)[0])
    player = {
        "right": lambda seen: np.tile(Safe.RIGHT, (len(seen), 1)),
        "right as a number": lambda seen: np.full(len(seen), number),
        "random": "random",
        "ours": DSAC(Safe(), **TINY),
    }[agent]
    (row,) = evaluate(player, Safe, episodes=5)
    assert not agent.startswith("right") or row["returns"] == [3.0] * 5


def test_a_function_that_chooses_outside_the_space_is_refused():
    with pytest.raises(ModelError, match="an action is outside the environment's MultiDiscrete"):
        evaluate(lambda seen: np.zeros((len(seen), 3), int), Safe, episodes=1)


def test_actions_are_named_by_their_choices():
    assert action_names(Safe()) == ["1,0,5", "1,0,6", "2,0,5", "2,0,6", "3,0,5", "3,0,6"]


def test_an_exported_graph_says_how_its_actions_are_made_up(tmp_path):
    onnx = pytest.importorskip("onnx")
    from dsacc.play.export import export_onnx

    assert export_onnx(DSAC(Safe(), **TINY), tmp_path / "policy.onnx").actions == 6
    notes = {prop.key: prop.value for prop in onnx.load(tmp_path / "policy.onnx").metadata_props}
    assert notes["action_sizes"] == "3 x 1 x 2 from 1, 0, 5"
    assert len(evaluate(f"onnx:{tmp_path / 'policy.onnx'}", Safe, episodes=2)[0]["returns"]) == 2
