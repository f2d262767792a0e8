"""Videos of an agent: what it sees, what it would do, and what its critics make of it."""

from dsacc.views.watch.play import Watched, watch

__all__ = ["Watched", "watch"]
