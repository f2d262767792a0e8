"""TensorBoard events, in addition to metrics.jsonl."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from dsacc.errors import ConfigError
from dsacc.system.extras import how_to_install

SECONDS = 1  # after which an event is on disk; a thread of its own writes it


class Events:
    """Writes the rows of metrics.jsonl as TensorBoard events too, and what else is recorded, such as test scores."""

    def __init__(self, run: Path) -> None:
        try:
            from tensorboardX import SummaryWriter
        except ImportError as error:
            raise ConfigError(
                "TensorBoard events need the package tensorboardX; "
                f"`{how_to_install('tensorboard')}` installs it and TensorBoard itself"
            ) from error
        folder = str(run / "tensorboard")
        self._make: Callable[[int], Any] = lambda step: SummaryWriter(folder, purge_step=step, flush_secs=SECONDS)
        self._writer: Any = None

    def add(self, row: dict[str, Any]) -> None:
        self._writer = self._writer or self._make(row["step"])  # rows after the last checkpoint are written again
        for name, value in row.items():
            if name != "step" and value is not None:
                self._writer.add_scalar(name, value, row["step"])

    def close(self) -> None:
        """Wait until everything is on disk. More may be added afterwards, to a new file."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None
