"""What users of Stable-Baselines3 know by heart works here, with their own `evaluate_policy` as a witness."""

import gymnasium as gym
import numpy as np
import pytest
import torch
from probes import ActionMatters

from dsacc import DSAC
from dsacc.errors import ConfigError, EnvError, ModelError
from dsacc.replay.ring import _GOES_ON, _TRUNCATED

TINY = {"random_steps": 20, "hidden": 16, "batch_size": 8, "log_every": 50}


@pytest.fixture(scope="module")
def model() -> DSAC:
    return DSAC("CartPole-v1", **TINY).learn(total_timesteps=60)


# --- their evaluate_policy ---


@pytest.mark.filterwarnings("ignore:Evaluation environment is not wrapped")
@pytest.mark.parametrize("deterministic", [True, False])
def test_evaluate_policy_of_stable_baselines3_plays_our_agent(model, deterministic):
    evaluation = pytest.importorskip("stable_baselines3.common.evaluation")
    env = gym.make("CartPole-v1")
    env.reset(seed=3)
    asked = {"n_eval_episodes": 3, "deterministic": deterministic, "return_episode_rewards": True}
    returns, lengths = evaluation.evaluate_policy(model, env, **asked)
    assert len(returns) == 3
    assert returns == lengths  # CartPole pays one per step


@pytest.mark.filterwarnings("ignore:Evaluation environment is not wrapped")
def test_evaluate_policy_scores_as_a_loop_of_our_own_does(model):
    evaluation = pytest.importorskip("stable_baselines3.common.evaluation")
    theirs, env, total = gym.make("CartPole-v1"), gym.make("CartPole-v1"), 0.0
    theirs.action_space.seed(0)
    observation, _ = env.reset(seed=5)
    over = False
    while not over:
        action, _ = model.predict(observation, deterministic=True)
        observation, reward, terminated, truncated, _ = env.step(action)
        total, over = total + reward, terminated or truncated
    vector = pytest.importorskip("stable_baselines3.common.vec_env").DummyVecEnv([lambda: theirs])
    vector.seed(5)
    mean, spread = evaluation.evaluate_policy(model, vector, n_eval_episodes=1)
    assert (mean, spread) == (total, 0.0)


def test_evaluate_policy_with_a_vector_of_monitored_environments(model):
    evaluation = pytest.importorskip("stable_baselines3.common.evaluation")
    util = pytest.importorskip("stable_baselines3.common.env_util")
    mean, _ = evaluation.evaluate_policy(model, util.make_vec_env("CartPole-v1", n_envs=3, seed=0), n_eval_episodes=4)
    assert 5 < mean <= 500


# --- predict ---


def test_predict_takes_state_and_episode_start_and_gives_no_state(model):
    batch = np.zeros((3, 4), np.float32)
    actions, state = model.predict(batch, state=(np.zeros(2),), episode_start=np.ones(3, bool), deterministic=True)
    assert (actions.shape, state) == ((3,), None)
    assert np.array_equal(model.predict(batch, None, None, True)[0], actions)


def test_a_bool_in_the_second_place_still_means_deterministic(model):
    batch = np.random.default_rng(0).normal(size=(200, 4)).astype(np.float32)
    best, _ = model.predict(batch, deterministic=True)
    assert np.array_equal(model.predict(batch, True)[0], best)
    assert not np.array_equal(model.predict(batch, False)[0], best)


# --- learn ---


def test_num_timesteps_counts_from_zero_again_unless_told_not_to():
    model = DSAC("CartPole-v1", **TINY)
    assert model.learn(total_timesteps=60).num_timesteps == 60
    model.learn(40)
    assert (model.num_timesteps, model.step) == (40, 100)
    model.learn(30, reset_num_timesteps=False)
    assert (model.num_timesteps, model.step) == (70, 130)


def test_log_interval_prints_a_line_after_so_many_episodes(capsys):
    env = gym.wrappers.TimeLimit(gym.make("CartPole-v1"), 5)  # every episode of an untrained agent is that long
    DSAC(env, **TINY).learn(60, log_interval=4)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "step 20: 4 episodes, return 5.00, length 5.0"
    assert len(lines) == 3
    with pytest.raises(ConfigError, match="log_interval must be a whole number of at least 1"):
        DSAC(env, **TINY).learn(60, log_interval=0)


def test_tensorboard_without_a_folder_is_refused():
    with pytest.raises(ConfigError, match="events go into a run folder"):
        DSAC("CartPole-v1", **TINY).learn(60, tensorboard=True)


def test_device_auto_is_one_that_is_there():
    wanted = "cuda" if torch.cuda.is_available() else "cpu"
    assert DSAC("CartPole-v1", device="auto", **TINY).device.type == wanted


# --- spaces, parameters, environments ---


def test_the_spaces_are_the_environments(model, tmp_path):
    env = gym.make("CartPole-v1")
    assert (model.observation_space, model.action_space) == (env.observation_space, env.action_space)
    loaded = DSAC.load(model.save(tmp_path / "agent"))
    assert loaded.action_space == env.action_space
    assert loaded.observation_space.shape == (4,)
    assert loaded.get_env() is None


def test_parameters_can_be_carried_to_another_agent(model, tmp_path):
    seen = np.random.default_rng(0).normal(size=(9, 4)).astype(np.float32)
    for given in (model.get_parameters(), model.save(tmp_path / "agent")):
        other = DSAC("CartPole-v1", seed=1, **TINY)
        assert not np.array_equal(other.logits(seen), model.logits(seen))
        other.set_parameters(given)
        assert np.array_equal(other.logits(seen), model.logits(seen))


def test_parameters_are_copies(model):
    before = model.get_parameters()
    for tensor in model.get_parameters().values():
        tensor.zero_()
    assert all(torch.equal(before[name], tensor) for name, tensor in model.learner.state().items())


def test_parameters_that_do_not_fit_change_nothing(model):
    before, given = model.get_parameters(), model.get_parameters()
    some = {name: tensor for name, tensor in given.items() if name.startswith("actor.")}
    with pytest.raises(ModelError, match=r"parameters are missing.*exact_match=False"):
        model.set_parameters(some)
    with pytest.raises(ModelError, match=r"has no parameter 'actor\.nose'"):
        model.set_parameters({**given, "actor.nose": torch.zeros(1)})
    with pytest.raises(ModelError, match=r"shape \(1,\)"):
        model.set_parameters({**given, next(iter(some)): torch.zeros(1)})
    assert all(torch.equal(before[name], tensor) for name, tensor in model.learner.state().items())
    model.set_parameters({name: tensor * 0 for name, tensor in some.items()}, exact_match=False)
    assert np.allclose(model.logits(np.ones((1, 4), np.float32)), 0)
    model.set_parameters(given)


def test_an_agent_goes_on_in_another_environment():
    model = DSAC(ActionMatters(), **TINY).learn(30)
    env = gym.wrappers.TimeLimit(ActionMatters(), 5)
    model.set_env(env)
    assert model.get_env() is model.env is env
    assert model.learn(30).step == 60
    with pytest.raises(ModelError, match=r"this agent was trained on ActionMatters .* this environment has"):
        model.set_env("Acrobot-v1")
    assert model.get_env() is env


def test_an_episode_that_is_left_behind_counts_as_truncated():
    model = DSAC("CartPole-v1", **TINY).learn(3)
    assert model.prepare().replay.after[2] == _GOES_ON
    model.set_env("CartPole-v1")
    assert model.prepare().replay.after[2] == _TRUNCATED


# --- vectors of environments ---


def test_a_vector_of_gymnasium_is_answered_with_the_line_that_does_the_same():
    with pytest.raises(EnvError, match=r'vector of 4 environment.*DSAC\("CartPole-v1", envs=4\)'):
        DSAC(gym.make_vec("CartPole-v1", num_envs=4, vectorization_mode="sync"))


def test_a_vector_of_stable_baselines3_is_answered_with_the_line_that_does_the_same():
    util = pytest.importorskip("stable_baselines3.common.env_util")
    vec_env = pytest.importorskip("stable_baselines3.common.vec_env")
    four = util.make_vec_env("CartPole-v1", n_envs=4)
    with pytest.raises(EnvError, match=r'DummyVecEnv is a vector of 4 .*DSAC\("CartPole-v1", envs=4\)'):
        DSAC(four)
    with pytest.raises(EnvError, match=r'DSAC\("CartPole-v1", envs=4\)'):
        DSAC("CartPole-v1", **TINY).set_env(four)
    with pytest.raises(EnvError, match=r"DSAC\(make, envs=4\), where make\(\) returns one"):
        DSAC(vec_env.VecFrameStack(four, 2))  # the id alone would lose the wrapper


def test_the_line_of_the_answer_works():
    assert len(DSAC("CartPole-v1", envs=4, **TINY).learn(40).envs) == 4


# --- the package ---


def test_dir_shows_the_public_names():
    import dsacc

    assert set(dsacc.__all__) <= set(dir(dsacc))
