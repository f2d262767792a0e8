"""Callbacks: what they are given, how they stop a run, and what is refused before it begins. Lines of episodes."""

import json

import pytest
from robustness.crash import fingerprint

from dsacc import DSAC
from dsacc.errors import ConfigError
from dsacc.training.listeners import EpisodeLines

TINY = {"random_steps": 20, "hidden": 16, "batch_size": 8, "log_every": 50, "checkpoint_every": 60}


def cartpole() -> DSAC:
    return DSAC("CartPole-v1", **TINY)


def test_a_callback_that_returns_false_stops_the_run_and_it_goes_on_to_the_same_end(tmp_path):
    cartpole().learn(130, out=tmp_path / "whole")
    stopped = cartpole().learn(130, out=tmp_path / "stopped", callback=lambda row: row["step"] < 100)
    assert stopped.step == 100
    status = json.loads((tmp_path / "stopped" / "status.json").read_text())
    assert (status["state"], status["step"]) == ("stopped", 100)
    assert DSAC.load(tmp_path / "stopped").step == 100
    assert cartpole().learn(130, out=tmp_path / "stopped").step == 130
    assert json.loads((tmp_path / "stopped" / "status.json").read_text())["state"] == "finished"
    assert fingerprint(tmp_path / "stopped") == fingerprint(tmp_path / "whole")


def test_a_function_of_every_stops_too_and_again_when_the_run_is_called_again(tmp_path):
    calls = []

    def until_80(model):
        calls.append(model.step)
        return model.step < 80

    for _ in range(2):
        assert cartpole().learn(200, out=tmp_path / "run", every={40: until_80}).step == 80
    assert calls == [40, 80, 80]


def test_only_false_stops():
    rows = []
    assert cartpole().learn(150, callback=[rows.append, lambda row: 0, lambda row: ""]).step == 150
    assert [row["step"] for row in rows] == [50, 100, 150]


def test_all_callbacks_are_called_at_the_step_where_one_stops():
    seen = []
    model = cartpole().learn(
        150, [lambda row: False, seen.append], every={50: [lambda m: False, lambda m: seen.append(m.step)]}
    )
    assert model.step == 50
    assert [one if isinstance(one, int) else one["step"] for one in seen] == [50, 50]


def test_a_run_without_a_folder_goes_on_after_a_stop():
    model = cartpole().learn(200, callback=lambda row: False)
    assert model.step == 50
    assert model.learn(150).step == 200


@pytest.mark.parametrize(
    ("callback", "said"),
    [
        (lambda locals_, globals_: True, "must take one value, a row of metrics .*two: locals and globals"),
        (3, "a callback is a function of a row of metrics, not 3"),
    ],
)
def test_what_cannot_be_a_callback_is_refused_before_anything_is_written(callback, said, tmp_path):
    with pytest.raises(ConfigError, match=said):
        cartpole().learn(60, callback, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_callbacks_of_stable_baselines3_are_answered_with_ours():
    theirs = pytest.importorskip("stable_baselines3.common.callbacks")
    with pytest.raises(ConfigError, match=r"CheckpointCallback is a callback of Stable-Baselines3 .*learn has out="):
        cartpole().learn(60, callback=theirs.CheckpointCallback(save_freq=10, save_path="."))
    with pytest.raises(ConfigError, match=r"StopTrainingOnMaxEpisodes .*learn has callback=lambda row"):
        cartpole().learn(60, callback=[theirs.StopTrainingOnMaxEpisodes(3)])

    class Mine(theirs.BaseCallback):
        def _on_step(self):
            return True

    with pytest.raises(ConfigError, match=r"Mine is a callback of .*; here a callback is a function of a row"):
        cartpole().learn(60, callback=Mine())


# --- lines of episodes ---


def episode(step, score, length):
    return {"step": step, "return": score, "length": length}


def test_a_line_has_the_mean_of_the_episodes_since_the_last_one(capsys):
    told = EpisodeLines(2)
    told([episode(10, 1.0, 10)])
    assert capsys.readouterr().out == ""
    told([episode(1_030, 4.0, 20), episode(1_060, 7.0, 30)])
    assert capsys.readouterr().out == "step 1,030: 2 episodes, return 2.50, length 15.0\n"
    told([episode(1_090, 9.0, None)])  # begun before a checkpoint of an older version, which kept no length
    assert capsys.readouterr().out == "step 1,090: 4 episodes, return 8.00, length 30.0\n"
    told([episode(1_100, 2.0, None), episode(1_110, 3.0, None)])
    assert capsys.readouterr().out == "step 1,110: 6 episodes, return 2.50\n"


def test_without_an_interval_nothing_is_printed(capsys):
    EpisodeLines(None)([episode(10, 1.0, 10)] * 20)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("interval", [True, False, 0, -1, 1.5, "4"])
def test_an_interval_is_a_whole_number_of_episodes(interval):
    with pytest.raises(ConfigError, match="log_interval must be a whole number of at least 1 episode"):
        EpisodeLines(interval)
    EpisodeLines(1)
