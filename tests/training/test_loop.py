"""The loop: several environments, lost lives, memory; on the real emulator where it matters."""

import json
import os
import signal

import gymnasium as gym
import numpy as np
import pytest
import torch
from probes import Lives

from dsacc import DSAC, evaluate, make_env
from dsacc.cli import main
from dsacc.envs import frame_stack
from dsacc.errors import ConfigError, DsaccError, EnvError
from dsacc.system.threads import using_threads

TINY = {"random_steps": 40, "hidden": 16, "batch_size": 8, "log_every": 50, "replay_size": 500}


def test_a_lost_life_ends_the_bootstrap_and_not_the_episode():
    counts = {}
    for setting in (False, True):
        model = DSAC(Lives(), **TINY, n_step=1, lost_life_ends=setting).learn(200)
        replay = model._trainer.replay
        counts[setting] = int((replay.after[:200] == 1).sum())
        assert model._trainer.episodes == 20
    assert counts == {False: 20, True: 40}


@pytest.mark.parametrize("envs", [1, 3, 8])
def test_as_many_updates_a_step_however_many_environments(envs):
    model = DSAC("CartPole-v1", **TINY, envs=envs, train_every=2, n_step=1).learn(201)
    trainer = model._trainer
    assert trainer.step == 201
    # The first step past the random ones that is a multiple of two, to the last; collected in groups of `envs`.
    groups = range(envs, 201 + envs, envs)
    first = next(g for g in groups if g > 40)
    expected = 201 // 2 - (first - envs) // 2
    assert trainer.updates == expected
    assert trainer.replay.written_E.sum() >= 201
    assert all(trainer.replay.written_E > 0)


def test_several_environments_get_seeds_of_their_own_and_repeat():
    def first_looks(seed):
        return np.stack(DSAC("CartPole-v1", envs=3, seed=seed, **TINY).prepare().seen_E)

    assert len(np.unique(first_looks(0), axis=0)) == 3
    assert np.array_equal(first_looks(0), first_looks(0))
    runs = [DSAC("CartPole-v1", envs=3, constraint="mean", **TINY).learn(150) for _ in range(2)]
    a, b = (m.learner.state() for m in runs)
    assert all(np.array_equal(a[k], b[k]) for k in a)


def test_an_environment_object_is_copied_if_gymnasium_knows_how():
    assert len(DSAC(gym.make("CartPole-v1"), envs=4, **TINY).envs) == 4
    assert len(DSAC(Lives, envs=2, **TINY).envs) == 2
    with pytest.raises(EnvError, match="need a name or a function"):
        DSAC(Lives(), envs=2, **TINY)


def test_rows_come_once_for_each_stretch_of_log_every_steps():
    rows = []
    DSAC("CartPole-v1", envs=7, **TINY).learn(200, callback=rows.append)
    assert [r["step"] for r in rows] == [56, 105, 154, 200]


def test_atari_stores_one_picture_a_step_and_says_what_it_needs():
    model = DSAC("Breakout", constraint="mean", **TINY)
    assert frame_stack(model.env) == 4
    assert model.replay_bytes(10**9) == 500 * (84 * 84 + 18)
    model.learn(60)
    replay = model._trainer.replay
    assert replay.nbytes == model.replay_bytes(500)
    t = replay.sample(4, np.random.default_rng(0))
    assert t.observation.shape == (4, 4, 84, 84)


def test_gymnasiums_own_frame_stack_is_stored_once_as_well():
    stacked = gym.wrappers.FrameStackObservation(gym.make("dsacc/Catch-v0"), 3)
    assert frame_stack(stacked) == 3
    DSAC(stacked, **TINY).learn(80)
    assert frame_stack(gym.wrappers.FrameStackObservation(gym.make("dsacc/Catch-v0"), 3, padding_type="zero")) == 1
    assert frame_stack(gym.wrappers.FrameStackObservation(gym.make("CartPole-v1"), 3)) == 1
    assert frame_stack(gym.make("CartPole-v1")) == 1
    stacked_again = gym.wrappers.FrameStackObservation(make_env("Breakout"), 2)
    assert frame_stack(gym.wrappers.TimeLimit(stacked_again, 100)) == 1


@pytest.mark.parametrize("constraint", [None, "mean"])
def test_compressed_and_plain_replay_give_the_same_agent(constraint):
    states = []
    for compression in ("none", "lz4"):
        settings = TINY | {"replay_compression": compression, "replay_size": 60, "hidden": 32}
        states.append(DSAC("Breakout", constraint=constraint, **settings).learn(90).learner.state())
    assert all(np.array_equal(states[0][k], states[1][k]) for k in states[0])


def test_a_replay_that_cannot_fit_is_refused_at_once_with_what_would(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr("dsacc.dsac.free_memory", lambda: 3_000_000_000)
    with pytest.raises(
        ConfigError, match=r"needs 7.07 GB, and 3.00 GB are free; what would do: replay_size 381,\d+ or"
    ):
        DSAC("Breakout", preset="paper").learn(1_000_000)
    monkeypatch.chdir(tmp_path)
    assert main(["train", "Breakout", "--preset", "paper", "--steps", "1000000"]) == 2
    assert "replay_compression lz4" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
    # Fewer steps need less, and fit.
    DSAC("Breakout", preset="paper").prepare(100_000)


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


def test_numbers_too_small_to_matter_are_zero_while_it_learns():
    """Arithmetic with denormal numbers is many times slower; Adam's fading moments are full of them."""
    tiny = torch.full((4,), 1e-40)
    if not torch.set_flush_denormal(True):
        pytest.skip("this processor cannot flush denormal numbers")
    torch.set_flush_denormal(False)
    with using_threads(1):
        assert (tiny * 0.5 == 0).all()
    assert (tiny * 0.5 > 0).all()
