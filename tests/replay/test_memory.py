"""What a replay keeps beside observations, and the bytes that all of it takes."""

import numpy as np
import pytest

from dsacc.agent.observation import ObservationSpec
from dsacc.config import make_config
from dsacc.replay import Replay
from dsacc.replay.memory import memory_needed
from dsacc.replay.segments import export_segment, needed_from, restore_segments

VECTOR = ObservationSpec("vector", (1,))
SLOT = 18  # bytes beside an observation: action, reward, entropy, what comes after, how far the stack reaches
ACTIONS = 11  # of a mask: two bytes


def allowed(x: int) -> np.ndarray:
    """A mask that tells the state: its number in bits, and the last action always."""
    return np.array([x >> k & 1 for k in range(ACTIONS - 1)] + [1], bool)


def with_masks(envs: int = 2, ring: int = 8) -> Replay:
    """Each state has its number and its mask. Environment 1 counts from 500. The rings have been written around."""
    replay = Replay(ring * envs, VECTOR, 2, envs=envs)
    replay.keep_masks(ACTIONS)
    for i in range(13):
        for e in range(envs):
            x, truncated = 500 * e + 2 * i, i % 5 == 4
            seen, then = np.array([x], np.float32), np.array([x + 1], np.float32)
            masks = {"mask": allowed(x), "next_mask": allowed(x + 1)}
            replay.add(seen, 0, 0.0, False, truncated, then, env=e, **masks)
    return replay


def test_a_mask_is_that_of_its_state():
    replay = with_masks()
    t = replay.sample(200, np.random.default_rng(0))
    for shown, mask in ((t.observation, t.mask_BA), (t.next_observation, t.next_mask_BA)):
        assert mask.dtype == bool
        assert np.array_equal(mask, np.stack([allowed(int(x)) for x in shown[:, 0]]))
    assert {x // 500 for x in t.observation[:, 0]} == {0, 1}
    assert (t.next_observation[:, 0] % 2 == 1).any()  # the last look of an episode has a mask too


def test_masks_are_saved_and_put_back():
    replay, again = with_masks(), Replay(16, VECTOR, 2, envs=2)
    again.keep_masks(ACTIONS)
    restore_segments(again, [export_segment(replay, np.zeros(2, np.int64))])
    a, b = (r.sample(50, np.random.default_rng(0)) for r in (replay, again))
    assert np.array_equal(a.mask_BA, b.mask_BA)
    assert np.array_equal(a.next_mask_BA, b.next_mask_BA)
    older = Replay(16, VECTOR, 2, envs=2)
    for _ in range(4):
        older.add(np.zeros(1, np.float32), 0, 0.0, False, False, np.zeros(1, np.float32))
    empty = Replay(16, VECTOR, 2, envs=2)
    empty.keep_masks(ACTIONS)
    restore_segments(empty, [export_segment(older, np.zeros(2, np.int64))])
    assert empty.actions == 0  # a run that began without masks goes on without them


def test_without_masks_a_sample_has_none():
    replay = Replay(8, VECTOR)
    for _ in range(3):
        replay.add(np.zeros(1, np.float32), 0, 0.0, False, False, np.zeros(1, np.float32))
    t = replay.sample(4, np.random.default_rng(0))
    assert (t.mask_BA, t.next_mask_BA) == (None, None)


def test_the_bytes_of_a_plain_replay_are_what_was_estimated():
    picture, config = ObservationSpec("image", (4, 20, 20)), make_config(replay_size=100)
    assert Replay(100, picture, stack=4).nbytes == memory_needed(config, picture, 4, 1_000) == 100 * (400 + SLOT)
    assert Replay(100, VECTOR).nbytes == memory_needed(config, VECTOR, 1, 1_000) == 100 * (4 + SLOT)
    assert memory_needed(config, VECTOR, 1, 30) == 30 * (4 + SLOT)
    replay = Replay(100, VECTOR)
    replay.keep_masks(ACTIONS)
    assert replay.nbytes == memory_needed(config, VECTOR, 1, 1_000, masked=ACTIONS) == 100 * (4 + SLOT + 2)
    packed = make_config(replay_size=100, replay_compression="lz4")
    assert memory_needed(packed, picture, 4, 1_000) == 100 * (400 / 4 + 64 + SLOT)


def test_the_bytes_of_a_packed_replay_are_those_of_what_it_holds_now():
    spec, rng = ObservationSpec("image", (1, 16, 16)), np.random.default_rng(0)
    replay = Replay(20, spec, compression="lz4")
    empty = replay.nbytes
    assert empty == 20 * (SLOT + 16)
    for i in range(50):  # round and round: what is overwritten no longer counts
        frame = rng.integers(0, 256, (1, 16, 16), dtype=np.uint8)
        replay.add(frame, 0, 0.0, False, False, frame)
        held = [len(p) for p in replay.store.packed if p is not None]
        assert len(held) == min(i + 1, 20)
        assert replay.nbytes == empty + sum(held) + 48 * len(held)


@pytest.mark.parametrize(("steps", "first"), [(3, 0), (8, 0), (9, 1), (20, 12)])
def test_a_replay_needs_all_that_it_still_holds(steps, first):
    replay = Replay(8, VECTOR)
    for _ in range(steps):
        replay.add(np.zeros(1, np.float32), 0, 0.0, False, False, np.zeros(1, np.float32))
    assert needed_from(replay).tolist() == [first]
    assert len(replay) == min(steps, 8)
