"""Work that is kept in a run folder: begun or continued, saved on schedule, stopped, finished.

What the work is, training or hardening, is up to a subclass. It says how far the work is (`step`) and writes it
(`save`) and restores it (`restore`).
"""

import time
import warnings
from abc import abstractmethod
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any

import torch

from dsacc.errors import Stopped, TrainingDiverged
from dsacc.runs.checkpoint import Checkpoint
from dsacc.runs.events import Events
from dsacc.runs.folder import RunFolder
from dsacc.runs.model_file import ModelFile
from dsacc.system.memory import resident_memory
from dsacc.system.signals import StopSignals

Row = dict[str, Any]


class Unsaved(AbstractContextManager["Unsaved"]):
    """The session of a run that leaves nothing on disk."""

    def log(self, row: Row) -> None:
        """Keep a row of metrics."""

    def after_step(self, before: int) -> None:
        """Called between two steps of the loop; `before` is the step of the last call."""

    def pause(self) -> None:
        """Called now and then inside a step that takes long."""

    def record(self, values: Mapping[str, float]) -> None:
        """Keep numbers of the user's own, such as test scores, at the present step."""

    def stop(self) -> None:
        """Say that the work ends early, where a callback asked for it."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        return None


class FolderSession(Unsaved):
    """Ties some work to its run folder, from entering the `with` block to leaving it.

    Entering takes the folder's lock and restores the newest checkpoint. Leaving saves: work that came to its end is
    finished, work that a signal or a callback stopped is saved, and any other error leaves the last checkpoint for the
    next attempt. `model_file` gives the agent as it is now.
    """

    def __init__(
        self, folder: RunFolder, model_file: Callable[[], ModelFile], every: int, device: str, tensorboard: bool = False
    ) -> None:
        """`every` is the number of steps between two regular checkpoints."""
        self.folder, self.every, self._model_file, self._device = folder, every, model_file, device
        self._events = Events(folder.path) if tensorboard else None
        self._signals = StopSignals()
        self._ends_as = "finished"
        self.saved_step = 0
        self._clock = Clock(0)

    @property
    @abstractmethod
    def step(self) -> int:
        """How far the work is."""

    @property
    def alone(self) -> bool:
        """Whether the checkpoint of the present step is kept without any older one."""
        return False

    @abstractmethod
    def restore(self, checkpoint: Checkpoint) -> list[str]:
        """Put everything back as it was; returns sentences that the user should read."""

    @abstractmethod
    def save(self, regular: bool) -> None:
        """Write a checkpoint and set `saved_step`. Weights that are not finite never replace good ones."""

    def __enter__(self) -> "FolderSession":
        for sentence in self.begin():
            warnings.warn(sentence, stacklevel=3)
        self._signals.__enter__()
        return self

    def begin(self) -> list[str]:
        """Take the lock, then start the work or continue it; returns sentences that the user should read."""
        folder, said = self.folder, list[str]()
        runtime = {"device": self._device, "threads": torch.get_num_threads()}
        said += folder.open(runtime, lambda checkpoint: said.extend(self.restore(checkpoint)))
        try:
            if (found := folder.checkpoint) is not None and not found.passed_over:
                folder.checkpoints.prune(found.manifest, self.alone)  # a kill may have come before that was done
            folder.set_status("running", self.step)
        except BaseException:
            folder.release()
            raise
        self._clock = Clock(self.step)
        return said

    def log(self, row: Row) -> None:
        self.folder.log("metrics.jsonl", row)
        self.folder.log("timing.jsonl", self._clock.row(self.step))
        if self._events is not None:
            self._events.add(row)
        self.folder.set_status("running", self.step)

    def after_step(self, before: int) -> None:
        """Show that the process is alive, save where a checkpoint is due, and stop where a signal asked for it."""
        self.folder.beat()
        if self.step // self.every > before // self.every:
            self.save(regular=True)
        self._signals.check()

    def pause(self) -> None:
        """Show that the process is alive, and stop where a signal asked for it."""
        self.folder.beat()
        self._signals.check()

    def record(self, values: Mapping[str, float]) -> None:
        if self._events is not None:
            self._events.add({"step": self.step, **values})

    def stop(self) -> None:
        self._ends_as = "stopped"

    def sound_model(self) -> ModelFile:
        """The agent as it is now, with finite weights; raises TrainingDiverged where they are not."""
        model = self._model_file()
        for name, tensor in model.tensors.items():
            sound = ~torch.isnan(tensor) if name == "log_alpha" else torch.isfinite(tensor)  # alpha 0 is -inf there
            if not bool(sound.all()):
                last = f"the last good checkpoint is that of step {self.saved_step}"
                raise TrainingDiverged(f"{name} is not finite at step {self.step}; {last}")
        return model

    # --- endings ---

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            if error is None or isinstance(error, Stopped):
                self._end(self._ends_as if error is None else "stopped")
            else:
                self.fail(error)
        finally:
            if self._events is not None:
                self._events.close()
            self._signals.__exit__(kind, error, traceback)

    def _end(self, state: str) -> None:
        """Save and release the folder; it is released also where saving fails, on a full disk say."""
        try:
            if self.saved_step != self.step:
                self.save(regular=False)
            self.folder.close(state, self.step)
        except BaseException as error:
            self.fail(error)
            raise

    def fail(self, error: BaseException) -> None:
        """Release the folder as it is; the same command continues from the last checkpoint."""
        state = "stopped" if isinstance(error, KeyboardInterrupt) else "failed"
        self.folder.close(state, self.step, str(error) or type(error).__name__)


class Clock:
    """Rows of timing.jsonl: seconds since the start, the speed since the last row, and the process's memory."""

    def __init__(self, step: int) -> None:
        self.began = self.last = time.monotonic()
        self.step = step

    def row(self, step: int) -> Row:
        now = time.monotonic()
        speed = (step - self.step) / max(now - self.last, 1e-9)
        self.last, self.step = now, step
        return {
            "step": step,
            "seconds": round(now - self.began, 3),
            "steps_per_second": round(speed, 1),
            "resident_mb": round(resident_memory() / 1e6, 1),
        }
