"""What is printed while an agent learns, if asked for."""

import pytest

from dsacc.errors import ConfigError
from dsacc.training.listeners import EpisodeLines


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
