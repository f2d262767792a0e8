"""Drawing by priorities: how often, with which weights, and only what can be rebuilt."""

import numpy as np
import pytest

from dsacc.agent.observation import ObservationSpec
from dsacc.config import make_config
from dsacc.replay import Replay, memory_needed
from dsacc.replay.priorities import Priorities

SPEC = ObservationSpec("vector", (1,))


def filled(steps: int, capacity: int = 64, envs: int = 1, **settings: float) -> Replay:
    """Rewards are the number of the step; the episode is truncated at each tenth."""
    replay = Replay(capacity, SPEC, 3, envs=envs, **{"priority_exponent": 1.0, **settings})
    for step in range(steps):
        seen, then = np.full(1, step, np.float32), np.full(1, step + 1, np.float32)
        replay.add(seen, 0, step, False, step // envs % 10 == 9, then, env=step % envs)
    return replay


@pytest.mark.parametrize("slots", [1, 2, 5, 64, 1000])
def test_slots_are_drawn_in_proportion_to_a_power_of_their_errors(slots):
    rng = np.random.default_rng(slots)
    errors = rng.standard_normal(slots)
    priorities = Priorities(slots, 0.5)
    priorities.learned(np.arange(slots), errors)
    wanted = np.sqrt(np.abs(errors)) / np.sqrt(np.abs(errors)).sum()
    count = 400_000
    found = np.bincount(priorities.draw(count, rng), minlength=slots)
    assert (np.abs(found - count * wanted) < 5 * np.sqrt(count * wanted) + 1).all()


def test_the_tree_follows_from_its_leaves_whatever_was_written_before():
    rng, tree = np.random.default_rng(0), Priorities(37, 0.7)
    for _ in range(50):
        tree.put(int(rng.integers(37)), drawn=bool(rng.integers(2)))
        slots = rng.integers(37, size=8)
        tree.learned(slots, np.arange(8.0)[np.unique(slots, return_inverse=True)[1]])
    again = Priorities(37, 0.7)
    again.load_state(tree.state())
    assert (again._sums == tree._sums).all()
    assert again.largest == tree.largest
    assert (again.draw(100, np.random.default_rng(1)) == tree.draw(100, np.random.default_rng(1))).all()


@pytest.mark.parametrize("wrong", [np.ones(36), np.full(37, -1.0), np.full(37, np.nan)])
def test_priorities_of_another_memory_are_refused(wrong):
    with pytest.raises(ValueError, match="another memory"):
        Priorities(37, 0.7).load_state({"priorities": wrong, "largest": 1.0})


def test_what_was_never_learned_from_comes_first():
    replay, rng = filled(30), np.random.default_rng(0)
    for _ in range(50):
        t = replay.sample(16, rng)
        replay.priorities.learned(t.slot_B, np.full(16, 1e-9))
    replay.add(np.zeros(1, np.float32), 0, 99, True, False, np.zeros(1, np.float32))
    assert (replay.sample(16, rng).rewards_BN[:, 0] == 99).mean() > 0.9


@pytest.mark.parametrize("envs", [1, 3])
def test_only_transitions_that_can_be_rebuilt_are_drawn_before_and_after_the_ring_is_full(envs):
    for steps in (10 * envs, 35 * envs, 300):
        replay = filled(steps, 20 * envs, envs)
        seen = set()
        for seed in range(200):
            t = replay.sample(8, np.random.default_rng(seed))
            first = t.rewards_BN[:, 0]
            seen |= set(first.tolist())
            for row, m in zip(t.rewards_BN, t.steps_B, strict=True):
                assert row[:m].tolist() == [row[0] + envs * k for k in range(m)]
            replay.priorities.learned(t.slot_B, np.random.default_rng(seed).standard_normal(8))
        uniform = filled(steps, 20 * envs, envs, priority_exponent=0.0)
        assert seen == set(uniform.sample(4000, np.random.default_rng(0)).rewards_BN[:, 0].tolist())


@pytest.mark.parametrize("correction", [0.0, 0.5, 1.0])
def test_weights_make_up_for_what_is_drawn_often(correction):
    replay, rng = filled(40, priority_correction=correction), np.random.default_rng(0)
    every = np.arange(44)  # 40 steps, and what was seen after four episodes
    replay.priorities.learned(every, 1.0 + every)
    t = replay.sample(64, rng)
    p = 1.0 + t.slot_B
    np.testing.assert_allclose(t.weight_B, (p.min() / p) ** correction, rtol=1e-4)
    assert t.weight_B.max() == 1


def test_a_uniform_replay_has_no_weights_and_needs_no_more_memory():
    plain, drawn = filled(40, priority_exponent=0.0), filled(40)
    t = plain.sample(4, np.random.default_rng(0))
    assert (t.weight_B, t.slot_B) == (None, None)
    assert drawn.nbytes - plain.nbytes == 2 * 64 * 8
    config = make_config(replay_size=64, n_step=3, priority_exponent=1.0)
    assert memory_needed(config, SPEC, 1, 1_000) == drawn.nbytes
