"""The four verbs, and what they refuse."""

import json

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces
from probes import ActionMatters, Probe, Spoiled

from dsacc import DSAC
from dsacc.errors import BadInput, ConfigError, EnvError, ModelError, RunError

TINY = {"random_steps": 20, "hidden": 16, "batch_size": 8, "log_every": 50}


class Shown(Probe):
    """Any observation space: shows samples of it, pays 1."""

    def __init__(self, space: spaces.Space) -> None:
        super().__init__()
        self.observation_space = space
        self.age = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.observation_space.seed(seed)
        return self.observation_space.sample(), {}

    def step(self, action):
        self.age += 1
        return self.observation_space.sample(), 1.0, self.age % 7 == 0, False, {}


@pytest.mark.parametrize(
    "space",
    [
        spaces.Box(-1, 1, (3,), np.float32),
        spaces.Box(-1, 1, (), np.float64),
        spaces.Box(0, 255, (40, 40, 3), np.uint8),
        spaces.Box(0, 255, (4, 40, 40), np.uint8),
        spaces.Discrete(5, start=-2),
        spaces.MultiDiscrete([3, 4]),
        spaces.MultiBinary(4),
    ],
    ids=str,
)
@pytest.mark.parametrize("preset", ["classic", "efficient"])
def test_every_supported_space_trains_predicts_saves_and_loads(space, preset, tmp_path):
    model = DSAC(Shown(space), constraint="mean", preset=preset, **TINY).learn(60)
    samples = [space.sample() for _ in range(5)]
    batch, _ = model.predict(np.stack(samples), deterministic=True)
    assert batch.shape == (5,)
    again = DSAC.load(model.save(tmp_path / "agent"))
    for sample, action in zip(samples, batch, strict=True):
        single, state = again.predict(sample, deterministic=True)
        assert (np.ndim(single), state) == (0, None)
        assert single == action
    assert np.array_equal(model.logits(np.stack(samples)), again.logits(np.stack(samples)))


def test_sampled_actions_follow_the_policy():
    model = DSAC(ActionMatters(), **TINY).learn(60)
    seen = np.tile(Probe.see(0.0), (4000, 1))
    pi = torch.softmax(torch.tensor(model.logits(seen[:1])), -1)[0, 1].item()
    assert model.predict(seen)[0].mean() == pytest.approx(pi, abs=0.03)


def test_learn_returns_the_model_and_goes_on_where_it_was():
    model = DSAC(ActionMatters(), **TINY)
    assert model.learn(60) is model
    assert model.learn(40).step == 100
    straight = DSAC(ActionMatters(), **TINY).learn(100)
    assert all(
        torch.equal(a, b)
        for a, b in zip(model.learner.state().values(), straight.learner.state().values(), strict=True)
    )


def test_a_loaded_agent_learns_on(tmp_path):
    path = DSAC(ActionMatters(), **TINY).learn(60).save(tmp_path / "agent.safetensors")
    assert DSAC.load(path, env=ActionMatters()).learn(40).step == 100
    with pytest.raises(ModelError, match="loaded without an environment"):
        DSAC.load(path).learn(10)


def test_an_agent_does_not_fit_another_environment(tmp_path):
    path = DSAC(ActionMatters(), **TINY).learn(60).save(tmp_path / "agent")
    with pytest.raises(ModelError, match="2 actions and observations"):
        DSAC.load(path, env="Acrobot-v1")


def test_settings_are_keywords():
    assert DSAC("CartPole-v1", noise_std=0.5, constraint="mean").config.noise_std == 0.5
    with pytest.raises(ConfigError, match="did you mean 'noise_std'"):
        DSAC("CartPole-v1", noise_st=0.5)


@pytest.mark.parametrize("steps", [0, -5, 1.5, True])
def test_steps_must_be_positive_and_whole(steps, tmp_path):
    with pytest.raises(ConfigError, match="steps must be a whole number of at least 1"):
        DSAC("CartPole-v1").learn(steps, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("what", ["observation", "reward"])
def test_numbers_that_are_not_finite_stop_the_run_with_a_sentence(bad, what, tmp_path):
    model = DSAC(Spoiled(at=30, **{what: bad}), **TINY)
    with pytest.raises(EnvError, match=r"finite|NaN or infinity"):
        model.learn(100, out=tmp_path / "run")
    status = json.loads((tmp_path / "run" / "status.json").read_text())
    assert status["state"] == "failed"
    assert not (tmp_path / "run" / "checkpoints").exists()
    for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines():
        json.loads(line)


def test_a_bad_first_observation_leaves_nothing_behind(tmp_path):
    with pytest.raises(EnvError, match="NaN or infinity"):
        DSAC(Spoiled(at=0, observation=np.nan), **TINY).learn(100, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_tuples_of_observations_and_box_actions_are_refused():
    with pytest.raises(EnvError, match="Tuple are not supported"):
        DSAC(Shown(spaces.Tuple([spaces.Discrete(2)])))
    with pytest.raises(EnvError, match="Box are not supported"):
        DSAC("Pendulum-v1")


def test_an_unknown_device_is_refused():
    for name in ("gpu", "gpu7"):
        with pytest.raises(
            ConfigError, match=rf"^device '{name}' is not available here \(there are cpu, cuda and mps\)"
        ):
            DSAC("CartPole-v1", device=name)


def test_every_refusal_is_a_value_error():
    assert all(issubclass(e, ValueError) for e in (BadInput, ConfigError, EnvError, ModelError, RunError))


def test_learn_writes_nothing_unless_asked(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    DSAC("CartPole-v1", **TINY).learn(60)
    assert list(tmp_path.iterdir()) == []


def test_alpha_that_runs_away_is_said_once():
    with pytest.warns(UserWarning, match="outside") as caught:
        DSAC(ActionMatters(), **{**TINY, "log_every": 10}, initial_alpha=1e4).learn(100)
    assert len(caught) == 1


def test_wrapped_environments_work():
    env = gym.wrappers.TimeLimit(ActionMatters(), 5)
    assert DSAC(env, **TINY).learn(30).config.env == "ActionMatters"
