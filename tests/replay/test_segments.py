"""A replay saved in pieces and put back samples the same, bit for bit."""

import numpy as np
import pytest
from helpers.replay_player import ENDS, HEIGHT, WIDTH, Player, play
from hypothesis import given, settings
from hypothesis import strategies as st

from dsacc.agent.observation import ObservationSpec
from dsacc.errors import RunError
from dsacc.replay import Replay
from dsacc.replay.segments import export_segment, needed_from, restore_segments


def fresh(replay: Replay, compression: str = "none") -> Replay:
    return Replay(
        replay.ring * replay.envs,
        replay.spec,
        replay.n_step,
        stack=replay.stack,
        envs=replay.envs,
        compression=compression,
    )


def samples_of(replay: Replay) -> list[np.ndarray]:
    return list(replay.sample(64, np.random.default_rng(5)).parts().values())


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    st.lists(ENDS, min_size=1, max_size=5),
    st.integers(1, 4),
    st.sampled_from([1, 3]),
    st.integers(1, 3),
    st.sampled_from(["none", "lz4"]),
)
def test_pieces_put_back_in_order_give_the_same_samples(pieces, stack, channels, envs, compression):
    spec = ObservationSpec("image", (stack * channels, HEIGHT, WIDTH))
    replay = Replay(60 * envs, spec, 2, stack=stack, envs=envs, compression=compression)
    players = [Player(stack, channels, 10_000 * e) for e in range(envs)]
    saved, start_E = [], np.zeros(envs, np.int64)
    for ends in pieces:
        for i, end in enumerate(ends):
            players[i % envs].step(replay, i % envs, end)
        saved.append({k: v.copy() for k, v in export_segment(replay, start_E).items()})
        start_E = replay.written_E.copy()
    for other_compression in ("none", "lz4"):
        again = fresh(replay, other_compression)
        restore_segments(again, saved)
        assert np.array_equal(again.written_E, replay.written_E)
        if replay.can_sample():
            for a, b in zip(samples_of(replay), samples_of(again), strict=True):
                assert np.array_equal(a, b)


def test_segments_that_were_overwritten_are_not_needed():
    spec = ObservationSpec("vector", (2,))
    replay = Replay(20, spec)
    saved, start_E = [], np.zeros(1, np.int64)
    for i in range(50):
        replay.add(np.full(2, i, np.float32), i % 3, float(i), i % 11 == 10, False, np.zeros(2, np.float32))
        if i % 10 == 9:
            saved.append(export_segment(replay, start_E))
            start_E = replay.written_E.copy()
    needed = [s for s in saved if (s["stop_E"] > needed_from(replay)).any()]
    assert len(needed) == 2
    again = fresh(replay)
    restore_segments(again, needed)
    for a, b in zip(samples_of(replay), samples_of(again), strict=True):
        assert np.array_equal(a, b)


def test_a_missing_piece_is_noticed():
    replay, _ = play(["goes on"] * 30, stack=2, channels=1, envs=1, n=1, capacity=100, compression="none")
    last = export_segment(replay, np.array([20]))
    with pytest.raises(RunError, match="oldest steps are missing"):
        restore_segments(fresh(replay), [last])
    shorter, _ = play(["goes on"] * 10, stack=2, channels=1, envs=1, n=1, capacity=100, compression="none")
    with pytest.raises(RunError, match="steps in between are missing"):
        restore_segments(fresh(replay), [export_segment(shorter, np.array([0])), last])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("start_E", np.zeros(3, np.int64)),
        ("stop_E", np.array([-4])),
        ("stop_E", np.array([10**9])),
        ("rewards", np.zeros(5, np.float32)),
        ("actions", np.zeros(30, np.float64)),
        ("packed", np.zeros(10, np.uint8)),
        ("packed_sizes", np.array([3])),
        ("packed", None),
    ],
)
def test_a_segment_that_does_not_fit_is_refused_with_a_sentence(name, value):
    replay, _ = play(["goes on"] * 30, stack=2, channels=1, envs=1, n=1, capacity=100, compression="none")
    segment = export_segment(replay, np.zeros(1, np.int64))
    if value is None:
        del segment[name]
    else:
        segment[name] = value
    with pytest.raises(RunError, match="does not fit this run"):
        restore_segments(fresh(replay), [segment])
