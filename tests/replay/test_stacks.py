"""Pictures stored once, against a naive memory that stores every transition whole, stacks and all."""

import numpy as np
import pytest
from helpers.replay_player import ENDS, HEIGHT, WIDTH, number_of, picture, play
from hypothesis import given, settings
from hypothesis import strategies as st

from dsacc.agent.observation import ObservationSpec
from dsacc.errors import ConfigError, EnvError
from dsacc.replay import Replay
from dsacc.replay.frames import PackedStore


@settings(max_examples=120, deadline=None, derandomize=True)
@given(
    ENDS,
    st.integers(1, 4),
    st.sampled_from([1, 3]),
    st.integers(1, 3),
    st.integers(1, 4),
    st.integers(30, 90),
    st.sampled_from(["none", "lz4"]),
)
def test_every_sample_is_a_transition_that_happened(ends, stack, channels, envs, n, capacity, compression):
    replay, right = play(
        ends, stack=stack, channels=channels, envs=envs, n=n, capacity=capacity, compression=compression
    )
    if not replay.can_sample():
        return
    t = replay.sample(48, np.random.default_rng(0))
    for i in range(48):
        truth = right[number_of(t.observation[i], channels)]
        assert np.array_equal(t.observation[i], truth["seen"])
        assert t.rewards_BN[i].tolist() == truth["rewards"] + [0.0] * (n - len(truth["rewards"]))
        assert t.steps_B[i] == len(truth["rewards"])
        assert t.terminated_B[i] == truth["terminated"]
        assert t.action_B[i] == truth["action"]
        assert t.entropy_B[i] == pytest.approx(truth["rewards"][0] / 10)
        if not truth["terminated"]:
            assert np.array_equal(t.next_observation[i], truth["next"])


@settings(max_examples=30, deadline=None, derandomize=True)
@given(ENDS, st.integers(2, 4), st.integers(1, 2), st.integers(1, 3))
def test_every_complete_transition_can_be_drawn(ends, stack, envs, n):
    replay, right = play(ends, stack=stack, channels=1, envs=envs, n=n, capacity=1000, compression="none")
    if not right:
        assert not replay.can_sample()
        return
    drawn = replay.sample(4_000, np.random.default_rng(0)).observation
    # A step whose future is not known yet is not among the right ones, nor drawn.
    assert {number_of(o, 1) for o in drawn} == set(right)


def test_sampling_from_nothing_is_an_error_and_not_an_endless_search():
    empty = Replay(50, ObservationSpec("vector", (1,)), 3)
    with pytest.raises(ValueError, match="nothing is stored"):
        empty.sample(4, np.random.default_rng(0))
    empty.add(np.zeros(1, np.float32), 0, 0.0, False, False, np.zeros(1, np.float32))
    with pytest.raises(ValueError, match="no transition is complete"):
        empty.sample(4, np.random.default_rng(0))


def test_compression_changes_no_sample():
    ends = (["goes on"] * 17 + ["terminated"] + ["goes on"] * 9 + ["truncated"] + ["life lost"]) * 6
    samples = []
    for compression in ("none", "lz4"):
        replay, _ = play(ends, stack=4, channels=1, envs=2, n=3, capacity=120, compression=compression)
        t = replay.sample(200, np.random.default_rng(3))
        samples.append([x.copy() for x in t.parts().values()])
    for plain, packed in zip(*samples, strict=True):
        assert np.array_equal(plain, packed)


def test_pictures_are_handed_out_channels_last_in_memory():
    replay, _ = play(["goes on"] * 30, stack=4, channels=1, envs=1, n=1, capacity=100, compression="none")
    t = replay.sample(8, np.random.default_rng(0))
    assert t.observation.shape == (8, 4, HEIGHT, WIDTH)
    assert t.observation.transpose(0, 2, 3, 1).flags.c_contiguous


def test_a_million_atari_steps_take_at_most_7_2_gb():
    spec = ObservationSpec("image", (4, 84, 84))
    assert Replay(1_000_000, spec, 1, stack=4).nbytes <= 7.2e9  # taken page by page: nothing is written here


def test_compressed_pictures_that_hardly_change_take_little_room():
    spec = ObservationSpec("image", (4, 84, 84))
    still = np.random.default_rng(0).integers(0, 256, (4, 84, 84), dtype=np.uint8)
    still[:] = still[0]
    replay = Replay(400, spec, 1, stack=4, compression="lz4")
    for _ in range(400):
        replay.add(still, 0, 0.0, False, False, still)
    assert replay.nbytes < 400 * 84 * 84 / 4  # noise does not compress, but only every eighth picture is a key


def test_observations_that_do_not_slide_are_refused():
    spec = ObservationSpec("image", (3, HEIGHT, WIDTH))
    replay = Replay(50, spec, 1, stack=3)
    first = np.concatenate([picture(1, 1)] * 3)
    replay.add(first, 0, 0.0, False, False, first)
    with pytest.raises(EnvError, match="not the previous one moved on by one picture"):
        replay.add(np.concatenate([picture(k, 1) for k in (7, 8, 9)]), 0, 0.0, False, False, first)
    with pytest.raises(EnvError, match="stacks pictures"):
        Replay(50, spec, 1, stack=3).add(
            np.concatenate([picture(k, 1) for k in (7, 8, 9)]), 0, 0.0, False, False, first
        )


def test_compression_is_for_pictures():
    with pytest.raises(ConfigError, match="is for pictures"):
        Replay(50, ObservationSpec("vector", (3,)), compression="lz4")


def test_a_ring_too_small_for_its_environments_is_refused():
    with pytest.raises(ConfigError, match="cannot hold"):
        Replay(40, ObservationSpec("image", (4, HEIGHT, WIDTH)), 3, stack=4, envs=8)


def test_samples_are_uniform_over_environments():
    spec = ObservationSpec("vector", (1,))
    replay = Replay(90, spec, 1, envs=3)
    for i in range(60):
        for e in range(3):
            replay.add(np.array([100 * e + i], np.float32), 0, 0.0, False, False, np.zeros(1, np.float32), env=e)
    drawn = replay.sample(87_000, np.random.default_rng(0)).observation[:, 0]
    values, counts = np.unique(drawn, return_counts=True)
    assert len(values) == 3 * 29  # 30 slots each, of which the newest waits for its next state
    assert abs(counts - 1000).max() < 5 * np.sqrt(1000)


def test_in_each_ring_every_eighth_picture_is_packed_whole_and_the_others_as_differences():
    store, frame = PackedStore(40, (4, 4, 1), 2), np.zeros((4, 4, 1), np.uint8)
    for i in range(20):
        for ring in range(2):
            store.put(20 * ring + i, frame + i)
    whole = [slot for slot in range(40) if store.keys[slot] is None]
    assert whole == [0, 8, 16, 20, 28, 36]
    assert store.keys[9] is store.keys[15] is store.packed[8]
    assert store.keys[29] is store.packed[28]
    assert np.array_equal(store.take(np.arange(20))[:, 0, 0, 0], np.arange(20))
