"""Which frames change, when, and how."""

import itertools

import numpy as np
import pytest
from gymnasium import wrappers
from helpers.pictures import LAYOUTS, H, Pictures, W, pictures_of, play

from dsacc import Shift, make_env
from dsacc.envs import frame_stack
from dsacc.envs.atari import Atari, to_grey
from dsacc.shifts import kinds, register


@pytest.fixture
def stamp(monkeypatch):
    """A kind that writes its number and its age into a picture's corner."""
    monkeypatch.setattr(kinds, "_KINDS", dict(kinds._KINDS))

    class Stamp:
        nbytes = 8

        def __init__(self, rng):
            self.number = rng.integers(256, size=3)

        def __call__(self, seen, t=0):
            out = seen.copy()
            out[0, :3, 0], out[0, 3] = self.number, t
            return out

    register("stamp", lambda rng, shape, level: Stamp(rng))


def stamps(env, observation):
    return [(tuple(p[0, :3, 0].tolist()), int(p[0, 3, 0])) for p in pictures_of(env, observation)]


# --- pictures of any layout -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", LAYOUTS, ids=str)
def test_in_every_layout_each_picture_keeps_its_weather(shape):
    env = Shift(Pictures(shape), "gaussian_noise", 3)
    clean = [pictures_of(env, x) for x in play(Pictures(shape), [0, 1] * 4)]
    seen = [pictures_of(env, x) for x in play(env, [0, 1] * 4)]
    assert seen[0].shape == clean[0].shape
    assert all((p == seen[0][0]).all() for p in seen[0])  # equal pictures, one draw
    noise = [s[-1].astype(int) - c[-1] for s, c in zip(seen, clean, strict=True)]
    assert all(20 < x.std() < 60 for x in noise)
    assert len({x.tobytes() for x in noise}) == len(noise)
    for before, now in itertools.pairwise(seen):
        assert np.array_equal(now[:-1], before[1:])


@pytest.mark.parametrize("shape", [(H, W, 3), (H, W, 12), (3, H, W)], ids=str)
def test_channels_says_what_a_picture_is(shape, stamp):
    env = Shift(Pictures(shape), "stamp", channels=1)
    observation = env.reset(seed=0)[0]
    corners = observation[0, :3] if shape[0] == H else observation[:, 0, :3].T
    clean = Pictures(shape).reset(seed=0)[0]
    changed = corners != (clean[0, :3] if shape[0] == H else clean[:, 0, :3].T)
    assert changed.any(0).all()  # each channel has a stamp of its own
    assert len({tuple(c) for c in corners.T}) == min(corners.shape[1], 3)  # the four coloured pictures are equal


def test_a_still_picture_gets_new_weather_and_keeps_that_of_its_past(stamp):
    env = Shift(Pictures(still=True), "stamp")
    seen = [stamps(env, x) for x in play(env, [0] * 8)]
    assert len({s[-1] for s in seen}) == len(seen)
    assert all(now[:-1] == before[1:] for before, now in itertools.pairwise(seen))


def test_a_new_episode_keeps_nothing_of_the_last_even_if_the_picture_is_the_same(stamp):
    env = Shift(Pictures(still=True), "stamp")
    first = stamps(env, play(env, [0] * 8)[0])
    assert stamps(env, env.reset(seed=0)[0]) == first
    assert len(set(first)) == 1


def test_a_stack_that_does_not_slide_by_one_is_drawn_anew(stamp):
    env = Shift(Pictures(jump=True), "stamp")
    seen = [stamps(env, x) for x in play(env, [0] * 5)]
    assert all(len(set(stack)) == 4 for stack in seen[2:])
    assert all(now[:2] != before[2:] for before, now in itertools.pairwise(seen[2:]))
    first = seen[1]  # two pictures of the start and two new ones
    assert first[0] == first[1]
    assert len(set(first)) == 3


def test_an_environment_that_reuses_its_memory_is_read_before_it_writes():
    class Reuses(Pictures):
        def observe(self):
            self.buffer = getattr(self, "buffer", np.empty(self.observation_space.shape, np.uint8))
            self.buffer[:] = super().observe()
            return self.buffer

    a, b = (play(Shift(e, "gaussian_noise", 2), [0, 1, 1, 0]) for e in (Reuses(), Pictures()))
    assert all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))


def test_what_is_returned_is_the_users():
    env, other = (Shift(Pictures(), "gaussian_noise", 2) for _ in range(2))
    env.reset(seed=0)[0][:] = 0
    other.reset(seed=0)
    assert np.array_equal(env.step(1)[0], other.step(1)[0])


# --- modes and seeds --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(H, W, 3), (4, H, W)], ids=str)
def test_modes(shape, stamp):
    seen = {}
    for mode in ("independent", "frozen", "falling"):
        env = Shift(Pictures(shape), "stamp", mode=mode)
        seen[mode] = [stamps(env, x)[-1] for x in play(env, [0] * 9) + play(env, [0] * 9, seed=1)]
    numbers = {mode: [number for number, _ in s] for mode, s in seen.items()}
    ages = {mode: [age for _, age in s] for mode, s in seen.items()}
    assert len(set(numbers["independent"])) > 18
    assert ages["independent"] == ages["frozen"] == [0] * 20
    for mode in ("frozen", "falling"):
        assert [len(set(numbers[mode][:10])), len(set(numbers[mode][10:])), len(set(numbers[mode]))] == [1, 1, 2]
    assert ages["falling"] == [*range(10), *range(10)]


@pytest.mark.parametrize("mode", ["independent", "frozen", "falling"])
@pytest.mark.parametrize("settings", [{}, {"jump": True}, {"still": True}], ids=str)
def test_weather_does_not_depend_on_what_the_agent_does(mode, settings, stamp):
    env = Shift(Pictures(**settings), "stamp", mode=mode, seed=4)
    one, other = ([stamps(env, x)[-1] for x in play(env, actions)] for actions in ([0] * 6, [1, 0, 0, 1, 1, 1]))
    assert one == other


def test_seeds_fix_the_weather_and_resets_without_one_go_on(stamp):
    def begin(seed, *resets):
        env = Shift(Pictures((H, W)), "stamp", seed=seed)
        return [stamps(env, env.reset(seed=s)[0])[0] for s in resets]

    assert begin(0, 5, None, None) == begin(0, 5, None, None) == begin(0, 9, 5, None, None)[1:]
    assert len(set(begin(0, 5, None, None, 6, None))) == 5
    assert begin(0, None, None) == begin(0, None, None)
    assert begin(0, 5) != begin(1, 5)
    assert begin(0, 5) != begin(0, 6)


# --- Atari ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["screen", "observation"])
@pytest.mark.parametrize("mode", ["independent", "frozen"])
def test_atari_keeps_its_weather_through_the_stack_and_plays_the_same_game(where, mode):
    env, clean = Shift(Atari("Seaquest"), "salt_pepper", 5, mode, where=where), Atari("Seaquest")
    stacks, plain = [env.reset(seed=1)[0]], [clean.reset(seed=1)[0]]
    assert all(np.array_equal(stacks[0][0], p) for p in stacks[0])
    for k in range(12):
        observation, reward, *ends, _ = env.step(k % 5)
        other, other_reward, *other_ends, _ = clean.step(k % 5)
        assert (reward, ends) == (other_reward, other_ends)
        stacks.append(observation)
        plain.append(other)
        newest = to_grey(env.render()) if where == "screen" else env.render()[..., 0]
        assert np.array_equal(newest, observation[-1])
        assert np.array_equal(env.render(), env.render())
    for k in range(4, 13):
        assert all(np.array_equal(stacks[k][-1 - j], stacks[k - j][-1]) for j in range(4))
    distance = [np.abs(a.astype(int) - b).mean() for a, b in zip(stacks, plain, strict=True)]
    assert min(distance) > 5
    masks = [np.abs(a[-1].astype(int) - b[-1]) > 60 for a, b in zip(stacks, plain, strict=True)]
    shared = (masks[3] & masks[9]).sum() / masks[9].sum()
    assert shared > 0.5 if mode == "frozen" else shared < 0.5


def test_the_screen_is_changed_before_it_is_grey_and_small():
    env, clean = Shift(Atari("Breakout"), "salt_pepper", 5), Atari("Breakout")
    env.reset(seed=0), clean.reset(seed=0)
    seen, screen = env.render(), clean.render()
    assert seen.shape == screen.shape == (210, 160, 3)
    changed = (seen != screen).any(-1)
    assert set(np.unique(seen[changed])) <= {0, 255}
    assert np.array_equal(env.unwrapped.screen(), seen)


def test_looking_draws_nothing():
    looked, other = (Shift(Atari("Breakout"), "gaussian_noise", 3) for _ in range(2))
    looked.reset(seed=0), other.reset(seed=0)
    for k in range(5):
        looked.render(), looked.unwrapped.screen()
        assert np.array_equal(looked.step(k % 4)[0], other.step(k % 4)[0])


def test_shifts_can_be_nested_and_leave_the_game_as_it_was():
    game = Atari("Breakout")
    both = Shift(Shift(game, "occlusion", 5, "frozen"), "brightness", 5)
    both.reset(seed=0)
    seen, once = both.render(), both.env.render()
    assert np.array_equal(seen, once)  # there is one screen
    assert (seen == 255).sum() + (seen >= 128).sum() > seen.size  # all brighter
    assert ((seen == 127 + 128).all(-1)).mean() > 0.2  # the occlusion first, then the light
    assert game.lens is None
    clean = Atari("Breakout")
    assert np.array_equal(game.reset(seed=0)[0], clean.reset(seed=0)[0])
    assert np.array_equal(game.render(), clean.render())


def test_a_stack_stays_a_sliding_window_for_the_replay():
    assert frame_stack(Shift(make_env("Breakout"), "blur")) == 4
    assert frame_stack(Shift(make_env("Breakout"), "blur", where="observation")) == 4
    catch = make_env("dsacc/Catch-v0")
    assert frame_stack(wrappers.FrameStackObservation(Shift(catch, "blur"), 4)) == 4
    assert frame_stack(Shift(wrappers.FrameStackObservation(catch, 4), "blur")) == 1  # all is stored: safe
