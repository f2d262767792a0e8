"""What was seen, stored once and put together again when it is sampled."""

from dsacc.replay.memory import free_memory, memory_needed, resident_memory
from dsacc.replay.ring import Replay, Transitions

__all__ = ["Replay", "Transitions", "free_memory", "memory_needed", "resident_memory"]
