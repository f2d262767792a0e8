"""The built-in game: its rules, its known scores, and what it looks like."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from dsacc import make_env
from dsacc.envs.catch import BEST_SCORE, CELLS, PADDLE, PIXELS, RANDOM_SCORE, Catch
from dsacc.errors import EnvError


def play(choose, balls: int = 300, seed: int = 0) -> list[float]:
    env, scores = Catch(), []
    rng = np.random.default_rng(seed)
    for ball in range(balls):
        observation, _ = env.reset(seed=seed * 10_000 + ball)
        done, score = False, 0.0
        while not done:
            observation, reward, done, _, _ = env.step(choose(observation, rng))
            score += reward
        scores.append(score)
    return scores


def follow(screen, _):
    """Sees only pixels: moves the paddle's middle under the ball."""
    ball = np.argwhere((screen == (255, 176, 32)).all(-1))[:, 1].mean() // PIXELS
    paddle = np.argwhere((screen == (236, 240, 248)).all(-1))[:, 1].mean() // PIXELS
    return 1 + int(np.sign(ball - paddle))


def test_a_player_that_looks_gets_the_best_score():
    assert np.mean(play(follow)) == BEST_SCORE


def test_a_random_player_gets_the_known_score():
    scores = play(lambda _, rng: rng.integers(3), balls=3000)
    assert np.mean(scores) == pytest.approx(RANDOM_SCORE, abs=4 * np.std(scores) / np.sqrt(3000))
    assert set(scores) == {-1.0, 1.0}


def test_it_follows_gymnasiums_rules():
    check_env(Catch(render_mode="rgb_array"), skip_render_check=False)


def test_an_episode_can_hold_several_balls():
    env = gym.make("dsacc/Catch-v0", balls=3)
    env.reset(seed=0)
    rewards = []
    terminated = False
    while not terminated:
        _, reward, terminated, _, _ = env.step(1)
        rewards.append(reward)
    assert len(rewards) == 3 * (CELLS - 1)
    assert [r != 0 for r in rewards] == ([False] * (CELLS - 2) + [True]) * 3


def test_same_seed_same_game():
    a, b = Catch(), Catch()
    assert np.array_equal(a.reset(seed=3)[0], b.reset(seed=3)[0])


def test_the_screen_shows_ball_and_paddle_where_they_are():
    screen, _ = Catch().reset(seed=0)
    assert screen.shape == (84, 84, 3)
    white = np.argwhere((screen == (236, 240, 248)).all(-1))[:, 1]
    assert white.max() - white.min() + 1 == PADDLE * PIXELS


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("CartPole-v9", "did you mean 'CartPole-v1'"),
        ("dsacc/Katch-v0", "did you mean 'dsacc/Catch-v0'"),
        ("", "there is no environment ''"),
        ("no_such_module:Env-v0", "needs the module 'no_such_module', which is neither in this folder nor installed"),
    ],
)
def test_an_unknown_environment_names_the_nearest(name, message):
    with pytest.raises(EnvError, match=message):
        make_env(name)
