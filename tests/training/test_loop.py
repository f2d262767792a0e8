"""The loop: lost lives, frame stacks, memory, a stop; on the real emulator where it matters."""

import json
import math
import os
import signal

import gymnasium as gym
import pytest
import torch
from helpers.extras import atari
from probes import Lives

from dsacc import DSAC, evaluate, make_env
from dsacc.cli import main
from dsacc.envs import frame_stack
from dsacc.errors import ConfigError, DsaccError, EnvError
from dsacc.system.threads import using_threads
from dsacc.training.loop import Meter

TINY = {"random_steps": 40, "hidden": 16, "batch_size": 8, "log_every": 50, "replay_size": 500}


@pytest.mark.parametrize(("ends", "ages"), [(False, {9}), (True, {4, 9})])
def test_a_lost_life_ends_the_bootstrap_and_not_the_episode(ends, ages):
    """A game of ten steps shows its age, in tenths, before each. It loses a life at the fifth."""
    model = DSAC(Lives(), **TINY, n_step=1, lost_life_ends=ends)
    seen, rows, update = [], [], model.learner.update

    def watched(batch, *rest):
        ages_B = (batch.observation[:, 0] * 10).round().int()
        seen.extend(zip(ages_B.tolist(), batch.terminated_B.tolist(), strict=True))
        return update(batch, *rest)

    model.learner.update = watched
    model.learn(200, callback=rows.append)
    assert {age for age, _ in seen} == set(range(10))
    assert all(terminated == (age in ages) for age, terminated in seen)
    assert (rows[-1]["episodes"], rows[-1]["return"]) == (20, 10.0)


def test_an_environment_object_is_copied():
    assert len(DSAC(gym.make("CartPole-v1"), envs=4, **TINY).envs) == 4
    assert len(DSAC(Lives, envs=2, **TINY).envs) == 2
    assert len({id(env) for env in DSAC(Lives(), envs=3, **TINY).envs}) == 3

    class Uncopied(Lives):
        def __deepcopy__(self, memo):
            raise TypeError("it holds a socket")

    with pytest.raises(EnvError, match=r"Uncopied cannot be copied.*socket.*give a name or a function"):
        DSAC(Uncopied(), envs=2, **TINY)


@atari
def test_atari_stores_one_picture_per_step_and_says_what_it_needs():
    model = DSAC("Breakout", constraint="mean", **TINY)
    assert frame_stack(model.env) == 4
    assert model.replay_bytes(10**9) == 500 * (84 * 84 + 18)
    shapes, update = set(), model.learner.update

    def watched(batch, *rest):
        shapes.add(tuple(batch.observation.shape))
        return update(batch, *rest)

    model.learner.update = watched
    model.learn(60)
    assert model.prepare().replay.nbytes == model.replay_bytes(500)
    assert shapes == {(8, 4, 84, 84)}


def test_gymnasiums_own_frame_stack_is_stored_once_as_well():
    """A stack of three takes as many bytes as the game alone. Padded with zeros it takes three pictures per step."""

    def stacked(**padding):
        return gym.wrappers.FrameStackObservation(gym.make("dsacc/Catch-v0"), 3, **padding)

    assert (frame_stack(stacked()), frame_stack(stacked(padding_type="zero"))) == (3, 1)
    single, once, thrice = (
        DSAC(env, **TINY).replay_bytes(500) for env in ("dsacc/Catch-v0", stacked(), stacked(padding_type="zero"))
    )
    picture = math.prod(gym.make("dsacc/Catch-v0").observation_space.shape)
    assert once == single
    assert thrice == single + 500 * 2 * picture
    assert frame_stack(gym.wrappers.FrameStackObservation(gym.make("CartPole-v1"), 3)) == 1
    assert frame_stack(gym.make("CartPole-v1")) == 1


@atari
def test_a_stack_of_stacks_is_stored_whole():
    stacked_again = gym.wrappers.FrameStackObservation(make_env("Breakout"), 2)
    assert frame_stack(gym.wrappers.TimeLimit(stacked_again, 100)) == 1


def test_a_stack_that_is_stored_once_teaches_what_whole_stacks_teach():
    states = []
    for stored_once in (True, False):
        env = gym.wrappers.FrameStackObservation(gym.make("dsacc/Catch-v0"), 3)
        if not stored_once:  # nobody can tell that this is a stack
            env = gym.wrappers.TransformObservation(env, lambda x: x, env.observation_space)
        assert frame_stack(env) == (3 if stored_once else 1)
        states.append(DSAC(env, **TINY).learn(80).learner.state())
    assert all(states[0][name].equal(states[1][name]) for name in states[0])


@pytest.mark.parametrize("constraint", [None, "mean"])
@pytest.mark.parametrize("env", ["dsacc/Catch-v0", pytest.param("Breakout", marks=atari)])
def test_compressed_and_plain_replay_give_the_same_agent(env, constraint):
    states = []
    for compression in ("none", "lz4"):
        settings = TINY | {"replay_compression": compression, "replay_size": 60, "hidden": 32}
        states.append(DSAC(env, constraint=constraint, **settings).learn(90).learner.state())
    assert all(states[0][name].equal(states[1][name]) for name in states[0])


@atari
def test_a_replay_that_cannot_fit_is_refused_at_once_with_what_would(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr("dsacc.dsac.free_memory", lambda: 3_000_000_000)
    with pytest.raises(ConfigError, match=r"needs 7.07 GB, and only 3.00 GB are free; use replay_size 381,\d+ or"):
        DSAC("Breakout", preset="paper").learn(1_000_000)
    monkeypatch.chdir(tmp_path)
    assert main(["train", "Breakout", "--preset", "paper", "--steps", "1000000"]) == 2
    assert "replay_compression lz4" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
    # Fewer steps need less memory, and it is there.
    DSAC("Breakout", preset="paper").prepare(100_000)


@atari
def test_train_breakout_from_the_command_line(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    out = tmp_path / "run"
    tiny = "--steps 120 --random-steps 60 --batch-size 8 --hidden 16 --log-every 40 --envs 2 --replay-size 1000"
    assert main(["train", "Breakout", *tiny.split(), "--out", str(out)]) == 0
    said = capsys.readouterr().err
    assert "dsac-m on Breakout, 120 steps" in said
    assert "replay memory: up to 0.8 MB of" in said
    rows = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    assert [r["step"] for r in rows] == [40, 80, 120]
    timing = json.loads((out / "timing.jsonl").read_text().splitlines()[-1])
    assert timing["resident_mb"] > 50
    config = json.loads((out / "config.json").read_text())["config"]
    assert (config["env"], config["shared_trunk"], config["lost_life_ends"]) == ("Breakout", True, True)
    assert main(["evaluate", str(out), "--episodes", "1", "--policy", "sampled"]) == 0


@atari
def test_an_atari_game_is_tested_for_18000_frames_at_most():
    assert make_env("Breakout").test_steps * 4 == 18_000

    def short():
        env = make_env("Breakout")
        env.test_steps = 7
        return env

    model = DSAC(short, **TINY, encoder="small")
    assert evaluate(model, short, episodes=2)[0]["lengths"] == [7, 7]


def test_a_stop_that_cannot_save_lets_go_of_the_folder(tmp_path):
    out = tmp_path / "run"

    def stop_and_spoil(row):
        (out / "replay").rmdir()
        (out / "replay").write_text("in the way of what is to be saved")
        os.kill(os.getpid(), signal.SIGTERM)

    model = DSAC("CartPole-v1", **TINY)
    with pytest.raises((DsaccError, OSError)):
        model.learn(400, out=out, callback=stop_and_spoil)
    assert not (out / "lock").exists()
    assert json.loads((out / "status.json").read_text())["state"] == "failed"


def test_denormal_numbers_are_zero_while_it_learns():
    """Arithmetic with them is many times slower, and Adam's fading moments are full of them."""
    tiny = torch.full((4,), 1e-40)
    if not torch.set_flush_denormal(True):
        pytest.skip("this processor cannot flush denormal numbers")
    torch.set_flush_denormal(False)
    with using_threads(1):
        assert (tiny * 0.5 == 0).all()
    assert (tiny * 0.5 > 0).all()


def test_a_row_has_the_means_of_the_updates_since_the_last_one():
    meter = Meter()
    for values in ((1.0, 0.5), (2.0, 1.5), (6.0, 1.0)):
        meter.add({"critic_loss": torch.tensor(values[0]), "entropy": torch.tensor(values[1])})
    assert meter.take() == {"critic_loss": 3.0, "entropy": 1.0}
    assert meter.take() == {}
    meter.add({"critic_loss": torch.tensor(5.0)})
    assert meter.take() == {"critic_loss": 5.0}
