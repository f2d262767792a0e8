"""Test games during training: at the right steps, and without any effect on the run."""

import os
import signal

import pytest
from robustness.crash import fingerprint

from dsacc import DSAC, evaluate
from dsacc.cli import main
from dsacc.errors import ConfigError, Stopped
from dsacc.play.store import read_rows

TINY = {"random_steps": 30, "hidden": 16, "batch_size": 8, "log_every": 50, "checkpoint_every": 100}


def watching(out):
    def test(model):
        evaluate(model, episodes=2, policy=["greedy", "sampled"], out=out)

    return test


def run(out, steps, every, **settings):
    return DSAC("CartPole-v1", "mean", **TINY, **settings).learn(steps, out=out, every=every)


def steps_of(out):
    return sorted({row.step for row in read_rows(out / "evaluations")})


def test_a_tested_run_ends_with_the_same_bytes_as_an_untested_one(tmp_path):
    plain, watched = tmp_path / "plain", tmp_path / "watched"
    run(plain, 300, None)
    run(watched, 300, {80: watching(watched)})
    assert steps_of(watched) == [80, 160, 240]
    kept = {name: found for name, found in fingerprint(watched).items() if not name.startswith("evaluations")}
    assert fingerprint(plain) == kept


def test_a_stopped_run_tests_what_it_would_have_tested(tmp_path):
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    run(whole, 300, {60: watching(whole)})

    def test_and_stop(model):
        watching(stopped)(model)
        if model.step == 120:
            os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(Stopped):
        run(stopped, 300, {60: test_and_stop})
    called = []
    run(stopped, 300, {60: lambda model: (called.append(model.step), watching(stopped)(model))})
    assert called == [120, 180, 240, 300]  # once more at 120, where it might have been interrupted
    assert read_rows(stopped / "evaluations") == read_rows(whole / "evaluations")
    assert fingerprint(stopped) == fingerprint(whole)


def test_several_environments_are_tested_when_they_pass_the_step(tmp_path):
    run(tmp_path / "run", 200, {50: watching(tmp_path / "run")}, envs=3)
    assert steps_of(tmp_path / "run") == [51, 102, 150, 200]


def test_on_the_command_line(tmp_path, capsys):
    out = tmp_path / "run"
    command = ["train", "CartPole-v1", "--steps", "200", "--out", str(out), "--random-steps", "50", "--hidden", "16"]
    assert main([*command, "--evaluate-every", "100", "--evaluate-episodes", "3"]) == 0
    assert steps_of(out) == [100, 200]
    assert "step 100: id, greedy: " in capsys.readouterr().err


@pytest.mark.parametrize("every", [0, -5, 1.5, True])
def test_a_wrong_interval_is_refused_before_anything_is_written(tmp_path, every):
    with pytest.raises(ConfigError, match="whole number of at least 1"):
        run(tmp_path / "run", 100, {every: print})
    assert not (tmp_path / "run").exists()
