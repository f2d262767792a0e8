"""Encoders of a user's own: registered by name, saved by name, never imported because a file says so."""

import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import nn

from dsacc import DSAC
from dsacc.agent.encoders import _BUILDS, find_encoder, import_encoder, register_encoder, seen_space
from dsacc.agent.observation import ObservationSpec
from dsacc.agent.parts import dict_spec
from dsacc.config import OWN_ENCODERS, make_config
from dsacc.errors import ConfigError, ModelError, Untrusted

TINY = {"random_steps": 10, "batch_size": 4, "hidden": 8}
MODULE = """
from torch import nn
from dsacc.agent import register_encoder
register_encoder("tanh", lambda space, config: nn.Sequential(nn.Linear(space.shape[0], 5), nn.Tanh()))
"""


def tanh(space, config):
    return nn.Sequential(nn.Linear(space.shape[0], 5), nn.Tanh())


@pytest.fixture(autouse=True)
def registry():
    """Every test begins with an empty registry."""
    yield
    _BUILDS.clear()
    OWN_ENCODERS.clear()


@pytest.fixture
def module(tmp_path, monkeypatch):
    """A module in the current folder that registers `tanh`."""
    (tmp_path / "some_nets.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    sys.modules.pop("some_nets", None)


@pytest.mark.parametrize("shared", [False, True])
def test_a_registered_module_learns_and_comes_back_from_its_file(tmp_path, shared):
    register_encoder("tanh", tanh)
    model = DSAC("CartPole-v1", encoder="tanh", shared_trunk=shared, average_policy=True, **TINY)
    before = model.learner.critics.encoders[0].body[0].weight.detach().clone()
    model.learn(40)
    assert not torch.equal(before, model.learner.critics.encoders[0].body[0].weight)
    again, seen = DSAC.load(model.save(tmp_path / "agent")), np.ones((3, 4), np.float32)
    assert np.array_equal(again.logits(seen), model.logits(seen))


def test_a_module_may_choose_the_number_of_its_features():
    register_encoder("tanh", tanh)
    model = DSAC("CartPole-v1", encoder="tanh", hidden=64)
    assert model.learner.critics.heads[0].in_features == model.learner.actor.head.in_features == 5


def test_the_seed_fixes_the_weights_that_the_users_code_draws():
    register_encoder("tanh", tanh)
    weights = {}
    for seed, noise in ((0, 1), (0, 2), (1, 1)):
        torch.manual_seed(noise)
        expected = torch.rand(1)
        torch.manual_seed(noise)
        learner = DSAC("CartPole-v1", encoder="tanh", seed=seed).learner
        assert torch.equal(torch.rand(1), expected), "torch's global random numbers were touched"
        weights[seed, noise] = [encoder.body[0].weight for encoder in learner.critics.encoders]
    assert torch.equal(weights[0, 1][0], weights[0, 2][0])
    assert not torch.equal(weights[0, 1][0], weights[1, 1][0])
    assert not torch.equal(weights[0, 1][0], weights[0, 1][1]), "twin critics must not begin as one"


def test_initial_weights_are_those_of_the_users_own_code():
    def constant(space, config):
        layer = nn.Linear(space.shape[0], 3)
        nn.init.constant_(layer.weight, 0.5)
        return layer

    register_encoder("constant", constant)
    learner = DSAC("CartPole-v1", encoder="constant").learner
    assert (learner.actor.encoder.body.weight == 0.5).all()
    assert learner.actor.head.weight.std() > 0


def test_pictures_come_scaled_and_channel_first():
    seen = {}

    class Look(nn.Module):
        def forward(self, pictures):
            seen["pictures"] = pictures
            return pictures.view(len(pictures), -1)[:, :7]

    def build(space, config):
        seen["space"] = space
        return Look()

    register_encoder("look", build)
    model = DSAC("dsacc/Catch-v0", encoder="look", preset="classic")
    model.predict(np.full((84, 84, 3), 255, np.uint8))
    assert seen["space"] == spaces.Box(0, 1, (3, 84, 84), np.float32)
    assert seen["pictures"].shape == (1, 3, 84, 84)
    assert (seen["pictures"] == 1).all()


def test_indices_come_one_hot():
    register_encoder("linear", lambda space, config: nn.Linear(space.shape[0], 2))
    model = DSAC("FrozenLake-v1", encoder="linear")
    assert model.learner.actor.encoder.body.in_features == 16
    assert model.logits(3).shape == (1, 4)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda space, config: 3, "must be an nn.Module, not a int"),
        (lambda space, config: 1 / 0, "cannot be built for Box.*division by zero"),
        (lambda space, config: nn.Linear(7, 2), "failed on a batch of 2: .*mat1 and mat2"),
        (lambda space, config: nn.Unflatten(1, (2, 2)), r"into floats \[2, features\], not .* of shape \(2, 2, 2\)"),
        (lambda space, config: nn.Sequential(nn.Linear(4, 2), nn.Dropout()), "a layer Dropout, with which a run could"),
        (lambda space, config: nn.BatchNorm1d(4), "a layer BatchNorm1d, with which"),
    ],
)
def test_a_module_that_cannot_work_is_answered_with_a_sentence(build, message):
    register_encoder("bad", build)
    with pytest.raises(ConfigError, match=message):
        DSAC("CartPole-v1", encoder="bad")


@pytest.mark.parametrize(
    ("name", "build", "message"),
    [("mlp", tanh, "an encoder of dsacc"), ("a b", tanh, "letters"), ("x", 3, "is a function")],
)
def test_names_and_functions_that_cannot_be_registered_are_refused(name, build, message):
    with pytest.raises(ConfigError, match=message):
        register_encoder(name, build)


def test_a_users_module_is_imported_where_the_user_names_it(module):
    assert DSAC("CartPole-v1", encoder="some_nets:tanh").learner.actor.head.in_features == 5
    with pytest.raises(ConfigError, match="registers no encoder 'tan'; did you mean 'tanh'"):
        DSAC("CartPole-v1", encoder="some_nets:tan")


def test_a_saved_agent_imports_nothing_and_says_what_to_import(module):
    import_encoder("some_nets:tanh")
    DSAC("CartPole-v1", encoder="some_nets:tanh").save("agent")
    del sys.modules["some_nets"]
    with pytest.raises(Untrusted, match=r"agent names the encoder 'some_nets:tanh'.*\(--import some_nets\)"):
        DSAC.load("agent")
    assert "some_nets" not in sys.modules
    import_encoder("some_nets:tanh")
    DSAC.load("agent")


def test_a_saved_agent_is_refused_where_its_encoder_is_not_registered(tmp_path):
    register_encoder("mine", tanh)
    path = DSAC("CartPole-v1", encoder="mine").save(tmp_path / "agent")
    _BUILDS.clear()
    OWN_ENCODERS.clear()
    with pytest.raises(ModelError, match="not 'mine'; one of your own must be registered first"):
        DSAC.load(path)


def test_settings_alone_import_no_module():
    assert make_config(encoder="no_such_module.at_all:name").encoder == "no_such_module.at_all:name"
    with pytest.raises(ConfigError, match="is not imported"):
        find_encoder("no_such_module.at_all:name")


@pytest.mark.parametrize("bad", ["natur", "a b:c", "../x:y", "os.system:", ":name"])
def test_other_texts_are_no_encoders(bad):
    with pytest.raises(ConfigError, match="encoder is one of"):
        make_config(encoder=bad)


def test_an_encoder_of_ones_own_is_exported_where_torch_can(tmp_path):
    pytest.importorskip("onnxruntime")
    from dsacc.play.export import export_onnx

    register_encoder("tanh", tanh)
    model = DSAC("CartPole-v1", encoder="tanh")
    assert export_onnx(model, tmp_path / "policy.onnx").actions == 2

    class Stubborn(nn.Module):
        def forward(self, x):
            return torch.linalg.svd(x[:, None], full_matrices=False).Vh[:, 0]

    register_encoder("svd", lambda space, config: Stubborn())
    with pytest.raises(ModelError, match="torch cannot write the encoder 'svd' as an ONNX graph"):
        export_onnx(DSAC("CartPole-v1", encoder="svd"), tmp_path / "other.onnx")
    assert not Path(tmp_path / "other.onnx").exists()


def test_the_command_line_imports_what_the_user_names(module, capsys):
    from dsacc.cli import main

    DSAC("CartPole-v1", encoder="some_nets:tanh").save("agent")
    del sys.modules["some_nets"]
    asked = ["evaluate", "agent", "--episodes", "1", "--format", "json"]
    assert main(asked) == 2
    assert "agent names the encoder 'some_nets:tanh'" in capsys.readouterr().err
    assert main([*asked, "--import", "some_nets"]) == 0
    assert main([*asked, "--import", "no_such_nets"]) == 2
    assert "there is no module 'no_such_nets'" in capsys.readouterr().err


def test_a_features_extractor_of_stable_baselines3_fits_as_it_is():
    layers = pytest.importorskip("stable_baselines3.common.torch_layers")
    register_encoder("sb3", lambda space, config: layers.NatureCNN(space, 24, normalized_image=True))
    model = DSAC("dsacc/Catch-v0", encoder="sb3", preset="classic")
    assert model.learner.actor.head.in_features == 24


def test_an_encoder_of_ones_own_is_told_what_it_will_see():
    image, index = ObservationSpec("image", (3, 20, 20)), ObservationSpec("discrete", (2,), (3, 2))
    vector = ObservationSpec("vector", (4,))
    shown = {
        "image": spaces.Box(0, 1, (3, 20, 20), np.float32),
        "index": spaces.Box(0, 1, (5,), np.float32),
        "vector": spaces.Box(-np.inf, np.inf, (4,), np.float32),
    }
    parts = {"image": image, "index": index, "vector": vector}
    assert {name: seen_space(part) for name, part in parts.items()} == shown
    assert seen_space(dict_spec(parts)) == spaces.Dict(shown)
    centred = spaces.Box(-1, 1, (3, 20, 20), np.float32)
    assert seen_space(image, centred=True) == centred
    assert seen_space(dict_spec(parts), centred=True) == spaces.Dict({**shown, "image": centred})
