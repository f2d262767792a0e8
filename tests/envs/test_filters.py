"""Filters of pictures: what they remove, what they keep, and that every part of the house applies the same one."""

import gymnasium as gym
import numpy as np
import pytest
import torch
from helpers.extras import atari

from dsacc import DSAC, evaluate, make_env
from dsacc.envs import Observations
from dsacc.envs.filters import FILTERS, detail, filtered, filtered_picture, high_pass, window
from dsacc.errors import ConfigError

CATCH = {"picture_filter": "high-pass", "random_steps": 10, "hidden": 16, "batch_size": 8, "replay_size": 200}


def slowly(plane):
    """The picture less its local mean, pixel by pixel."""
    height, width = plane.shape
    reach = window(height, width) // 2

    def mirrored(i, n):
        return n - 1 - abs(n - 1 - abs(i)) if n > 1 else 0

    edges = np.empty(plane.shape)
    for y in range(height):
        for x in range(width):
            rows = [mirrored(y + k, height) for k in range(-reach, reach + 1)]
            columns = [mirrored(x + k, width) for k in range(-reach, reach + 1)]
            edges[y, x] = float(plane[y, x]) - plane[np.ix_(rows, columns)].astype(float).mean()
    return edges


@pytest.mark.parametrize("shape", [(84, 84), (40, 30), (16, 21)])
def test_a_filter_is_its_definition_rounded(shape):
    plane = np.random.default_rng(0).integers(0, 256, shape).astype(np.uint8)
    plane[5:9, 3:8] = 255
    edges = slowly(plane)
    assert np.abs(high_pass(plane) - (128 + 127 / 3 * np.clip(edges / (edges.std() + 2), -3, 3))).max() <= 0.5 + 1e-9
    assert np.abs(detail(plane) - (128 + 127 * np.clip(edges / 72, -1, 1))).max() <= 0.5 + 1e-9


@pytest.mark.parametrize("name", FILTERS)
def test_a_flat_picture_is_128_whatever_its_level(name):
    for level in (0, 17, 255):
        assert (FILTERS[name](np.full((84, 84), level, np.uint8)) == 128).all()


def test_bright_spots_make_a_faint_ball_fainter_for_high_pass_and_not_for_detail():
    clean = np.zeros((84, 84), np.uint8)
    clean[42:44, 42:44] = 30
    spots = clean.copy()
    spots[::12, ::12] = 255
    assert (detail(spots)[42:44, 42:44] == detail(clean)[42:44, 42:44]).all()
    seen = [int(high_pass(plane)[42, 42]) - 128 for plane in (clean, spots)]
    assert seen[1] < 0.5 * seen[0]


def test_added_light_changes_nothing_and_contrast_little():
    picture = make_env("dsacc/Catch-v0").reset(seed=0)[0][..., 0] // 2
    assert (high_pass(picture + 60) == high_pass(picture)).all()
    dimmed = high_pass((picture * 0.6).astype(np.uint8)).astype(int)
    assert np.abs(dimmed - high_pass(picture)).mean() < 2
    assert np.abs(high_pass(picture).astype(int) - 128).max() > 100  # the ball is still there


def test_the_neighbourhood_grows_with_the_picture_and_is_odd():
    assert [window(84, 84), window(210, 160), window(16, 16), window(3, 8)] == [9, 23, 3, 3]


def test_every_plane_is_filtered_by_itself():
    pictures = np.random.default_rng(1).integers(0, 256, (2, 3, 24, 24)).astype(np.uint8)
    out = filtered(pictures, "high-pass")
    assert all((out[b, c] == high_pass(pictures[b, c])).all() for b in range(2) for c in range(3))
    assert filtered(pictures, "none") is pictures
    assert (filtered_picture(pictures[0].transpose(1, 2, 0), "high-pass") == out[0].transpose(1, 2, 0)).all()


def test_the_network_sees_flat_as_zero_and_the_clip_as_one():
    model = DSAC("dsacc/Catch-v0", **CATCH)
    seen = []
    model.learner.critics.encoders[0].register_forward_hook(lambda _, inputs, __: seen.append(inputs[0]))
    model.learner.q_values(torch.tensor([1, 128, 255], dtype=torch.uint8).reshape(1, 3, 1, 1).expand(1, 3, 84, 84))
    assert seen[0][0, :, 0, 0].tolist() == [-1.0, 0.0, 1.0]


def test_what_is_stored_acted_on_and_predicted_from_is_the_filtered_picture():
    model = DSAC("dsacc/Catch-v0", **CATCH)
    model.learn(30)
    raw = model.env.reset(seed=3)[0]
    expected = filtered(raw.transpose(2, 0, 1)[None], "high-pass")
    assert (model.observations.encode(raw) == expected).all()
    batch = model.prepare().replay.sample(16, np.random.default_rng(0))
    assert {high_pass(np.zeros((84, 84), np.uint8))[0, 0]} <= set(batch.observation[:, :, 40, 0].ravel().tolist())


@atari
def test_a_stack_of_filtered_frames_is_stored_one_frame_per_step():
    model = DSAC("Breakout", **{**CATCH, "random_steps": 20})
    model.learn(40)
    assert model.prepare().replay.nbytes == model.replay_bytes(200)


def test_a_saved_agent_keeps_its_filter(tmp_path):
    model = DSAC("dsacc/Catch-v0", **CATCH)
    model.save(tmp_path / "agent")
    again, raw = DSAC.load(tmp_path / "agent"), model.env.reset(seed=0)[0]
    assert again.observations.picture_filter == "high-pass"
    assert (again.logits(raw) == model.logits(raw)).all()


def test_the_same_weights_behind_another_filter_are_another_agent(tmp_path):
    plain, behind = (DSAC("dsacc/Catch-v0", **{**CATCH, "picture_filter": f}) for f in ("none", "high-pass"))
    for model in (plain, behind):
        evaluate(model, shifts=["id"], episodes=1, out=tmp_path)
    assert len(list((tmp_path / "evaluations").glob("*.json"))) == 2


def test_vectors_pass_and_an_unknown_filter_is_refused():
    cart = Observations(gym.make("CartPole-v1").observation_space, "high-pass")
    assert cart.encode(np.ones(4, np.float32)).tolist() == [[1, 1, 1, 1]]
    with pytest.raises(ConfigError, match="picture_filter is one of none, high-pass, detail, not 'low-pass'"):
        DSAC("dsacc/Catch-v0", picture_filter="low-pass")
