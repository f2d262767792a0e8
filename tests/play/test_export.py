"""An exported graph does what the agent does, for every kind of observation, or is not written."""

from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces

from dsacc import DSAC
from dsacc.cli import main
from dsacc.envs.filters import FILTERS, filtered
from dsacc.errors import ModelError
from dsacc.play import export
from dsacc.play.adapters import OnnxPlayer, OwnPlayer, find_player
from dsacc.play.export import export_agent, export_onnx, random_observations

onnx = pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")


class Blank(gym.Env):
    """Any observation space, five actions."""

    def __init__(self, space):
        self.observation_space, self.action_space = space, spaces.Discrete(5)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.observation_space.sample(), {}

    def step(self, action):
        return self.observation_space.sample(), 0.0, True, False, {}


def pixels(*shape):
    return spaces.Box(0, 255, shape, np.uint8)


CASES = {
    "nature": (pixels(4, 84, 84), "nature", {}, "uint8"),
    "nature, channels last": (pixels(40, 44, 3), "nature", {}, "uint8"),
    "small, shared trunk": (pixels(4, 84, 84), "small", {"shared_trunk": True, "encoder": "small"}, "uint8"),
    "small, own trunk": (pixels(20, 24, 3), "small", {"shared_trunk": False, "encoder": "small"}, "uint8"),
    "averaged policy, shared trunk": (
        pixels(4, 84, 84),
        "compact",
        {"shared_trunk": True, "encoder": "compact", "rescale_features": True, "average_policy": True},
        "uint8",
    ),
    "layer norm": (pixels(4, 84, 84), "compact", {"encoder": "compact", "layer_norm": True}, "uint8"),
    "layer norm, mlp": (spaces.Box(-1, 1, (6,), np.float32), "mlp", {"layer_norm": True}, "float32"),
    "standardised": (pixels(4, 84, 84), "nature", {"standardise_pictures": True}, "uint8"),
    "averaged policy, own trunk": (pixels(36, 36, 3), "nature", {"average_policy": True}, "uint8"),
    "grey": (pixels(36, 36), "nature", {}, "uint8"),
    "stack, channels first": (pixels(3, 2, 36, 38), "nature", {}, "uint8"),
    "stack, channels last": (pixels(3, 36, 38, 2), "nature", {}, "uint8"),
    "mlp on tiny pictures": (pixels(3, 8, 9), "mlp", {}, "uint8"),
    "mlp": (spaces.Box(-1, 1, (6,), np.float32), "mlp", {}, "float32"),
    "mlp, shared trunk": (spaces.Box(-1, 1, (6,), np.float32), "mlp", {"shared_trunk": True}, "float32"),
    "matrix of doubles": (spaces.Box(-1, 1, (3, 2), np.float64), "mlp", {}, "float32"),
    "bytes in a row": (pixels(128), "mlp", {}, "uint8"),
    "number": (spaces.Discrete(9, start=4), "mlp", {}, "int64"),
    "numbers": (spaces.MultiDiscrete([[3, 4], [5, 6]], start=[[1, 0], [2, 0]]), "mlp", {}, "int64"),
    "bits": (spaces.MultiBinary(12), "mlp", {}, "float32"),
}


def fresh(space, settings):
    model = DSAC(Blank(space), constraint="mean", preset="classic", seed=2, hidden=32, **settings)
    for head in (model.learner.actor.head, *model.learner.critics.heads):
        head.bias.data.copy_(head.bias.new_tensor([0.3, -0.2, 0.1, 0.0, -0.1]))
    return model


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_graph_acts_as_the_agent_on_1000_observations(case, tmp_path):
    space, encoder, settings, dtype = CASES[case]
    model = fresh(space, settings)
    assert (model.learner.actor.encoder or model.learner.critics.encoders[0]).kind == encoder
    made = export_onnx(model, tmp_path / "a.onnx")
    assert made.observation.startswith(dtype + " [batch")
    session = runtime.InferenceSession(made.path, providers=["CPUExecutionProvider"])
    (given,), (answered,) = session.get_inputs(), session.get_outputs()
    assert (given.name, answered.name, answered.shape) == ("observation", "logits", ["batch", 5])
    seen = random_observations(model.observations, 1000, np.random.default_rng(5))
    batches = np.split(seen, [1, 3, 10, 500])  # any batch will do
    raw = [session.run(["logits"], {"observation": batch.astype(dtype)})[0] for batch in batches]
    logits = np.concatenate(raw)
    actions = model.predict(seen, deterministic=True)[0]
    assert (logits.argmax(axis=1) == actions).all()
    assert np.allclose(logits, model.logits(seen), atol=1e-4)
    assert len(set(actions)) > 1


def test_an_exported_agent_plays_like_itself_and_says_who_it_is(tmp_path):
    model = DSAC("CartPole-v1", constraint="mean", seed=4, hidden=16, random_steps=20, batch_size=8).learn(40)
    export_onnx(model, tmp_path / "agent.onnx")
    player, own = find_player(f"onnx:{tmp_path / 'agent.onnx'}"), OwnPlayer(model)  # no environment need be named
    player.check_fits(gym.make("CartPole-v1"))
    seen = random_observations(model.observations, 64, np.random.default_rng(1))
    for greedy in (True, False):
        drawn = [[np.random.default_rng(i) for i in range(64)] for _ in range(2)]
        assert (player.act(seen, drawn[0], greedy) == own.act(seen, drawn[1], greedy)).all()
    assert (player.agent, player.train_seed, player.step, player.env) == ("onnx:agent", 4, 40, "CartPole-v1")
    notes = {p.key: p.value for p in onnx.load(tmp_path / "agent.onnx").metadata_props}
    assert notes["agent"] == "dsac-m"


def test_the_same_agent_gives_the_same_bytes_and_no_path_of_the_machine(tmp_path):
    model = fresh(pixels(4, 84, 84), {})
    first, second = (export_onnx(model, tmp_path / name).path.read_bytes() for name in ("a.onnx", "b.onnx"))
    assert first == second
    assert str(Path(export.__file__).parent).encode() not in first


def test_a_graph_that_disagrees_is_not_written(tmp_path, monkeypatch):
    right = export._encoder
    monkeypatch.setattr(export, "_encoder", lambda observations: lambda x: right(observations)(x).flip(1))
    (tmp_path / "a.onnx").write_bytes(b"before")
    with pytest.raises(ModelError, match="disagree on a random observation"):
        export_onnx(fresh(pixels(4, 36, 36), {}), tmp_path / "a.onnx")
    assert (tmp_path / "a.onnx").read_bytes() == b"before"
    assert len(list(tmp_path.iterdir())) == 1


def test_exporting_leaves_the_agent_as_it_was(tmp_path):
    model = DSAC("CartPole-v1", hidden=16, random_steps=20, batch_size=8).learn(40)
    before = {name: value.clone() for name, value in model.learner.state().items()}
    export_onnx(model, tmp_path / "a.onnx")
    assert all(value.equal(before[name]) for name, value in model.learner.state().items())
    assert model.learner.actor.training
    assert all(p.requires_grad for p in model.learner.actor.parameters())
    model.learn(10)


def test_the_command_says_what_it_wrote_and_how_to_use_it(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    DSAC("CartPole-v1", hidden=16, seed=1).save("agent")
    assert main(["export", "agent", "--out", "deep/net.onnx"]) == 0
    said = capsys.readouterr()
    assert said.out == ""
    assert "wrote deep/net.onnx" in said.err
    assert "float32 [batch, 4]" in said.err
    assert "1,000 of 1,000 random observations" in said.err
    assert "next: dsacc evaluate onnx:deep/net.onnx" in said.err
    assert main(["export", "agent.safetensors"]) == 0
    assert (tmp_path / "agent.onnx").read_bytes() == (tmp_path / "deep/net.onnx").read_bytes()


def test_a_mistake_in_the_command_is_a_line(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["export", "nowhere"]) == 2
    assert capsys.readouterr().err == "dsacc: there is no saved agent nowhere.safetensors, nor a run folder nowhere\n"
    DSAC("CartPole-v1", hidden=16).save("agent")
    assert main(["export", "agent", "--out", "/proc/net.onnx"]) == 2
    assert "cannot be written" in capsys.readouterr().err


@pytest.mark.parametrize("name", FILTERS)
def test_an_exported_filter_gives_the_same_bytes(name):
    rng = np.random.default_rng(0)
    for shape in ((4, 84, 84), (3, 40, 31)):
        pictures = (rng.random((5, *shape)) * 255 * rng.random((5, 1, 1, 1))).astype(np.uint8)
        assert (export._FILTERS[name](torch.from_numpy(pictures)).numpy() == filtered(pictures, name)).all()


@pytest.mark.parametrize("name", FILTERS)
def test_an_agent_behind_a_filter_is_exported_with_it(tmp_path, name):
    model = DSAC("dsacc/Catch-v0", picture_filter=name, hidden=16)
    export_onnx(model, tmp_path / "a.onnx")
    raw = np.stack([model.env.reset(seed=s)[0] for s in range(4)])
    dimmed = (raw * 0.5 + 40).astype(np.uint8)
    answer = OnnxPlayer(tmp_path / "a.onnx").answer(dimmed)
    assert np.abs(answer - model.logits(dimmed)).max() < 1e-4


@pytest.mark.parametrize("average_policy", [False, True])
def test_a_shared_agent_is_small_plays_alike_and_learns_on(tmp_path, average_policy):
    model = DSAC("CartPole-v1", average_policy=average_policy, random_steps=50, seed=2).learn(300)
    made = export_agent(model, tmp_path / "shared")
    model.save(tmp_path / "whole")
    assert made.path == tmp_path / "shared.safetensors"
    assert made.bytes < (tmp_path / "whole.safetensors").stat().st_size / 5
    shared = DSAC.load(made.path)
    seen = random_observations(model.observations, 200, np.random.default_rng(5))
    assert np.abs(shared.logits(seen) - model.logits(seen)).max() < 0.01 * np.abs(model.logits(seen)).max()
    q, own = (m.learner.target_critics(torch.as_tensor(seen))[0] for m in (shared, model))
    if average_policy:  # these act, so they were kept; else the online critics were
        assert (q - own).abs().max() < 0.01 * own.abs().max()
    assert shared.step == model.step == 300
    DSAC.load(made.path, env="CartPole-v1").learn(60)


def test_a_shared_agent_never_replaces_what_it_is_made_of(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    DSAC("CartPole-v1", hidden=16).save("agent")
    whole = (tmp_path / "agent.safetensors").read_bytes()
    assert main(["export", "agent.safetensors", "--format", "agent"]) == 2
    assert "name another file with --out" in capsys.readouterr().err
    assert main(["export", "agent", "--format", "agent"]) == 2
    assert (tmp_path / "agent.safetensors").read_bytes() == whole
    assert main(["export", "agent", "--format", "agent", "--out", "small"]) == 0
    assert "next: dsacc evaluate small.safetensors" in capsys.readouterr().err
