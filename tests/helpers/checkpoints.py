"""Reading checkpoints as a continued run does, with every segment of the replay; and ending in the middle of one."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dsacc.runs import Checkpoint, Checkpoints
from dsacc.runs.checkpoint import Manifest


def newest_intact(run: Path) -> Checkpoint | None:
    """The newest checkpoint whose files and segments all match their sha256."""
    checkpoints = Checkpoints(run)

    def read_segments(found: Checkpoint) -> None:
        for entry in found.manifest.segments:
            checkpoints.segment(entry)

    return checkpoints.newest(read_segments)


@contextmanager
def killed_in_its_last_save(step: int) -> Iterator[None]:
    """Whoever writes the checkpoint of this step is interrupted before it removes what is no longer needed."""

    def prune(self: Checkpoints, newest: Manifest, *how: bool) -> None:
        if newest.step == step:
            raise KeyboardInterrupt
        plain(self, newest, *how)

    plain = Checkpoints.prune
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Checkpoints, "prune", prune)
        yield
