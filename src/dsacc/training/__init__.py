"""The training loop, its random streams, and the session that ties it to a run folder."""
