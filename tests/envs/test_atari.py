"""Atari: the pictures, rewards and ends that the network is given are the emulator's own, by two independent ways."""

from typing import Any

import cv2
import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from dsacc import DSAC, make_env
from dsacc.envs.atari import Atari, display_name, find_game
from dsacc.errors import EnvError
from dsacc.system.extras import how_to_install

ale_py = pytest.importorskip("ale_py", reason=f"needs ale_py: {how_to_install('atari')}")
GAMES = ["Alien", "Amidar", "BattleZone", "BeamRider", "Breakout", "CrazyClimber", "MsPacman", "Seaquest", "UpNDown"]
gym.register_envs(ale_py)


class NaiveAtari:
    """What `Atari` promises, frame by frame through ale-py's own Gymnasium environment, with nothing clever in it."""

    def __init__(self, game: str, seed: int) -> None:
        self.env = gym.make(f"ALE/{game}-v5", frameskip=1, repeat_action_probability=0.0, full_action_space=False)
        self.meanings = self.env.unwrapped.get_action_meanings()
        self.rng = np.random.default_rng(seed)

    def frames(self, action: int) -> tuple[float, bool]:
        """Four frames of an action; the last two screens are kept."""
        total, screens = 0.0, []
        for _ in range(4):
            screen, reward, over, _, info = self.env.step(action)
            total, self.lives = total + reward, info["lives"]
            screens.append(screen)
            if over:
                return total, True
        self.screens = screens[-2:]
        return total, False

    def picture(self) -> np.ndarray:
        grey = cv2.cvtColor(np.maximum(*self.screens), cv2.COLOR_RGB2GRAY)
        return cv2.resize(grey, (84, 84), interpolation=cv2.INTER_AREA)

    def reset(self) -> np.ndarray:
        screen, info = self.env.reset(seed=0)
        for _ in range(self.rng.integers(1, 31)):
            screen, _, over, _, info = self.env.step(0)
            assert not over
        self.screens, self.lives = [screen, screen], info["lives"]
        if "FIRE" in self.meanings:
            self.frames(self.meanings.index("FIRE"))
        self.pictures = [self.picture()] * 4
        return np.stack(self.pictures)

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool]:
        lives = self.lives
        reward, over = self.frames(action)
        lost = self.lives < lives
        if lost and not over and "FIRE" in self.meanings:
            more, over = self.frames(self.meanings.index("FIRE"))
            reward += more
        self.pictures = [*self.pictures[1:], self.picture()]
        return np.stack(self.pictures), reward, over, lost


@pytest.mark.parametrize("game", GAMES)
def test_pictures_rewards_lives_and_ends_equal_those_of_a_naive_implementation(game):
    ours, naive = make_env(game), NaiveAtari(game, seed=7)
    assert ours.action_space.n == len(naive.meanings)
    actions = np.random.default_rng(1)
    ended = compared = 0
    first, _ = ours.reset(seed=7)
    assert np.array_equal(first, naive.reset())
    for step in range(1_300):
        action = int(actions.integers(ours.action_space.n))
        if step % 3:  # hold an action now and then, or some games never end
            action = 0
        observation, reward, terminated, truncated, info = ours.step(action)
        expected, naive_reward, over, lost = naive.step(action)
        assert (reward, terminated, truncated) == (naive_reward, over, False)
        assert info["life_lost"] == lost
        if over:  # the picture of a game that is over is shown to nobody
            assert np.array_equal(ours.reset()[0], naive.reset())
            ended += 1
        else:
            assert np.array_equal(observation, expected)
            compared += 1
    assert compared > 1_000
    assert ended > 0 or game in ("BeamRider", "CrazyClimber", "Seaquest")


@pytest.mark.parametrize("game", GAMES)
def test_screens_rewards_and_ends_equal_those_of_the_vector_environment(game):
    """ale-py's fast C++ environment, at full size and in colour, is a second, independent way through the emulator."""
    ours = Atari(game, noops=0, fire=False)
    fast = ale_py.AtariVectorEnv(
        find_game(game),
        1,
        grayscale=False,
        img_height=210,
        img_width=160,
        stack_num=1,
        noop_max=0,
        use_fire_reset=False,
        reward_clipping=False,
    )
    if ours.screen().shape != (210, 160, 3):
        pytest.fail(f"{game} has another screen: {ours.screen().shape}")
    ours.reset(seed=0)
    fast.reset(seed=0)
    actions = np.random.default_rng(2)
    for _ in range(400):
        action = int(actions.integers(ours.action_space.n))
        _, reward, terminated, _, info = ours.step(action)
        screens, rewards, terminations, _, infos = fast.step(np.array([action]))
        assert (reward, terminated, info["lives"]) == (rewards[0], terminations[0], infos["lives"][0])
        if terminated:
            ours.reset()
            fast.step(np.array([0]))  # its way of starting again
        else:
            assert np.array_equal(ours.screen(), screens[0, 0])


def test_reset_fills_the_stack_with_the_first_picture_and_steps_slide_it():
    env = make_env("Breakout")
    first, _ = env.reset(seed=0)
    assert all(np.array_equal(first[0], first[k]) for k in range(4))
    assert first.max() > 0
    second = env.step(2)[0]
    assert np.array_equal(second[:-1], first[1:])
    assert not np.array_equal(second[-1], first[-1])


def test_fire_after_each_lost_life_lets_a_player_that_never_fires_end_its_game():
    env = make_env("Breakout")
    env.reset(seed=0)
    lost, steps, terminated = 0, 0, False
    while not terminated and steps < 500:
        _, _, terminated, _, info = env.step(0)
        lost, steps = lost + info["life_lost"], steps + 1
    assert (lost, terminated) == (5, True)
    frozen = Atari("Breakout", fire=False)
    frozen.reset(seed=0)
    assert not any(frozen.step(0)[4]["life_lost"] for _ in range(500))


def test_a_game_is_cut_off_at_its_frames():
    env = Atari("Seaquest", max_frames=40)
    env.reset(seed=0)
    ends = [env.step(0)[2:4] for _ in range(10)]
    assert ends == [(False, False)] * 9 + [(False, True)]


def test_no_ops_come_from_the_seed():
    starts = [make_env("Breakout").reset(seed=s)[0].tobytes() for s in (0, 0, 1, 2, 3, 4, 5)]
    assert starts[0] == starts[1]
    assert len(set(starts)) > 2


@pytest.mark.parametrize(("game", "sticky"), [("Breakout", 0.0), ("Seaquest", 0.0), ("MsPacman", 0.8)])
def test_a_saved_state_continues_with_the_same_pictures_rewards_and_ends(game, sticky):
    env = Atari(game, sticky=sticky)
    env.reset(seed=3)
    actions = np.random.default_rng(0).integers(env.action_space.n, size=700)
    for action in actions[:100]:
        if env.step(action)[2]:
            env.reset()
    saved = env.state()

    def play(env: Atari) -> list[Any]:
        seen = []
        for action in actions[100:]:
            observation, reward, terminated, truncated, _ = env.step(action)
            seen.append((observation.tobytes(), reward, terminated, truncated))
            if terminated:
                seen.append(env.reset()[0].tobytes())
        return seen

    other = Atari(game, sticky=sticky)  # a fresh emulator, as after a crash
    other.reset(seed=99)
    other.load_state(saved)
    assert play(other) == play(env)


def test_sticky_actions_repeat_the_action_before():
    class Spy:
        def __init__(self, ale: Any) -> None:
            self.ale, self.acted = ale, []

        def act(self, action: Any) -> float:
            self.acted.append(action.value)
            return self.ale.act(action)

        def __getattr__(self, name: str) -> Any:
            return getattr(self.ale, name)

    env = Atari("CrazyClimber", sticky=0.25)  # a game that does not end so soon
    env.reset(seed=0)
    env.ale = Spy(env.ale)
    assert not any(env.step(k % 2)[2] for k in range(1_000))
    assert [a.value for a in env.actions[:2]] == [0, 2]
    acted = np.array(env.ale.acted).reshape(-1, 4) // 2
    wanted = np.arange(len(acted)) % 2
    late = (acted[:, 0] != wanted).mean()
    assert abs(late - 0.25) < 0.05  # the first frame still has the action before
    assert (acted[:, 3] != wanted).mean() < 0.02  # by the fourth almost never: 0.25^4


@pytest.mark.parametrize(
    "name", ["Breakout", "breakout", "BREAKOUT", "ALE/Breakout-v5", "BreakoutNoFrameskip-v4", "Breakout-v4"]
)
def test_a_game_is_known_by_the_names_people_write(name):
    env = make_env(name)
    assert (env.name, env.observation_space.shape) == ("Breakout", (4, 84, 84))


def test_names_of_several_words():
    assert {find_game(n) for n in ("ms_pacman", "MsPacman", "mspacman", "ALE/MsPacman-v5")} == {"ms_pacman"}
    assert display_name("up_n_down") == "UpNDown"
    assert find_game("CartPole-v1") is None


def test_an_id_of_another_environment_is_not_taken_for_a_game():
    assert make_env("Blackjack-v1").unwrapped.__class__.__name__ == "BlackjackEnv"
    assert make_env("Blackjack").observation_space.shape == (4, 84, 84)


@pytest.mark.parametrize(
    ("name", "nearest"), [("Braekout", "Breakout"), ("ALE/Pong2-v5", "Pong"), ("mspackman", "MsPacman")]
)
def test_an_unknown_game_names_the_nearest(name, nearest):
    with pytest.raises(EnvError, match=f"did you mean '{nearest}'"):
        make_env(name)


@pytest.mark.parametrize(
    "settings", [{"frame_skip": 0}, {"stack": 0}, {"noops": -1}, {"sticky": 1.0}, {"max_frames": 0}]
)
def test_settings_out_of_range_are_refused(settings):
    with pytest.raises(EnvError):
        make_env("Breakout", **settings)


def test_gymnasium_accepts_it():
    check_env(Atari("Pong", render_mode="rgb_array"), skip_render_check=True)


def test_a_run_remembers_the_game_by_its_name():
    model = DSAC(make_env("ALE/UpNDown-v5"), replay_size=100)
    assert model.config.env == "UpNDown"
    assert model.learner.actions == 6
