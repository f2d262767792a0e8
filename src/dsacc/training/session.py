"""A run with a folder: begun or continued, saved on schedule, stopped, finished. The loop itself is in `Trainer`."""

import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from types import TracebackType

import numpy as np
import torch

from dsacc.errors import RunError, Stopped, TrainingDiverged
from dsacc.replay.segments import export_segment, needed_from, restore_segments
from dsacc.runs import Checkpoint, Entry, ModelFile, RunFolder, model_bytes, parse_model
from dsacc.runs.events import Events
from dsacc.system.memory import resident_memory
from dsacc.system.packing import flatten, pack_arrays, unflatten, unpack_arrays
from dsacc.system.signals import StopSignals
from dsacc.system.types import Array
from dsacc.training.loop import Row, Trainer

FORMAT = 1  # of trainer.safetensors; files without a number are of format 1 too


class Unsaved(AbstractContextManager["Unsaved"]):
    """The session of a run that leaves nothing on disk."""

    def log(self, row: Row) -> None:
        """Keep a row of metrics."""

    def after_step(self, before: int) -> None:
        """Called between two steps of the loop; `before` is the step of the last call."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        return None


class Session(Unsaved):
    """Ties a trainer to its run folder, from entering the `with` block to leaving it.

    Entering takes the folder's lock and restores the newest checkpoint. Leaving saves: a run that came to its end is
    finished, one that a signal stopped is saved, and any other error leaves the last checkpoint for the next attempt.
    `model_file` gives the agent as it is now.
    """

    def __init__(
        self, folder: RunFolder, trainer: Trainer, model_file: Callable[[], ModelFile], tensorboard: bool = False
    ) -> None:
        self.folder, self.trainer, self._model_file = folder, trainer, model_file
        self._events = Events(folder.path) if tensorboard else None
        self._signals = StopSignals()
        self.saved_step = 0
        # What the last regular checkpoint refers to; a later one adds what is new since then.
        self._segments: list[tuple[Entry, Array]] = []  # each with the counts at which it ends
        self._base_E = np.zeros(len(trainer.envs), np.int64)
        self._clock = Clock(0)

    def __enter__(self) -> "Session":
        for sentence in self.begin():
            warnings.warn(sentence, stacklevel=3)
        self._signals.__enter__()
        return self

    def begin(self) -> list[str]:
        """Take the lock, then start the run or continue it; returns sentences that the user should read."""
        folder, said = self.folder, list[str]()
        runtime = {"device": str(self.trainer.learner.device), "threads": torch.get_num_threads()}
        said += folder.open(runtime, lambda checkpoint: said.extend(self._restore(checkpoint)))
        try:
            folder.set_status("running", self.trainer.step)
        except BaseException:
            folder.release()
            raise
        self._clock = Clock(self.trainer.step)
        return said

    def _restore(self, checkpoint: Checkpoint) -> list[str]:
        """Put replay, learner and trainer back as they were; returns sentences that the user should read."""
        trainer, manifest, path = self.trainer, checkpoint.manifest, self.folder.path
        model = parse_model(checkpoint.files["agent.safetensors"], path)
        arrays, header = unpack_arrays(checkpoint.files["trainer.safetensors"], path)
        ends: list[tuple[Entry, Array]] = []

        def segments() -> Iterator[dict[str, Array]]:
            for entry in manifest.segments:
                segment, _ = unpack_arrays(self.folder.checkpoints.segment(entry), path / "replay" / entry.name)
                ends.append((entry, segment["stop_E"].copy()))
                self._base_E = segment["start_E"].copy()
                yield segment

        restore_segments(trainer.replay, segments())
        try:
            if header.get("format", FORMAT) != FORMAT:
                raise ValueError(f"trainer.safetensors has format {header['format']}, this dsacc reads {FORMAT}")
            state = unflatten(arrays, header["state"])
            if state["written"] != trainer.replay.written_E.tolist():
                raise ValueError("the replay ends at another step")
            trainer.learner.load_state(model.tensors)
            said = trainer.load_state(state)
        except (KeyError, TypeError, ValueError, RuntimeError, AttributeError) as error:
            raise RunError(
                f"the checkpoint of step {manifest.step} in {path} does not fit this run ({error})"
            ) from error
        if manifest.regular:
            self._segments, self._base_E = ends, trainer.replay.written_E.copy()
        else:
            self._segments = ends[:-1]  # a stop cut its last segment short: it is written again, whole
        self.saved_step = manifest.step
        return said

    # --- during the run ---

    def log(self, row: Row) -> None:
        self.folder.log("metrics.jsonl", row)
        self.folder.log("timing.jsonl", self._clock.row(self.trainer.step))
        if self._events is not None:
            self._events.add(row)
        self.folder.set_status("running", self.trainer.step)

    def after_step(self, before: int) -> None:
        """Show that the process is alive, save where a checkpoint is due, and stop where a signal asked for it."""
        self.folder.beat()
        every = self.trainer.config.checkpoint_every
        if self.trainer.step // every > before // every:
            self.save(regular=True)
        self._signals.check()

    def save(self, regular: bool) -> None:
        """Write a checkpoint. Weights that are not finite never replace good ones."""
        trainer, step = self.trainer, self.trainer.step
        model = self._model_file()
        for name, tensor in model.tensors.items():
            sound = ~torch.isnan(tensor) if name == "log_alpha" else torch.isfinite(tensor)  # alpha 0 is -inf there
            if not bool(sound.all()):
                raise TrainingDiverged(
                    f"{name} is not finite at step {step}; the last good checkpoint is that of step {self.saved_step}"
                )
        arrays, plain = flatten(trainer.state())
        files = {
            "agent.safetensors": model_bytes(model),
            "trainer.safetensors": pack_arrays(arrays, {"format": FORMAT, "state": plain}),
        }
        data = pack_arrays(export_segment(trainer.replay, self._base_E), {})
        entry = self.folder.checkpoints.write_segment(step, data)
        needed = needed_from(trainer.replay)
        segments = [(e, end) for e, end in self._segments if (end > needed).any()]
        segments.append((entry, trainer.replay.written_E.copy()))
        self.folder.write_checkpoint(step, regular, files, tuple(e for e, _ in segments))
        self.saved_step = step
        if regular:
            self._segments, self._base_E = segments, trainer.replay.written_E.copy()

    # --- endings ---

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            if error is None or isinstance(error, Stopped):
                self._end("finished" if error is None else "stopped")
            else:
                self.fail(error)
        finally:
            self._signals.__exit__(kind, error, traceback)

    def _end(self, state: str) -> None:
        """Save, and release the folder. It is released even if saving fails, for example on a full disk."""
        try:
            if self.saved_step != self.trainer.step:
                self.save(regular=False)
            self.folder.close(state, self.trainer.step)
        except BaseException as error:
            self.fail(error)
            raise

    def fail(self, error: BaseException) -> None:
        """Release the folder as it is; the same command continues from the last checkpoint."""
        state = "stopped" if isinstance(error, KeyboardInterrupt) else "failed"
        self.folder.close(state, self.trainer.step, str(error) or type(error).__name__)


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
