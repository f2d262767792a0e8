"""Pictures of floats are pictures: an agent sees, learns and does the same with them as with bytes."""

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces
from helpers.extras import needs
from probes import Probe

from dsacc import DSAC, Shift, evaluate, harden, make_env
from dsacc.agent.networks import choose_encoder
from dsacc.play.adapters import BlindPlayer, OwnPlayer
from dsacc.play.export import export_onnx
from dsacc.views.preview import preview
from dsacc.views.watch import watch

QUICK = {"random_steps": 10, "batch_size": 4, "hidden": 8, "seed": 3}


def catch(top=None):
    """Catch, with pictures of floats from 0 to `top`."""
    env = make_env("dsacc/Catch-v0")
    if top is None:
        return env
    space = spaces.Box(0, top, env.observation_space.shape, np.float32)
    return gym.wrappers.TransformObservation(env, lambda seen: (seen * (top / 255)).astype(np.float32), space)


gym.register("FloatCatch-v0", lambda **_: catch(1))


def weights(model):
    return model.learner.state()


def assert_equal(one, other):
    assert one.keys() == other.keys()
    for name, tensor in one.items():
        assert torch.equal(tensor, other[name]), name


@pytest.fixture(scope="module")
def bytewise():
    return DSAC(catch, "mean", **QUICK).learn(14)


@pytest.mark.parametrize("top", [1, 255])
def test_an_agent_learns_plays_and_is_hardened_on_floats_as_on_bytes(top, bytewise):
    model = DSAC(lambda: catch(top), "mean", **QUICK).learn(14)
    assert choose_encoder(model.config, model.observations.spec) == "compact"
    assert_equal(weights(model), weights(bytewise))
    asked = {"shifts": ["id", "snow"], "episodes": 3, "policy": "sampled"}
    played = [evaluate(agent, env, **asked) for agent, env in ((model, lambda: catch(top)), (bytewise, catch))]
    assert [row["returns"] for row in played[0]] == [row["returns"] for row in played[1]]
    asked = {"states": 64, "updates": 4, "rounds": 1}
    students = [harden(agent, env, **asked) for agent, env in ((model, lambda: catch(top)), (bytewise, catch))]
    assert_equal(weights(students[0]), weights(students[1]))


@pytest.mark.parametrize("top", [1, 255])
def test_a_shift_draws_on_floats_what_it_draws_on_bytes(top):
    floats, inside = (Shift(env, "snow", severity=3, seed=1) for env in (catch(top), catch()))
    for one, other in zip(
        (floats.reset(seed=0)[0], floats.step(1)[0]), (inside.reset(seed=0)[0], inside.step(1)[0]), strict=True
    ):
        assert one in floats.observation_space
        assert np.array_equal(np.rint(one * (255 / top)), other)
    assert np.array_equal(floats.render(), inside.render())


def test_a_saved_agent_still_sees_pictures(bytewise, tmp_path):
    DSAC(lambda: catch(1), "mean", **QUICK).learn(14).save(tmp_path / "agent")
    seen = catch().reset(seed=0)[0]
    ours = DSAC.load(tmp_path / "agent").logits((seen / 255).astype(np.float32))
    assert np.array_equal(ours, bytewise.logits(seen))


def test_a_blind_player_is_shown_grey():
    blind = BlindPlayer(OwnPlayer(DSAC(lambda: catch(1), **QUICK)))
    blind.check_fits(catch(1))
    assert np.unique(blind.shown(np.zeros((2, 84, 84, 3), np.float32))).tolist() == [np.float32(128 / 255)]
    vector = BlindPlayer(OwnPlayer(DSAC(Probe, hidden=8)))
    vector.check_fits(Probe())
    assert not vector.shown(np.ones((2, 2), np.float32)).any()


def test_watch_and_preview_show_them(tmp_path):
    assert watch("random", "FloatCatch-v0", shifts=["snow"], max_steps=2, out=tmp_path / "film.gif").frames > 2
    two = [
        preview([env], tmp_path / "out.png", shifts=["snow"], steps=3) for env in ("FloatCatch-v0", "dsacc/Catch-v0")
    ]
    assert all(file.is_file() for file in two)


@needs("onnxruntime", "onnx")
def test_an_exported_graph_takes_the_floats(tmp_path):
    export_onnx(DSAC(lambda: catch(1), **QUICK), tmp_path / "graph.onnx")  # which compares the graph with the agent
    rows = evaluate(f"onnx:{tmp_path / 'graph.onnx'}", lambda: catch(1), shifts=["id"], episodes=1)
    assert len(rows[0]["returns"]) == 1
