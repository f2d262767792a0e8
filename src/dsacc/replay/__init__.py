"""What was seen, stored once and put together again when it is sampled."""

from dsacc.replay.memory import memory_needed
from dsacc.replay.ring import Replay

__all__ = ["Replay", "memory_needed"]
