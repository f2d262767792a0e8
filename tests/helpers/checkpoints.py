"""Reading checkpoints as a continued run does: with every segment of the replay."""

from pathlib import Path

from dsacc.runs import Checkpoint, Checkpoints


def newest_intact(run: Path) -> Checkpoint | None:
    """The newest checkpoint whose files and segments all match their sha256."""
    checkpoints = Checkpoints(run)

    def read_segments(found: Checkpoint) -> None:
        for entry in found.manifest.segments:
            checkpoints.segment(entry)

    return checkpoints.newest(read_segments)
