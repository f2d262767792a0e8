"""How much memory a replay needs."""

import math

import numpy as np

from dsacc.agent.observation import ObservationSpec
from dsacc.config import Config
from dsacc.replay.priorities import tree_bytes
from dsacc.replay.ring import COLUMNS, mask_bytes

SLOT_BYTES = sum(np.dtype(kind).itemsize for kind in COLUMNS.values())
TYPICAL_COMPRESSION = 4.0  # the lowest of nine Atari games (UpNDown); most reach 10 to 30


def memory_needed(config: Config, spec: ObservationSpec, stack: int, steps: int, masked: int = 0) -> int:
    """Bytes of a replay once `steps` agent steps have been stored; an upper estimate where it is compressed.

    `masked` is the number of actions where masks are kept.
    """
    slots, slot = min(config.replay_size, steps), SLOT_BYTES + mask_bytes(masked)
    tree = tree_bytes(config.replay_size // config.envs * config.envs) if config.priority_exponent else 0
    frame = math.prod(spec.shape) // stack * np.dtype(spec.dtype).itemsize
    if config.replay_compression != "none":
        return int(slots * (frame / TYPICAL_COMPRESSION + 64 + slot)) + tree
    return slots * (frame + slot) + tree
