"""What an evaluation says and keeps beside scores: progress, failures, what an agent met before, rows to use again."""

import gymnasium as gym
import numpy as np
import pytest
from probes import Pays

from dsacc import DSAC, evaluate
from dsacc.errors import EnvFailed
from dsacc.play.adapters import OwnPlayer
from dsacc.play.store import NotKept, RowStore

TINY = {"random_steps": 20, "hidden": 16, "batch_size": 4}


def still(observations):
    return np.zeros(len(observations), int)


def test_progress_is_shown_in_episodes_and_only_where_it_is_asked_for(capsys):
    evaluate(still, "CartPole-v1", episodes=4)
    assert capsys.readouterr() == ("", "")
    evaluate(still, "CartPole-v1", episodes=4, progress_bar=True)
    out, said = capsys.readouterr()
    assert out == ""
    assert [line.split()[:2] for line in said.splitlines()] == [["episode", f"{i}/4"] for i in (1, 2, 3, 4)]
    assert "episodes/s" in said


class Unplugged(Pays):
    fails_at = 3


def test_the_step_at_which_an_environment_fails_is_said():
    with pytest.raises(EnvFailed, match=r"^step 3 of Unplugged failed: .*the plug was pulled"):
        evaluate(still, Unplugged, episodes=1)


def test_a_row_says_what_a_hardened_agent_met_of_its_shift_and_nothing_of_the_clean_game():
    player = OwnPlayer(DSAC("dsacc/Catch-v0", encoder="small", **TINY))
    asked = {"shifts": ["id", "fog", "snow"], "episodes": 1}
    assert not any("exposure" in row for row in evaluate(player, **asked))
    player.augmented = ("fog",)
    assert [row.get("exposure") for row in evaluate(player, **asked)] == [None, "trained on", "unseen"]


def test_rows_are_used_again_only_where_it_is_known_what_was_played(tmp_path):
    model = DSAC("CartPole-v1", **TINY)

    def played(env, out):
        ticks = []
        evaluate(model, env, episodes=2, out=tmp_path / out, tick=lambda *told: ticks.append(told))
        return len(ticks)

    def short():
        return gym.wrappers.TimeLimit(gym.make("CartPole-v1"), 5)

    assert [played("CartPole-v1", "named") for _ in range(2)] == [2, 0]
    assert [played(short, "wrapped") for _ in range(2)] == [2, 2]


def test_scores_that_cannot_be_kept_are_given_with_the_error(tmp_path, monkeypatch):
    def full(self, row):
        raise NotKept("the disk is full")

    monkeypatch.setattr(RowStore, "save", full)
    with pytest.raises(NotKept, match="the disk is full") as caught:
        evaluate(still, "CartPole-v1", episodes=2, out=tmp_path)
    assert [len(row["returns"]) for row in caught.value.rows] == [2]
