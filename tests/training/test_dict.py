"""Observations of several parts, from the environment to a saved agent."""

import json

import numpy as np
import pytest
import torch
from gymnasium import spaces
from gymnasium.wrappers import FilterObservation
from probes import CameraAndCompass
from torch import nn

from dsacc import DSAC, Shift, evaluate, harden
from dsacc.agent.encoders import _BUILDS, register_encoder
from dsacc.config import OWN_ENCODERS
from dsacc.envs import Observations, stacked
from dsacc.errors import ConfigError, EnvError, ModelError
from dsacc.play.export import export_onnx

TINY = {"random_steps": 20, "batch_size": 8, "hidden": 8, "encoder": "mlp", "preset": "classic", "replay_size": 100}
ALL = [(bright, compass) for bright in (0, 1) for compass in range(4)]


def hashes(model):
    return {name: tensor.numpy().tobytes() for name, tensor in model.learner.state().items()}


def test_one_dict_and_a_batch_of_dicts_are_predicted_alike():
    model = DSAC(CameraAndCompass(), **TINY)
    assert model.config.encoder == "mlp"
    seen = [CameraAndCompass.look(*state) for state in ALL]
    actions = model.predict(stacked(seen), deterministic=True)[0]
    one = [model.predict(look, deterministic=True)[0] for look in seen]
    assert actions.shape == (8,)
    assert np.ndim(one[0]) == 0
    assert actions.tolist() == one


def test_pictures_in_a_dict_choose_the_preset_for_pictures():
    assert DSAC(CameraAndCompass()).config.augment_shift == 4
    blind = FilterObservation(CameraAndCompass(), ["compass", "speed"])
    assert DSAC(blind).config.augment_shift == 0


class Crash(Exception):
    pass


@pytest.mark.parametrize("settings", [{}, {"replay_compression": "lz4", "envs": 2, "augment_shift": 2}])
def test_a_run_that_died_ends_with_the_same_weights_and_metrics(tmp_path, settings):
    settings = {**TINY, "checkpoint_every": 30, "log_every": 20, "train_every": 2, **settings}

    def make():
        return CameraAndCompass(steps=7)

    def die(row):
        if row["step"] >= 50:
            raise Crash

    whole = DSAC(make, **settings).learn(80, out=tmp_path / "whole")
    with pytest.raises(Crash):
        DSAC(make, **settings).learn(80, out=tmp_path / "died", callback=die)
    said = DSAC(make, **settings).learn(80, out=tmp_path / "died")
    assert hashes(said) == hashes(whole)
    rows = [[json.loads(line) for line in (tmp_path / run / "metrics.jsonl").open()] for run in ("whole", "died")]
    assert rows[0] == rows[1]


def test_a_saved_agent_sees_the_same_parts(tmp_path):
    model = DSAC(CameraAndCompass(), **TINY)
    again = DSAC.load(model.save(tmp_path / "agent"))
    look = CameraAndCompass.look(1, 2)
    assert np.array_equal(again.logits(look), model.logits(look))
    with pytest.raises(ModelError, match=r"camera \(20, 17, 3\), compass a number, speed \(2,\); this"):
        DSAC.load(tmp_path / "agent", env="CartPole-v1")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"compass": np.int64(9)}, "compass: a discrete observation is outside"),
        ({"speed": np.array([np.nan, 0], np.float32)}, "speed: the observation holds NaN"),
        ({"camera": np.zeros((20, 17), np.uint8)}, r"camera: an observation of shape \(20, 17\) does not fit"),
        ({"speed": np.zeros((3, 2), np.float32)}, "one each, or batches of one size, not 1 of camera, .* 3 of speed"),
        ({"more": 1}, "must be a dict of camera, compass, speed; this one has camera, compass, speed, more"),
    ],
)
def test_a_part_that_does_not_fit_is_named(wrong, message):
    model = DSAC(CameraAndCompass(), **TINY)
    with pytest.raises((EnvError, ModelError), match=message):
        model.predict({**CameraAndCompass.look(0, 0), **wrong})


def test_an_array_is_no_dict():
    with pytest.raises(ModelError, match="must be a dict of camera, compass, speed; this one has no dict"):
        DSAC(CameraAndCompass(), **TINY).predict(np.zeros(3))


def test_a_shift_changes_the_picture_of_a_dict_and_nothing_else():
    env = Shift(CameraAndCompass(), "gaussian_noise", severity=3)
    clean, shifted = CameraAndCompass().reset(seed=3)[0], env.reset(seed=3)[0]
    assert not np.array_equal(clean["camera"], shifted["camera"])
    assert clean["compass"] == shifted["compass"]
    assert np.array_equal(clean["speed"], shifted["speed"])
    with pytest.raises(ConfigError, match="can change one picture, but this one has none"):
        Shift(FilterObservation(CameraAndCompass(), ["compass"]), "gaussian_noise")


@pytest.mark.parametrize("agent", ["ours", "random", "blind", "function"])
def test_any_agent_is_tested_on_several_inputs(agent):
    model = DSAC(CameraAndCompass(), **TINY)

    def right(seen):
        return (seen["camera"][:, 7, 7, 0] > 128).astype(int) ^ (seen["compass"] - 1) % 2

    player = {"ours": model, "random": "random", "function": right}.get(agent)
    if agent == "blind":
        from dsacc.play.adapters import BlindPlayer, OwnPlayer

        player = BlindPlayer(OwnPlayer(model))
        with pytest.raises(ModelError, match="start above 0"):
            evaluate(player, CameraAndCompass, episodes=2)
        return
    rows = evaluate(player, CameraAndCompass, shifts=["id", "brightness"], episodes=20)
    assert [len(row["returns"]) for row in rows] == [20, 20]
    if agent == "function":
        assert set(rows[0]["returns"]) == {1.0}


def test_what_several_inputs_do_not_allow_is_said_in_a_sentence(tmp_path):
    model = DSAC(CameraAndCompass(), **TINY)
    with pytest.raises(ConfigError, match="shows several inputs; hardening is for agents that see one picture"):
        harden(model, CameraAndCompass, updates=100)
    with pytest.raises(ModelError, match="sees several inputs cannot be exported"):
        export_onnx(model, tmp_path / "policy.onnx")
    with pytest.raises(ConfigError, match=r"augment_pictures generic needs pictures.*shows several inputs"):
        DSAC(CameraAndCompass(), **TINY, augment_pictures="generic", augmented_states=4)


def test_an_encoder_of_ones_own_gets_a_dict_of_tensors():
    class Both(nn.Module):
        def __init__(self, space):
            super().__init__()
            assert isinstance(space, spaces.Dict)
            self.layer = nn.Linear(space["camera"].shape[0] + space["compass"].shape[0] + space["speed"].shape[0], 6)

        def forward(self, seen):
            return self.layer(torch.cat([seen["camera"].mean((2, 3)), seen["compass"], seen["speed"]], dim=1))

    register_encoder("both", lambda space, config: Both(space))
    try:
        model = DSAC(CameraAndCompass(), **{**TINY, "encoder": "both"}).learn(30)
        assert model.learner.actor.head.in_features == 6
    finally:
        _BUILDS.clear()
        OWN_ENCODERS.clear()


def test_a_filter_applies_to_pictures_in_a_dict():
    look = CameraAndCompass.look(1, 0)
    plain, filtered = (Observations(CameraAndCompass().observation_space, f) for f in ("none", "high-pass"))
    picture = filtered.encode(look)[0, : 20 * 17 * 3]
    assert (picture[:17] == 128).all()
    assert picture.max() == 255
    assert np.array_equal(filtered.encode(look)[0, 20 * 17 * 3 :], plain.encode(look)[0, 20 * 17 * 3 :])
