"""Replay against a naive memory that stores every transition whole."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsacc.agent.observation import ObservationSpec
from dsacc.replay import Replay

SPEC = ObservationSpec("vector", (1,))


def fill(capacity: int, n: int, ends: list[str]) -> tuple[Replay, dict[float, tuple]]:
    """Steps with observation = reward = 1, 2, 3, ... and the naive answer for each start, by its observation."""
    replay = Replay(capacity, SPEC, n)
    steps, x = [], 0.0
    for end in ends:
        x += 1
        last_look = np.array([-x], np.float32)  # what is seen after the step, where the episode ends there
        replay.add(np.array([x], np.float32), int(x) % 5, x, end == "terminated", end == "truncated", last_look, x / 10)
        steps.append((x, end))
    naive = {}
    for i, (x, _) in enumerate(steps):
        rewards, at = [], i
        while True:
            rewards.append(steps[at][0])
            if steps[at][1] != "goes on":
                naive[x] = (rewards, steps[at][1] == "terminated", -steps[at][0])
                break
            if len(rewards) == n:
                if at + 1 < len(steps):
                    naive[x] = (rewards, False, steps[at + 1][0])
                break
            at += 1
            if at == len(steps):
                break
    return replay, naive


ENDS = st.lists(st.sampled_from(["goes on"] * 6 + ["terminated", "truncated"]), min_size=2, max_size=60)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(ENDS, st.integers(1, 5), st.integers(7, 40))
def test_every_sample_is_a_transition_that_happened(ends, n, capacity):
    replay, naive = fill(capacity, n, ends)
    if not replay.can_sample():
        return
    t = replay.sample(64, np.random.default_rng(0))
    for i in range(64):
        x = float(t.observation[i, 0])
        rewards, terminated, following = naive[x]
        assert t.rewards_BN[i].tolist() == rewards + [0.0] * (n - len(rewards))
        assert t.steps_B[i] == len(rewards)
        assert t.terminated_B[i] == terminated
        if not terminated:
            assert t.next_observation[i, 0] == following
        assert t.action_B[i] == int(x) % 5
        assert t.entropy_B[i] == pytest.approx(x / 10)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(ENDS, st.integers(1, 5), st.integers(0, 4), st.integers(10, 40))
def test_a_minibatch_of_fewer_steps_is_that_of_a_memory_made_for_them(ends, n, more, capacity):
    large, small = fill(capacity, n + more, ends)[0], fill(capacity, n, ends)[0]
    assert small.can_sample() or not large.can_sample()
    if large.can_sample():
        one, other = (r.sample(64, np.random.default_rng(0), n) for r in (large, small))
        for name, part in one.parts().items():
            np.testing.assert_array_equal(part, other.parts()[name], err_msg=name)


def test_more_steps_than_the_memory_was_made_for_are_refused():
    replay, _ = fill(40, 3, ["goes on"] * 20)
    with pytest.raises(ValueError, match="made for transitions of up to 3 steps, not 4"):
        replay.sample(8, np.random.default_rng(0), 4)


@settings(max_examples=50, deadline=None, derandomize=True)
@given(ENDS, st.integers(1, 4))
def test_every_complete_transition_that_is_still_stored_can_be_drawn(ends, n):
    replay, naive = fill(1000, n, ends)
    if not naive:
        assert not replay.can_sample()
        return
    drawn = replay.sample(4000, np.random.default_rng(0)).observation[:, 0]
    assert set(drawn.tolist()) == set(naive)


def test_samples_are_uniform():
    replay, naive = fill(200, 1, ["goes on"] * 101)
    drawn = replay.sample(100_000, np.random.default_rng(0)).observation[:, 0]
    counts = np.unique(drawn, return_counts=True)[1]
    assert len(counts) == len(naive) == 100
    assert abs(counts - 1000).max() < 5 * np.sqrt(1000)


def test_the_oldest_go_first():
    replay, _ = fill(10, 1, ["goes on"] * 35)
    assert replay.sample(500, np.random.default_rng(0)).observation.min() == 26
    assert len(replay) == 10


def test_nothing_to_sample_before_a_transition_is_complete():
    assert not fill(10, 3, ["goes on"] * 3)[0].can_sample()
    assert fill(10, 3, ["goes on"] * 4)[0].can_sample()
    assert fill(10, 3, ["terminated"])[0].can_sample()


def test_same_generator_same_minibatch():
    replay, _ = fill(50, 2, ["goes on"] * 50)
    a, b = (replay.sample(8, np.random.default_rng(1)) for _ in range(2))
    assert np.array_equal(a.observation, b.observation)


def test_an_episode_that_is_cut_ends_as_truncated_with_what_was_seen_last():
    replay, last = Replay(20, SPEC, 3), np.array([-4], np.float32)
    replay.cut(0, last)  # nothing is stored yet
    assert not replay.can_sample()
    for x in (1.0, 2.0, 3.0):
        replay.add(np.array([x], np.float32), 0, x, False, False, np.zeros(1, np.float32))
    replay.cut(0, last)
    replay.cut(0, np.array([-9], np.float32))  # it is over already
    replay.add(np.array([7], np.float32), 0, 7.0, True, False, np.zeros(1, np.float32))
    replay.cut(0, np.array([-9], np.float32))
    t = replay.sample(200, np.random.default_rng(0))
    found = {
        x: (rewards, bool(terminated), following)
        for x, rewards, terminated, following in zip(
            t.observation[:, 0].tolist(),
            t.rewards_BN.tolist(),
            t.terminated_B,
            t.next_observation[:, 0].tolist(),
            strict=True,
        )
    }
    assert found == {
        1.0: ([1.0, 2.0, 3.0], False, -4.0),
        2.0: ([2.0, 3.0, 0.0], False, -4.0),
        3.0: ([3.0, 0.0, 0.0], False, -4.0),
        7.0: ([7.0, 0.0, 0.0], True, 7.0),
    }
