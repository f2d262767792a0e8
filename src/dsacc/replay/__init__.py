"""What was seen, stored once and put together again when it is sampled."""

from dsacc.replay.memory import memory_needed
from dsacc.replay.ring import Replay, Transitions

__all__ = ["Replay", "Transitions", "memory_needed"]
