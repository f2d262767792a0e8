"""A test plays what the agent was trained on, wrappers included, or says what it needs."""

import json
import warnings

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces, wrappers
from probes import ActionMatters

from dsacc import DSAC, evaluate, harden
from dsacc.envs import make_env
from dsacc.envs.copying import can_play_together, copy_of
from dsacc.envs.record import record_of
from dsacc.errors import EnvError
from dsacc.play.adapters import OwnPlayer
from dsacc.play.source import find_source

TINY = {"random_steps": 20, "hidden": 8, "batch_size": 4}


class Paid(gym.Env):
    """Three steps, each paid with `pay`. It has no name, as most environments of users."""

    observation_space = spaces.Box(-1, 1, (2,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self, pay=1.0):
        self.pay = pay

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.age = 0
        return self.observation_space.low * 0, {}

    def step(self, action):
        self.age += 1
        return np.full(2, self.age / 10, np.float32), self.pay, self.age == 3, False, {}


class Uncopied(Paid):
    closed = False

    def __deepcopy__(self, memo):
        raise TypeError("it holds a socket")

    def close(self):
        self.closed = True


def wrapped():
    return wrappers.TransformReward(gym.make("CartPole-v1", max_episode_steps=7), lambda reward: 10 * reward)


def returns(agent, env=None, **settings):
    return evaluate(agent, env, episodes=3, **settings)[0]["returns"]


def test_the_environment_that_an_agent_learned_on_is_played_with_its_wrappers_and_arguments():
    model = DSAC(wrapped(), **TINY).learn(30)
    assert returns(model) == [70.0] * 3  # a limit of 7 steps, each paid 10
    assert returns(model, gym.make("CartPole-v1", max_episode_steps=7)) == [7.0] * 3


@pytest.mark.parametrize("kind", ["nothing", "instance", "class", "function", "a changed one"])
def test_an_instance_a_class_and_a_function_all_are_environments(kind):
    changed = Paid()
    changed.pay = 5.0
    given = {
        "nothing": None,
        "instance": Paid(),
        "class": Paid,
        "function": lambda: Paid(2.0),
        "a changed one": changed,
    }
    model = DSAC(Paid(), **TINY)
    pay = {"function": 6.0, "a changed one": 15.0}.get(kind, 3.0)
    assert returns(model, given[kind]) == [pay] * 3
    assert returns(lambda x: np.zeros(len(x), int), given[kind] or Paid()) == [pay] * 3
    assert DSAC(given[kind] or Paid, **TINY, envs=2).learn(10).step == 10
    assert returns("random", given[kind] or Paid) == [pay] * 3


def test_what_is_no_environment_is_told():
    with pytest.raises(EnvError, match="a int is no environment: give a Gymnasium environment, its name, its class"):
        evaluate("random", 3)
    with pytest.raises(EnvError, match="made a int, not a Gymnasium environment"):
        evaluate(DSAC(Paid, **TINY), lambda: 3)


def test_what_an_agent_of_a_wrapped_environment_was_trained_on_is_kept_and_compared(tmp_path):
    run = tmp_path / "run"
    model = DSAC(wrapped(), **TINY).learn(30, out=run)
    noted = json.loads((run / "config.json").read_text())["environment"]
    assert (noted["id"], noted["wrappers"]) == ("CartPole-v1", ["TransformReward", "TimeLimit 7"])
    assert noted["class"] == "gymnasium.envs.classic_control.cartpole:CartPoleEnv"
    for path in (run, model.save(tmp_path / "agent")):
        with pytest.raises(EnvError, match="trained on CartPole-v1 with TransformReward, TimeLimit 7, and the name"):
            evaluate(str(path), episodes=1)
        with pytest.warns(UserWarning, match="and is tested on plain CartPole-v1"):
            evaluate(str(path), "CartPole-v1", episodes=1)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert returns(str(path), wrapped) == [70.0] * 3
    with pytest.raises(ValueError, match="a run in another environment"):
        DSAC("CartPole-v1", **TINY).learn(60, out=run)


def test_an_agent_of_a_name_alone_has_nothing_to_note_in_its_file(tmp_path):
    model = DSAC("CartPole-v1", **TINY).learn(30, out=tmp_path / "run")
    assert model.to_file().environment is None
    assert model.environment == DSAC.load(tmp_path / "run").environment == record_of(gym.make("CartPole-v1"))
    assert returns(str(tmp_path / "run")) == returns(model)
    assert DSAC.load(tmp_path / "run").to_file().environment is None


def test_an_environment_without_a_name_is_asked_for(tmp_path):
    path = DSAC(Paid, **TINY).save(tmp_path / "agent")
    with pytest.raises(EnvError, match=r"trained on the class Paid of .*, which has no name .* give --env"):
        evaluate(str(path))
    assert returns(str(path), Paid) == [3.0] * 3


def test_make_and_recorders_do_not_count_and_arguments_do():
    plain = record_of(gym.make("FrozenLake-v1"))
    assert record_of(wrappers.RecordEpisodeStatistics(gym.make("FrozenLake-v1"))) == plain
    assert (plain["wrappers"], plain["settings"]) == ([], {})
    assert record_of(gym.make("FrozenLake-v1", is_slippery=False))["settings"] == {"is_slippery": False}
    assert record_of(make_env("dsacc/Catch-v0"))["wrappers"] == []


def test_a_copy_has_what_its_wrappers_learned_and_leaves_the_original_alone(tmp_path):
    env = wrappers.NormalizeObservation(wrappers.RecordEpisodeStatistics(gym.make("CartPole-v1")))
    env.reset(seed=0)
    for _ in range(5):
        env.step(0)
    made, before = copy_of(env), env.obs_rms.mean.copy()
    assert np.array_equal(made.obs_rms.mean, before)
    assert not isinstance(made.env, wrappers.RecordEpisodeStatistics)
    made.reset(seed=1)
    made.step(1)
    assert np.array_equal(env.obs_rms.mean, before)
    assert np.array_equal(env.unwrapped.state, copy_of(env).unwrapped.state)


def test_copies_that_share_a_memory_are_played_one_at_a_time():
    seen = []

    def count(reward):
        seen.append(reward)
        return float(len(seen))

    class Forgets(wrappers.TransformReward):
        def reset(self, **kwargs):
            seen.clear()
            return super().reset(**kwargs)

    env = Forgets(Paid(), count)
    assert not can_play_together(lambda: copy_of(env))
    assert can_play_together(lambda: copy_of(wrappers.TransformReward(Paid(), float)))
    model = DSAC(env, **TINY)
    assert returns(model) == [6.0] * 3  # 1 + 2 + 3, in each game
    with pytest.raises(EnvError, match="give --env with a name"):
        find_source(OwnPlayer(model), None, together=True)


def test_what_cannot_be_copied_is_played_itself_where_it_was_given_and_left_open():
    env = Uncopied()
    assert returns(DSAC(Paid, **TINY), env) == [3.0] * 3
    assert not env.closed
    with pytest.raises(EnvError, match=r"Uncopied cannot be copied .*socket"):
        evaluate(DSAC(env, **TINY))


def test_a_user_who_tests_during_training_finds_the_training_undisturbed():
    def trained(test):
        model = DSAC(wrappers.TransformReward(ActionMatters(), float), **TINY).learn(40)
        if test:
            evaluate(model, episodes=2)
        return model.learn(40).learner.state()["actor.head.weight"]

    assert trained(False).equal(trained(True))


def test_rows_of_a_wrapped_environment_are_never_taken_for_those_of_another(tmp_path):
    model = DSAC(Paid(1.0), **TINY)
    assert returns(model, out=tmp_path) == [3.0] * 3
    assert returns(model, Paid(4.0), out=tmp_path) == [12.0] * 3


def test_harden_takes_an_environment_with_its_wrappers_and_notes_it():
    env = wrappers.TransformReward(make_env("dsacc/Catch-v0"), float)
    small = {"random_steps": 20, "hidden": 8, "batch_size": 4, "encoder": "small"}
    student = harden(DSAC(env, **small), updates=1, states=64, rounds=0)
    assert student.environment["wrappers"] == ["TransformReward"]
    with pytest.raises(EnvError, match="trained on dsacc/Catch-v0 with TransformReward"):
        evaluate(student, episodes=1)
    assert harden(DSAC("dsacc/Catch-v0", **small), env, updates=1, states=64, rounds=0).environment["wrappers"]
