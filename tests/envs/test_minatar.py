"""MinAtar's games: their rules are its own, their pictures ours; they are saved, shifted and named like the others."""

import sys
from itertools import combinations

import cv2
import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from helpers.extras import minatar as needs_minatar

from dsacc import DSAC, Shift, evaluate, harden, make_env
from dsacc.cli import main
from dsacc.envs.copying import copy_of
from dsacc.envs.minatar import CELLS, MinAtar, _module
from dsacc.envs.minatar_colours import BLACK, COLOURS
from dsacc.envs.saving import load_env, save_env
from dsacc.errors import EnvError, RunError
from dsacc.views.preview import preview

NAMES = {"asterix": "Asterix", "breakout": "Breakout", "freeway": "Freeway", "seaquest": "Seaquest"}
NAMES |= {"space_invaders": "SpaceInvaders"}
TINY = {"preset": "classic", "encoder": "small", "hidden": 16, "n_step": 2, "train_every": 4}
TINY |= {"random_steps": 20, "batch_size": 8, "replay_size": 200, "log_every": 20}

# A moment of each game, by the attributes of MinAtar's object, and what each cell (row, column) shows then. Where there
# is more in a cell, a comment says so.
_ALIENS, _OURS, _THEIRS = np.zeros((10, 10)), np.zeros((10, 10)), np.zeros((10, 10))
_ALIENS[2, 3:5], _OURS[2, 4], _OURS[5, 1], _THEIRS[2, 3], _THEIRS[5, 1] = 1, 1, 1, 1, 1
_BRICKS = np.zeros((10, 10))
_BRICKS[1, 2:5] = 1
MOMENTS = {
    "asterix": (
        {"player_x": 4, "player_y": 3, "entities": [[2, 1, True, False], None, [5, 3, True, True], *[None] * 5]},
        {(1, 2): "enemy", (1, 1): "trail", (3, 5): "gold", (3, 4): "player"},  # and the gold's trail at (3, 4)
    ),
    "breakout": (
        {"ball_y": 1, "ball_x": 2, "last_y": 1, "last_x": 3, "pos": 7, "brick_map": _BRICKS},
        {(1, 2): "ball", (1, 3): "trail", (1, 4): "brick", (9, 7): "paddle"},  # and bricks at (1, 2) and (1, 3)
    ),
    "freeway": (
        {"pos": 2, "cars": [[5, 1, 1, 1], [5, 2, 2, 2], [0, 3, 3, 3], [9, 4, 4, -4], [3, 5, 5, -5]]},
        {
            (1, 5): "car", (1, 4): "speed1", (2, 5): "car", (2, 4): "chicken",  # and speed2 at (2, 4)
            (3, 0): "car", (3, 9): "speed3", (4, 9): "car", (4, 0): "speed4", (5, 3): "car", (5, 4): "speed5",
        },
    ),
    "seaquest": (
        {
            "sub_x": 4, "sub_y": 3, "sub_or": True, "oxygen": 120, "diver_count": 4, "f_bullets": [[6, 3, True]],
            "e_bullets": [[6, 3, False], [2, 5, True]], "e_fish": [[8, 1, False, 3]],
            "e_subs": [[7, 6, True, 3, 4]], "divers": [[3, 3, True, 2]],
        },
        {
            (3, 4): "sub_front", (3, 3): "sub_back",  # and a diver at (3, 3), whose trail is at (3, 2)
            (3, 2): "trail", (3, 6): "friendly_bullet",  # and theirs
            (5, 2): "enemy_bullet", (1, 8): "enemy_fish", (1, 9): "trail", (6, 7): "enemy_sub", (6, 6): "trail",
            **{(9, x): "oxygen_guage" for x in range(5)}, **{(9, x): "diver_guage" for x in range(5, 9)},
        },
    ),
    "space_invaders": (
        {"pos": 6, "alien_map": _ALIENS, "alien_dir": -1, "f_bullet_map": _OURS, "e_bullet_map": _THEIRS},
        {(9, 6): "cannon", (2, 3): "enemy_bullet", (2, 4): "friendly_bullet", (5, 1): "friendly_bullet"},
    ),
}  # fmt: skip


def drawn(game: str, cells: dict[tuple[int, int], str], pixels: int) -> np.ndarray:
    """The picture as the table of colours describes it, pixel by pixel."""
    picture = np.zeros((CELLS * pixels, CELLS * pixels, 3), np.uint8)
    for (row, column), name in cells.items():
        for y in range(row * pixels, (row + 1) * pixels):
            for x in range(column * pixels, (column + 1) * pixels):
                picture[y, x] = COLOURS[game][name]
    return picture


def at(game: str) -> MinAtar:
    """A game at its moment."""
    env = MinAtar(game)
    env.reset(seed=0)
    vars(env._game).update(MOMENTS[game][0])
    return env


def random_play(env: gym.Env, steps: int, seed: int = 0) -> list[tuple]:
    """Everything that random play sees, with a reset after each end."""
    rng, seen = np.random.default_rng(seed), []
    for _ in range(steps):
        observation, *rest, _ = env.step(int(rng.integers(env.action_space.n)))
        if rest[1] or rest[2]:
            observation, _ = env.reset()
        seen.append((observation.tobytes(), *rest))
    return seen


# --- pictures ---------------------------------------------------------------------------------------------------------


@needs_minatar
@pytest.mark.parametrize("game", MOMENTS)
def test_each_cell_shows_the_colour_of_the_topmost_thing_in_it(game):
    env = at(game)
    assert np.array_equal(env._see(), drawn(game, MOMENTS[game][1], 4))
    assert np.array_equal(env.render(), drawn(game, MOMENTS[game][1], 16))


@needs_minatar
def test_aliens_show_where_they_are_going():
    env = at("space_invaders")
    vars(env._game).update(f_bullet_map=np.zeros((10, 10)), e_bullet_map=np.zeros((10, 10)))
    for direction, name in ((-1, "alien_left"), (1, "alien_right")):
        env._game.alien_dir = direction
        assert np.array_equal(env._see(), drawn("space_invaders", {(9, 6): "cannon", (2, 3): name, (2, 4): name}, 4))


@pytest.mark.parametrize("game", COLOURS)
def test_no_two_things_of_a_game_look_alike_and_none_is_grey(game):
    colours = np.array([BLACK, *COLOURS[game].values()], int)
    assert min(np.abs(a - b).sum() for a, b in combinations(colours, 2)) >= 100
    assert (np.ptp(colours[1:], axis=1) >= 100).all()


@needs_minatar
def test_through_a_lens_that_changes_nothing_the_agent_sees_the_same():
    for game in COLOURS:
        env = at(game)
        plain = env._see()
        env.lens = lambda screen: screen
        assert np.array_equal(env._see(), plain)


# --- rules ------------------------------------------------------------------------------------------------------------


@needs_minatar
@pytest.mark.parametrize("game", COLOURS)
def test_states_rewards_and_ends_are_those_of_minatars_own_environment(game):
    from minatar import Environment  # with matplotlib and seaborn, if these are there

    ours, theirs = MinAtar(game, full_actions=True), Environment(game)
    ours.reset(seed=5)
    theirs.random = theirs.env.random = np.random.RandomState(np.random.PCG64())
    theirs.random.set_state(np.random.RandomState(np.random.PCG64(np.random.SeedSequence(5))).get_state(legacy=False))
    theirs.reset()
    actions, ended, rewarded = np.random.default_rng(1), 0, 0.0
    for _ in range(3_000):
        action = int(actions.integers(6))
        _, reward, terminated, truncated, _ = ours.step(action)
        assert (reward, terminated, truncated) == (*theirs.act(action), False)
        assert np.array_equal(ours._game.state(), theirs.state())
        rewarded += reward
        if terminated:
            ended += 1
            ours.reset()
            theirs.reset()
            theirs.last_action = 0  # which it carries over into the next game
    assert ended > 0
    assert rewarded > 0


@needs_minatar
@pytest.mark.parametrize(("sticky", "share"), [(0.0, 0.0), (0.1, 0.1 / 1.1), (0.5, 0.5 / 1.5)])
def test_an_action_is_replaced_by_the_previous_one_with_the_probability_that_is_said(sticky, share):
    # Two actions in turn: a repeat shows unless the step before was one, so a share p of the others: x = p (1 - x).
    env, replaced, steps = MinAtar("freeway", sticky=sticky), 0, 5_000
    env.reset(seed=0)
    for step in range(steps):
        over = env.step(step % 2)[2]
        replaced += env._last_action != env.actions[step % 2]
        if over:
            env.reset()
    assert replaced / steps == pytest.approx(share, abs=4 * np.sqrt(share / steps))


def test_sticky_actions_are_on_as_published():
    assert MinAtar.__init__.__kwdefaults__["sticky"] == 0.1


@needs_minatar
def test_a_game_does_not_begin_with_the_last_action_of_another():
    env = MinAtar("breakout", sticky=0.999)
    env.reset(seed=0)
    env._last_action = env.actions[1]
    env.reset(seed=0)
    env.step(2)
    assert env._game.pos == 4  # where it was


@needs_minatar
def test_actions_are_those_with_an_effect_unless_all_are_asked_for():
    named = {name: make_env(f"minatar/{name}").unwrapped.get_action_meanings() for name in NAMES.values()}
    assert named == {
        "Asterix": ["NOOP", "LEFT", "UP", "RIGHT", "DOWN"],
        "Breakout": ["NOOP", "LEFT", "RIGHT"],
        "Freeway": ["NOOP", "UP", "DOWN"],
        "Seaquest": ["NOOP", "LEFT", "UP", "RIGHT", "DOWN", "FIRE"],
        "SpaceInvaders": ["NOOP", "LEFT", "RIGHT", "FIRE"],
    }
    assert make_env("minatar/Breakout", full_actions=True).action_space.n == 6


@needs_minatar
def test_a_game_is_cut_off_at_its_limit_and_freeway_ends_by_itself():
    env = make_env("minatar/Freeway", max_episode_steps=7)
    env.reset(seed=0)
    assert [env.step(0)[2:4] for _ in range(7)] == [(False, False)] * 6 + [(False, True)]
    env = make_env("minatar/Freeway")
    assert env.spec.max_episode_steps == 10_000
    env.reset(seed=0)
    assert [env.step(0)[2:4] for _ in range(2_501)][-2:] == [(False, False), (True, False)]


@needs_minatar
@pytest.mark.parametrize("game", COLOURS)
def test_it_follows_gymnasiums_rules(game):
    check_env(MinAtar(game, render_mode="rgb_array"), skip_render_check=False)


# --- saving -----------------------------------------------------------------------------------------------------------


@needs_minatar
def test_a_state_of_another_game_or_a_broken_one_is_refused():
    env, other = make_env("minatar/Breakout"), make_env("minatar/Asterix")
    for one in (env, other):
        one.reset(seed=0)
    with pytest.raises(RunError, match="the saved state is of minatar/Asterix"):
        load_env(env, save_env(other))
    with pytest.raises(EnvError, match="this state does not belong to MinAtar's breakout"):
        env.unwrapped.load_state(other.unwrapped.state())
    broken = env.unwrapped.state()
    broken["game"]["ball_y"] = 77
    with pytest.raises(EnvError, match="this state does not belong to MinAtar's breakout"):
        env.unwrapped.load_state(broken)


@needs_minatar
def test_a_copy_goes_on_as_the_first_would_and_leaves_it_alone():
    env = make_env("minatar/Seaquest")
    env.reset(seed=1)
    random_play(env, 40)
    other = copy_of(env)
    assert random_play(other, 200, 7) == random_play(env, 200, 7)


@needs_minatar
def test_a_continued_run_ends_with_the_bytes_of_one_that_was_never_stopped(tmp_path):
    def stop(row):
        if row["step"] == 60:
            raise KeyboardInterrupt

    def model():
        return DSAC("minatar/Seaquest", "mean", checkpoint_every=37, **TINY)

    model().learn(90, out=tmp_path / "once")
    with pytest.raises(KeyboardInterrupt):
        model().learn(90, out=tmp_path / "twice", callback=stop)
    assert model().learn(90, out=tmp_path / "twice").step == 90
    for file in ("metrics.jsonl", "checkpoints/step-90/agent.safetensors"):
        assert (tmp_path / "once" / file).read_bytes() == (tmp_path / "twice" / file).read_bytes()


# --- uses -------------------------------------------------------------------------------------------------------------


@needs_minatar
def test_weather_is_drawn_on_the_screen_before_it_is_made_small():
    env = Shift(make_env("minatar/Breakout"), "snow", seed=1)
    clean, _ = make_env("minatar/Breakout").reset(seed=0)
    seen, _ = env.reset(seed=0)
    assert env.where == "screen"
    assert env.render().shape == (160, 160, 3)
    assert not np.array_equal(seen, clean)
    assert np.array_equal(seen, cv2.resize(env.render(), (40, 40), interpolation=cv2.INTER_AREA))


@needs_minatar
def test_an_agent_is_trained_tested_in_weather_and_hardened(tmp_path):
    model = DSAC("minatar/SpaceInvaders", "mean", **TINY).learn(40, out=tmp_path / "run")
    rows = evaluate(str(tmp_path / "run"), shifts=["id", "snow", "rain", "fog"], episodes=2, seed=1)
    assert [(row["env"], row["shift"], len(row["returns"])) for row in rows] == [
        ("minatar/SpaceInvaders", shift, 2) for shift in ("id", "snow", "rain", "fog")
    ]
    assert rows == evaluate(model, "minatar/SpaceInvaders", shifts=["id", "snow", "rain", "fog"], episodes=2, seed=1)
    student = harden(model, "minatar/SpaceInvaders", updates=2, states=64, rounds=0)
    assert student.config.env == "minatar/SpaceInvaders"


@needs_minatar
def test_games_are_previewed_and_played_as_a_vector(tmp_path):
    preview(["minatar/Freeway"], tmp_path / "games.png", shifts=["fog"], steps=5)
    assert cv2.imread(str(tmp_path / "games.png")) is not None
    vector = gym.make_vec("minatar/Asterix", 2, "sync")
    assert vector.reset(seed=0)[0].shape == (2, 40, 40, 3)
    assert vector.step(np.array([0, 1]))[0].dtype == np.uint8


# --- names ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["minatar/Brekout", "minatar/breakout", "MinAtar/Breakout-v7"])
def test_a_name_that_is_not_quite_right_is_answered_with_the_right_one(name):
    with pytest.raises(EnvError, match=f"^there is no environment '{name}'; did you mean 'minatar/Breakout'\\?$"):
        make_env(name)


def test_a_game_of_atari_without_its_emulator_is_not_taken_for_one_of_minatar(monkeypatch):
    with monkeypatch.context() as absent:
        absent.setitem(sys.modules, "ale_py", None)
        for name in [name for name, spec in gym.registry.items() if str(spec.entry_point).startswith("ale_py")]:
            absent.delitem(gym.registry, name)  # where it was imported before
        with pytest.raises(EnvError) as caught:
            make_env("Breakout")
    assert "its emulator is not installed" in str(caught.value)
    assert "minatar" not in str(caught.value)


def test_a_bad_game_or_probability_is_said():
    with pytest.raises(EnvError, match="MinAtar has no game 'pong'; it has asterix, breakout, freeway, "):
        MinAtar("pong")
    with pytest.raises(EnvError, match=r"sticky is a probability from 0 to below 1, not 1\.5"):
        MinAtar("breakout", sticky=1.5)


def test_without_the_extra_one_sentence_says_what_to_install(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    _module.cache_clear()
    with monkeypatch.context() as absent:  # over before a failure is looked at: it must not count as a missing extra
        absent.setitem(sys.modules, "minatar", None)
        code = main(["train", "minatar/Breakout", "--steps", "20"])
    said = capsys.readouterr().err.strip()
    assert code == 2
    assert said.endswith("MinAtar's games are not installed; `pip install --no-deps MinAtar` installs them")
    assert "\n" not in said
    assert not list(tmp_path.iterdir())
