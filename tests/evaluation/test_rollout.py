"""Evaluation: seeds fix every game, and how many run at once changes nothing."""

import numpy as np
import pytest
from probes import ActionMatters

from dsacc import DSAC, evaluate
from dsacc.errors import ConfigError
from dsacc.evaluation import rollout

TINY = {"random_steps": 20, "hidden": 16, "batch_size": 8}


@pytest.fixture(scope="module")
def model():
    return DSAC("CartPole-v1", **TINY).learn(200)


@pytest.mark.parametrize("policy", ["greedy", "sampled"])
def test_how_many_games_run_at_once_changes_no_result(model, policy, monkeypatch):
    many = evaluate(model, episodes=20, policy=policy)
    assert evaluate(model, episodes=20, policy=policy) == many
    few = evaluate(model, episodes=5, policy=policy)
    assert few[0]["returns"] == many[0]["returns"][:5]


def test_another_seed_plays_other_games(model):
    assert evaluate(model, episodes=5)[0]["returns"] != evaluate(model, episodes=5, seed=1)[0]["returns"]


def test_evaluation_does_not_disturb_training():
    straight = DSAC("CartPole-v1", **TINY).learn(200)
    disturbed = DSAC("CartPole-v1", **TINY).learn(100)
    evaluate(disturbed, episodes=3, policy="sampled")
    disturbed.learn(100)
    assert straight.learner.state()["actor.head.weight"].equal(disturbed.learner.state()["actor.head.weight"])


def test_scores_are_raw_and_lengths_are_steps(model):
    (row,) = evaluate(model, episodes=3)
    assert row["returns"] == [float(n) for n in row["lengths"]]  # CartPole pays 1 a step
    assert (row["env"], row["agent"], row["shift"], row["severity"]) == ("CartPole-v1", "dsac", "id", None)


def test_an_endless_game_is_cut(monkeypatch):
    from probes import ForeverOne

    class Endless(ForeverOne):
        def step(self, action):
            observation, reward, _, _, info = super().step(action)
            return observation, reward, False, False, info

    monkeypatch.setattr(rollout, "MAX_STEPS", 50)
    model = DSAC(Endless(), **TINY)
    assert evaluate(model, Endless, episodes=2)[0]["lengths"] == [50, 50]


def test_a_factory_makes_the_environment():
    model = DSAC(ActionMatters(), **TINY).learn(50)
    told = []
    (row,) = evaluate(model, ActionMatters, episodes=4, tick=told.append)
    assert set(row["returns"]) <= {0.0, 1.0}
    assert told == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"episodes": 0}, "episodes must be at least 1"),
        ({"policy": "best"}, "policy is 'greedy' or 'sampled'"),
        ({"shifts": ["id", "hail"]}, "unknown shift 'hail'"),
    ],
)
def test_what_cannot_be_played_is_refused(model, settings, message):
    with pytest.raises(ConfigError, match=message):
        evaluate(model, **settings)


def test_sampled_play_is_not_greedy_play(model):
    greedy, sampled = (evaluate(model, episodes=10, policy=p)[0]["returns"] for p in ("greedy", "sampled"))
    assert not np.array_equal(greedy, sampled)
