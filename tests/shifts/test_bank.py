"""A bank is its seed: whatever is drawn first, and by however many threads or processes."""

import gc
import hashlib
import subprocess
import sys
import weakref
from concurrent.futures import ThreadPoolExecutor

import cv2
import numpy as np
import pytest

from dsacc.errors import ConfigError
from dsacc.shifts import Kind, bank, find_kind
from dsacc.shifts.bank import MEMORY, SIZE, Bank
from dsacc.shifts.kinds import Drawn

SHAPE = (40, 30, 3)
PICTURE = np.random.default_rng(0).integers(256, size=SHAPE, dtype=np.uint8)
NOISE = find_kind("gaussian_noise")


def digest(members: Bank) -> str:
    return hashlib.sha256(b"".join(members[i](PICTURE).tobytes() for i in range(len(members)))).hexdigest()


def new(seed: int = 3, kind: Kind = NOISE, level: int | None = None, size: int = 12) -> Bank:
    return Bank(kind, level, SHAPE, seed, size)


def test_the_order_of_drawing_changes_nothing():
    backwards = new()
    for i in reversed(range(12)):
        backwards[i]
    assert digest(backwards) == digest(new()) == digest(new().fill())


def test_threads_change_nothing():
    threaded, before = new(), cv2.getNumThreads()
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda i: threaded[i % 12], range(48)))
    try:
        cv2.setNumThreads(1)
        alone = digest(new())
        cv2.setNumThreads(4)
        assert digest(threaded) == alone == digest(new())
    finally:
        cv2.setNumThreads(before)


def test_another_process_draws_the_same():
    code = (
        "import numpy as np, hashlib; from dsacc.shifts import bank, find_kind; "
        f"b = bank(find_kind('gaussian_noise'), None, {SHAPE}, 3, 12); "
        f"p = np.random.default_rng(0).integers(256, size={SHAPE}, dtype=np.uint8); "
        "print(hashlib.sha256(b''.join(b[i](p).tobytes() for i in range(12))).hexdigest())"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == digest(new())


def test_members_seeds_levels_and_kinds_differ():
    one = new()
    assert len({one[i](PICTURE).tobytes() for i in range(12)}) == 12
    several = [new(), new(4), new(level=1), new(level=2), new(kind=find_kind("salt_pepper"))]
    assert len({digest(b) for b in several}) == 5


def test_a_member_is_drawn_once_and_only_when_it_is_asked_for():
    drawn = []

    def draw(rng, shape, level):
        drawn.append(1)
        return Drawn(lambda seen: seen.copy(), 10)

    members = new(kind=Kind("counted", "picture", draw))
    assert len(drawn) == 1  # the first, for its size
    assert members[7] is members[7]
    assert (len(drawn), members.nbytes) == (2, 20)
    members.fill()
    assert (len(drawn), members.nbytes) == (12, 120)
    with pytest.raises(IndexError):
        members[12]


def test_a_bank_is_shared_and_the_last_three_outlive_their_holders():
    one = bank(NOISE, 2, SHAPE, 77)
    assert bank(NOISE, 2, SHAPE, 77) is one
    assert bank(NOISE, 2, SHAPE, 78) is not one
    assert len(one) == SIZE
    watched = weakref.ref(one)
    del one
    gc.collect()
    assert watched() is not None
    for seed in (79, 80, 81):
        bank(NOISE, 2, SHAPE, seed)
    gc.collect()
    assert watched() is None


def test_memory_stays_within_its_bound():
    def heavy(rng, shape, level):
        return Drawn(lambda seen: seen, 2_000_000)

    members = new(kind=Kind("heavy", "picture", heavy), size=256).fill()
    assert len(members) == MEMORY // 2_000_000 == 72
    assert members.nbytes < 150_000_000
    for name in ("gaussian_noise", "salt_pepper"):
        first = Bank(find_kind(name), None, (210, 160, 3), 0, SIZE)
        assert len(first) == SIZE
        assert first[0].nbytes * SIZE < 150_000_000


def test_vectors_are_drawn_each_time_and_not_kept():
    members = Bank(find_kind("bias", "vector"), 3, (4,), 0, 1000)
    x = np.zeros(4, np.float32)
    assert members[5] is not members[5]
    assert np.array_equal(members[5](x), members[5](x))
    assert members.fill().nbytes == 0
    assert len(members) == 1000


@pytest.mark.parametrize("seed", [-1, 1.5, "one", None, True])
def test_a_seed_that_is_none_is_refused(seed):
    with pytest.raises(ConfigError, match="the seed of a shift must be a whole number"):
        bank(NOISE, None, SHAPE, seed)


def test_an_empty_bank_is_refused():
    with pytest.raises(ConfigError, match="at least 1 member"):
        bank(NOISE, None, SHAPE, 0, 0)
