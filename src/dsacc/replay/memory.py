"""How much memory a replay needs, and how much there is."""

import math
from pathlib import Path

import numpy as np
import psutil

from dsacc.agent.observation import ObservationSpec
from dsacc.config import Config

SLOT_BYTES = 8 + 4 + 4 + 1 + 1  # action, reward, entropy, what comes after, pictures since the start
TYPICAL_COMPRESSION = 4.0  # the least that nine Atari games gave (UpNDown); most give 10 to 30


def memory_needed(config: Config, spec: ObservationSpec, stack: int, steps: int) -> int:
    """Bytes of a replay once `steps` agent steps have been stored; an upper estimate where it is compressed."""
    slots = min(config.replay_size, steps)
    frame = math.prod(spec.shape) // stack * np.dtype(spec.dtype).itemsize
    if config.replay_compression != "none":
        return int(slots * (frame / TYPICAL_COMPRESSION + 64 + SLOT_BYTES))
    return slots * (frame + SLOT_BYTES)


def free_memory() -> int:
    """Bytes that this process can still take: the machine's, or its container's if that is less."""
    return min(int(psutil.virtual_memory().available), _container_memory())


def _container_memory() -> int:
    """What a control group leaves, by version 2 or 1 of its files; a huge number where there is no limit."""
    root = Path("/sys/fs/cgroup")
    files = [("memory.max", "memory.current"), ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes")]
    for limit, used in files:
        try:
            return int((root / limit).read_text()) - int((root / used).read_text())
        except (OSError, ValueError):  # not Linux, no such file, or "max"
            continue
    return 2**62


def resident_memory() -> int:
    """Bytes of this process that are in memory now."""
    return int(psutil.Process().memory_info().rss)
