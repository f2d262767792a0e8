"""Ready callbacks: test scores on the way, the best agent kept, a run stopped that no longer gains."""

import pytest

from dsacc import DSAC
from dsacc.errors import ConfigError
from dsacc.play import KeepBest, MeanScore, StopWithoutGain, evaluate
from dsacc.play.callbacks import mean_scores

TINY = {"random_steps": 15, "hidden": 16, "batch_size": 8, "log_every": 50, "checkpoint_every": 100}


def cartpole(seed=0) -> DSAC:
    return DSAC("CartPole-v1", seed=seed, **TINY)


class Scripted(MeanScore):
    """Gives one score after the other instead of playing."""

    def __init__(self, *scores):
        super().__init__()
        self.rest = list(scores)

    def measure(self, model):
        return self.rest.pop(0)


def test_the_score_is_that_of_evaluate_and_is_played_once_a_step():
    score, model, found = MeanScore(episodes=3), cartpole(), []
    model.learn(20, every={10: [lambda m: found.append(score(m)), score]})
    assert list(score.scores) == [10, 20]
    assert found[-1] == sum(evaluate(model, episodes=3)[0]["returns"]) / 3 == score.scores[20]


def test_the_best_agent_is_kept(tmp_path):
    cartpole().learn(40, every={10: KeepBest(tmp_path / "best", Scripted(1.0, 5.0, 5.0, 4.0))})
    assert DSAC.load(tmp_path / "best").step == 20


def test_a_run_stops_after_so_many_tests_without_gain(capsys):
    score = Scripted(1.0, 5.0, 4.0, 5.0, 3.0, 9.0)
    model = cartpole().learn(60, every={10: StopWithoutGain(patience=3, score=score)})
    assert model.step == 50
    said = capsys.readouterr().err
    assert said == "stopped at step 50: 3 tests without a better score than 5 of step 20\n"


def test_a_small_gain_does_not_count_where_more_is_asked_for():
    score = Scripted(1.0, 1.5, 2.5, 2.6, 2.7)
    assert cartpole().learn(50, every={10: StopWithoutGain(2, score, least=0.2)}).step == 50
    score = Scripted(1.0, 1.1, 1.2, 1.3)
    assert cartpole().learn(50, every={10: StopWithoutGain(2, score, least=0.5)}).step == 30


def test_tests_before_the_start_are_not_counted():
    assert cartpole().learn(50, every={10: StopWithoutGain(2, Scripted(9, 1, 2, 1, 1), after=20)}).step == 50


def test_patience_is_at_least_one_test():
    with pytest.raises(ConfigError, match="patience must be a whole number of at least 1"):
        StopWithoutGain(0)


def test_a_continued_run_knows_the_scores_from_before(tmp_path):
    out = tmp_path / "run"
    asked = {"episodes": 2, "out": out}
    whole = MeanScore(**asked)
    cartpole().learn(80, out=out, every={20: whole}, callback=lambda row: row["step"] < 50)
    again = MeanScore(**asked)
    model = cartpole().learn(80, out=out, every={20: again})
    assert again.before(model) == {step: whole.scores[step] for step in (20, 40)} | {60: again.scores[60]}


def test_one_score_for_two_models_keeps_them_apart():
    score, (one, other) = Scripted(1.0, 2.0), (cartpole(0), cartpole(1))
    for model in (one, other):
        model.learn(10, every={10: score})
    assert score(other) == 2.0
    assert score.before(other) == {}


def test_the_names_in_tensorboard_say_condition_and_policy():
    rows = [
        {"shift": "id", "severity": None, "policy": "greedy", "returns": [1, 3]},
        {"shift": "snow", "severity": "paper", "policy": "sampled", "returns": [4]},
        {"shift": "fog", "severity": 3, "policy": "greedy", "returns": [0.5]},
    ]
    assert mean_scores(rows) == {"test/id/greedy": 2.0, "test/snow/sampled": 4.0, "test/fog-3/greedy": 0.5}


def test_test_scores_are_in_tensorboard(tmp_path):
    pytest.importorskip("tensorboardX")
    cartpole().learn(60, out=tmp_path / "run", tensorboard=True, every={60: MeanScore(episodes=1)})
    (events,) = (tmp_path / "run" / "tensorboard").iterdir()
    assert events.read_bytes().count(b"test/id/greedy") == 1
