"""episodes.jsonl: every episode of a run, in the same bytes however often the run was stopped."""

import itertools
import json
import os
import signal

import gymnasium as gym
import pytest

from dsacc import DSAC
from dsacc.errors import RunError, Stopped

TINY = {"random_steps": 20, "hidden": 16, "batch_size": 8, "log_every": 50, "checkpoint_every": 50}


def episodes(run):
    return [json.loads(line) for line in (run / "episodes.jsonl").read_text().splitlines()]


def train(out, steps=130, **more):
    return DSAC("CartPole-v1", **TINY, **more.pop("settings", {})).learn(steps, out=out, **more)


def killed_at(step, out, **more):
    """Stop like a kill: after the checkpoint of step 50 nothing is saved."""

    def die(model):
        if model.step == step:
            raise MemoryError

    with pytest.raises(MemoryError):
        train(out, every={1: die}, **more)


def test_every_episode_is_there_with_its_step_return_and_length(tmp_path):
    train(tmp_path / "run")
    rows = episodes(tmp_path / "run")
    assert len(rows) == json.loads((tmp_path / "run" / "metrics.jsonl").read_text().splitlines()[-1])["episodes"]
    assert all(row["return"] == row["length"] for row in rows)  # CartPole pays one per step
    ends = [0, *(row["step"] for row in rows)]
    assert [b - a for a, b in itertools.pairwise(ends)] == [row["length"] for row in rows]


def test_with_several_environments_each_counts_its_own_steps(tmp_path):
    def make():
        return gym.wrappers.TimeLimit(gym.make("CartPole-v1"), 6)

    DSAC(make, envs=3, **TINY).learn(60, out=tmp_path / "run")
    assert {row["length"] for row in episodes(tmp_path / "run")} == {6}
    assert [row["step"] for row in episodes(tmp_path / "run")][:4] == [16, 17, 18, 34]


@pytest.mark.parametrize("step", [40, 77, 100])
def test_a_killed_run_has_the_same_episodes(tmp_path, step):
    train(tmp_path / "whole")
    killed_at(step, tmp_path / "killed")
    assert (tmp_path / "killed" / "episodes.jsonl").stat().st_size > 0
    train(tmp_path / "killed")
    whole, killed = ((tmp_path / name / "episodes.jsonl").read_bytes() for name in ("whole", "killed"))
    assert whole == killed


def test_a_stopped_run_has_the_same_episodes(tmp_path):
    train(tmp_path / "whole")

    def stop(model):
        if model.step == 77:
            os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(Stopped):
        train(tmp_path / "stopped", every={77: stop})
    train(tmp_path / "stopped")
    whole, stopped = ((tmp_path / name / "episodes.jsonl").read_bytes() for name in ("whole", "stopped"))
    assert whole == stopped


def old_run(path):
    """A run as dsacc left it before there was a log of episodes."""
    from dsacc.training.loop import Trainer

    state = Trainer.state
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Trainer, "state", lambda self: {k: v for k, v in state(self).items() if k != "lengths"})
        patch.setattr("dsacc.runs.folder.RunFolder._exact_logs", ("metrics.jsonl",))
        patch.setattr("dsacc.training.session.Session.after_step", lambda self, before: _plain(self, before))
        train(path, 60)
    assert not (path / "episodes.jsonl").exists()


def _plain(session, before):
    from dsacc.runs.session import FolderSession

    FolderSession.after_step(session, before)


def test_an_older_run_goes_on_and_its_log_begins_there(tmp_path):
    train(tmp_path / "new")
    old_run(tmp_path / "old")
    assert train(tmp_path / "old", 60).step == 60  # finished: read as it is
    assert not (tmp_path / "old" / "episodes.jsonl").exists()
    assert train(tmp_path / "old", 130).step == 130
    first, *others = episodes(tmp_path / "old")
    assert first["length"] is None  # where the episode in progress began was not kept
    assert others == [row for row in episodes(tmp_path / "new") if row["step"] > first["step"]]


def test_a_log_that_was_cut_is_refused(tmp_path):
    train(tmp_path / "run", 60)
    (tmp_path / "run" / "episodes.jsonl").write_text("")
    with pytest.raises(RunError, match=r"episodes.jsonl is shorter than at its checkpoint"):
        train(tmp_path / "run", 130)
