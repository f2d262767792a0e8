"""Evaluation: seeds fix every game, and how many run at once changes nothing."""

import dataclasses
import json

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from helpers.extras import atari
from probes import ActionMatters, ForeverOne, MaskedChain

from dsacc import DSAC, evaluate
from dsacc.errors import ConfigError, ModelError, Untrusted
from dsacc.play import rollout
from dsacc.play.adapters import Player

TINY = {"random_steps": 20, "hidden": 16, "batch_size": 8}


@pytest.fixture(scope="module")
def model():
    return DSAC("CartPole-v1", **TINY).learn(200)


CATCH = {"random_steps": 20, "hidden": 16, "batch_size": 4, "encoder": "small"}


@pytest.fixture(scope="module")
def catcher():
    return DSAC("dsacc/Catch-v0", **CATCH).learn(60)


@pytest.mark.parametrize("policy", ["greedy", "sampled"])
def test_how_many_episodes_are_asked_for_changes_none_of_them(model, policy):
    (many,) = evaluate(model, episodes=20, policy=policy)
    assert evaluate(model, episodes=20, policy=policy) == [many]
    (few,) = evaluate(model, episodes=5, policy=policy)
    assert (few["returns"], few["lengths"]) == (many["returns"][:5], many["lengths"][:5])


@pytest.mark.parametrize("batch", [1, 3, 20])
@pytest.mark.parametrize("policy", ["greedy", "sampled"])
def test_how_many_games_are_played_at_once_changes_no_row(model, catcher, policy, batch, monkeypatch):
    """17 episodes, so that some wait for a place and some places stay empty. Vectors, and pictures in their weather."""
    wanted = evaluate(model, episodes=17, policy=policy)
    in_snow = evaluate(catcher, shifts=["id", "snow"], episodes=5, policy=policy)
    assert rollout.BATCH == 16
    monkeypatch.setattr(rollout, "BATCH", batch)
    sizes = set()

    def act(observations):
        sizes.add(len(observations))
        return np.zeros(len(observations), int)

    evaluate(act, "CartPole-v1", episodes=17)
    assert sizes == {batch}
    assert evaluate(model, episodes=17, policy=policy) == wanted
    assert evaluate(catcher, shifts=["id", "snow"], episodes=5, policy=policy) == in_snow


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
    assert row["returns"] == [float(n) for n in row["lengths"]]  # CartPole pays 1 per step
    assert (row["env"], row["agent"], row["shift"], row["severity"]) == ("CartPole-v1", "dsac", "id", None)


def test_the_share_of_the_most_frequent_action_is_known_per_episode():
    def turning(observations):  # left twice in three steps, right once
        turning.steps += 1
        return np.full(len(observations), turning.steps % 3 == 0, dtype=np.int64)

    turning.steps = 0
    (row,) = evaluate(turning, "CartPole-v1", episodes=1)
    length = row["lengths"][0]
    assert length > 3
    assert row["top_action"] == [round((length - length // 3) / length, 4)]
    (row,) = evaluate(lambda observations: np.ones(len(observations), dtype=np.int64), "CartPole-v1", episodes=3)
    assert row["top_action"] == [1.0] * 3


def test_an_endless_game_is_cut(monkeypatch):
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
    (row,) = evaluate(model, ActionMatters, episodes=4, tick=lambda ended, steps: told.append((ended, steps)))
    assert set(row["returns"]) <= {0.0, 1.0}
    assert told == [(1, 4), (2, 4), (3, 4), (4, 4)]  # four games of one step, played at once


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"episodes": 0}, "episodes must be at least 1"),
        ({"seed": -1}, "seed must be at least 0, not -1"),
        ({"policy": "best"}, "policy is 'greedy' or 'sampled'"),
        ({"shifts": ["id", "hail"]}, "unknown shift 'hail'"),
        ({"shifts": ["snow"]}, "'snow' makes no sense for vectors"),
        ({"shifts": ["bias"], "severity": 6}, "severity is 'paper' or 1 to 5, not 6"),
        ({"mode": "sideways"}, "mode is one of independent, frozen, falling"),
    ],
)
def test_what_cannot_be_played_is_refused(model, settings, message):
    with pytest.raises(ConfigError, match=message):
        evaluate(model, **settings)


def test_sampled_play_is_not_greedy_play(model):
    greedy, sampled = (evaluate(model, episodes=10, policy=p)[0]["returns"] for p in ("greedy", "sampled"))
    assert not np.array_equal(greedy, sampled)


def test_pictures_meet_the_papers_four_conditions_by_default(catcher):
    rows = evaluate(catcher, episodes=2)
    assert [row["shift"] for row in rows] == ["id", "snow", "rain", "fog"]
    assert [(row["severity"], row["mode"]) for row in rows] == [(None, None)] + [("paper", "independent")] * 3


@pytest.mark.parametrize("policy", ["greedy", "sampled"])
def test_conditions_played_together_and_apart_give_the_same(catcher, policy):
    together = evaluate(catcher, shifts=["fog", "id", "snow"], episodes=20, policy=policy)
    for row in together:
        apart = evaluate(catcher, shifts=[row["shift"]], episodes=20, policy=policy)
        assert apart == [row]


def test_both_policies_in_one_call_equal_two_calls(catcher):
    rows = evaluate(catcher, shifts=["id"], episodes=5, policy=["greedy", "sampled"])
    assert rows == [evaluate(catcher, shifts=["id"], episodes=5, policy=p)[0] for p in ("greedy", "sampled")]


class Scenery(gym.Env):
    """A grey picture whatever is done: only weather is seen. Action 0 makes a game of 9 steps, action 1 one of 14."""

    def __init__(self):
        self.observation_space = spaces.Box(0, 255, (84, 84, 3), np.uint8)
        self.action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.age = 0
        return np.full((84, 84, 3), 100, np.uint8), {}

    def step(self, action):
        self.age += 1
        return np.full((84, 84, 3), 100, np.uint8), 1.0, self.age == (9, 14)[action], False, {}


def weather_met(action, **settings):
    """[episode, frame, ...]: what an agent that always takes this action sees in each of 20 episodes, frame by frame.

    16 games run at once. They end together, and then the other 4 begin.
    """
    seen = []

    def act(observations):
        seen.append(observations.copy())
        return np.full(len(observations), action)

    (row,) = evaluate(act, Scenery, episodes=20, **settings)
    (length,) = set(row["lengths"])
    assert len(seen) == 2 * length
    waves = np.stack(seen).reshape(2, length, *seen[0].shape).swapaxes(1, 2)
    return np.concatenate([waves[0], waves[1, :4]])


@pytest.mark.parametrize("mode", ["independent", "frozen", "falling"])
@pytest.mark.parametrize("shift", ["snow", "rain", "fog"])
def test_every_agent_meets_the_same_weather_in_every_frame_as_long_as_both_play(shift, mode):
    short, long = (weather_met(action, shifts=[shift], mode=mode) for action in (0, 1))
    assert (short.shape[:2], long.shape[:2]) == ((20, 9), (20, 14))
    assert np.array_equal(short, long[:, :9])


@pytest.mark.parametrize("shift", ["snow", "rain", "fog"])
def test_every_episode_and_every_seed_has_weather_of_its_own(shift):
    one, other = (weather_met(0, shifts=[shift], seed=seed) for seed in (0, 1))
    films = [film.tobytes() for film in (*one, *other)]
    assert len(set(films)) == 40
    frames = [{frame.tobytes() for film in films for frame in film} for films in (one, other)]
    assert not frames[0] & frames[1]  # another seed has other weather, and not the same in another order


def test_every_agent_meets_the_same_games():
    """The ball of Catch falls the same way for a paddle that goes left and one that goes right."""

    def films(action):
        seen = []

        def act(observations):
            seen.append(observations[:4].copy())
            return np.full(len(observations), action)

        evaluate(act, "dsacc/Catch-v0", shifts=["id"], episodes=4)
        return np.stack(seen)

    left, right = films(0), films(2)
    paddle = 72  # the bottom row of cells begins here
    shared = min(len(left), len(right))
    assert shared > 5
    assert np.array_equal(left[:shared, :, :paddle], right[:shared, :, :paddle])
    assert not np.array_equal(left[2, :, paddle:], right[2, :, paddle:])


def test_the_batch_is_always_the_same_size():
    sizes = set()

    def play(observations):
        sizes.add(len(observations))
        return np.zeros(len(observations), int)

    for episodes in (1, 5, 40):
        evaluate(play, "CartPole-v1", episodes=episodes)
    assert sizes == {rollout.BATCH}


@pytest.mark.parametrize("fails_at", [None, 1, 3])
def test_every_environment_is_closed_whatever_happens(fails_at):
    made, closed, calls = [], [], []

    class Noted(ActionMatters):
        def __init__(self):
            super().__init__()
            made.append(self)

        def close(self):
            closed.append(self)

    def play(observations):
        calls.append(1)
        if len(calls) == fails_at:
            raise RuntimeError("the policy is broken")
        return np.zeros(len(observations), int)

    if fails_at is None:
        evaluate(play, Noted, episodes=40)
    else:
        with pytest.raises(ModelError, match="the policy is broken"):
            evaluate(play, Noted, episodes=40)
    assert len(made) == rollout.BATCH
    assert {id(env) for env in closed} == {id(env) for env in made}


def test_an_environment_that_does_not_fit_is_closed(model):
    closed = []

    class Noted(ActionMatters):
        def close(self):
            closed.append(self)

    with pytest.raises(ModelError):
        evaluate(model, Noted, episodes=1)
    assert len(closed) == 1


def test_rows_are_plain_dicts_for_the_user(model):
    (row,) = evaluate(model, episodes=1)
    assert type(row) is dict
    assert json.loads(json.dumps(row)) == row


def test_an_agent_for_other_actions_is_refused(catcher):
    with pytest.raises(ModelError, match="action"):
        evaluate(catcher, "CartPole-v1", episodes=1)


@atari
def test_a_game_has_one_name_in_the_rows_however_it_is_called():
    for name in ("breakout", "ALE/Breakout-v5"):
        (row,) = evaluate(lambda x: np.zeros(len(x), int), name, shifts=["id"], episodes=1)
        assert row["env"] == "Breakout"


class Wall(MaskedChain):
    """A masked chain that ends after two steps in a state that allows nothing."""

    def step(self, action):
        seen, reward, _, _, told = super().step(action)
        return seen, reward, self.age == 2, False, told

    def action_masks(self):
        return super().action_masks() if self.age < 2 else np.zeros(3, bool)


def test_no_mask_is_asked_for_after_the_last_step():
    (row,) = evaluate("random", Wall, episodes=4)
    assert row["lengths"] == [2] * 4


def test_a_player_that_takes_no_masks_plays_without_them():
    class Lowest(Player):
        agent = "lowest"

        def check_fits(self, env):
            pass

        def act(self, observations, rngs, greedy):
            return np.zeros(len(observations), int)

    (row,) = evaluate(Lowest(), MaskedChain, episodes=2)  # action 0 is always allowed, and leads to state 0
    assert row["lengths"] == [20] * 2


def test_rows_of_other_arguments_of_an_environment_are_not_taken_for_these(model, tmp_path):
    """CartPole pays 1 per step; with this argument 0, and -1 at the end."""
    (first,) = evaluate(model, "CartPole-v1", episodes=2, out=tmp_path)
    other = gym.make("CartPole-v1", sutton_barto_reward=True)
    assert first["returns"] == [float(n) for n in first["lengths"]]
    with pytest.warns(UserWarning, match="is tested on CartPole-v1 with sutton_barto_reward True"):
        (second,) = evaluate(model, other, episodes=2, out=tmp_path)
    assert (second["returns"], second["lengths"]) == ([-1.0] * 2, first["lengths"])
    assert evaluate(lambda seen: np.zeros(len(seen), int), other, episodes=2)[0]["returns"] == [-1.0] * 2


def test_an_agent_whose_file_names_a_module_is_played_if_it_is_trusted(tmp_path, monkeypatch):
    model = DSAC("CartPole-v1", **TINY)
    model.config = dataclasses.replace(model.config, env="canary_of_play:CartPole-v1")
    model.save(tmp_path / "agent")
    (tmp_path / "canary_of_play.py").write_text("")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Untrusted, match="canary_of_play"):
        evaluate("agent", episodes=1)
    assert evaluate("agent", episodes=1, trust=True)[0]["env"] == "CartPole-v1"
