"""Videos of an agent: what it sees, what it would do, and how its critics value that."""

from dsacc.views.watch.play import Watched, watch

__all__ = ["Watched", "watch"]
