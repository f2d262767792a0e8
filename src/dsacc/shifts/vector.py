"""Shifts of vectors: what a worn or broken sensor returns.

A change works in units in which the range of each entry is 2. `Shift` divides by half the range that the space gives,
where it is known, and multiplies afterwards. So a level is as strong for an angle as for a position. Zero stays zero.
"""

import numpy as np

from dsacc.shifts.kinds import Change, Drawn, Level, register, strength

NOISE = (0.02, 0.05, 0.1, 0.2, 0.4)  # standard deviation, in units of half an entry's range
DROPOUT = (0.05, 0.1, 0.2, 0.35, 0.5)  # probability that an entry is lost
BIAS = (0.02, 0.05, 0.1, 0.2, 0.4)  # in units of half an entry's range


def gaussian_noise(rng: np.random.Generator, shape: tuple[int, ...], level: Level) -> Change:
    """Normal noise on each entry; drawn again for each frame in the mode `independent`."""
    noise = rng.standard_normal(shape, np.float32) * np.float32(strength(rng, level, NOISE))
    return Drawn(lambda seen: seen + noise, noise.nbytes)


def dropout(rng: np.random.Generator, shape: tuple[int, ...], level: Level) -> Change:
    """Entries that read zero."""
    lost = rng.random(shape) < strength(rng, level, DROPOUT)
    return Drawn(lambda seen: np.where(lost, np.float32(0), seen), lost.nbytes)


def bias(rng: np.random.Generator, shape: tuple[int, ...], level: Level) -> Change:
    """Every entry reads too high or too low by the same amount; for a whole episode in modes `frozen` and `falling`."""
    offset = rng.choice(np.array([-1, 1], np.float32), shape) * np.float32(strength(rng, level, BIAS))
    return Drawn(lambda seen: seen + offset, offset.nbytes)


for kind in (gaussian_noise, dropout, bias):
    register(kind.__name__, kind, on="vector")
