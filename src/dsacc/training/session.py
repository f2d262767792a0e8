"""A run with a folder: begun or continued, saved on schedule, stopped, finished. The loop itself is `Trainer`'s."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from dsacc.errors import RunError, TrainingDiverged
from dsacc.replay.segments import export_segment, needed_from, restore_segments
from dsacc.runs import Checkpoint, Entry, ModelFile, RunFolder, model_bytes, parse_model
from dsacc.runs.events import Events
from dsacc.system.memory import resident_memory
from dsacc.system.packing import flatten, pack_arrays, unflatten, unpack_arrays
from dsacc.system.types import Array
from dsacc.training.loop import Row, Trainer


class Session:
    """Ties a trainer to its run folder. `model_file` gives the agent as it is now."""

    def __init__(
        self, folder: RunFolder, trainer: Trainer, model_file: Callable[[], ModelFile], tensorboard: bool = False
    ) -> None:
        self.folder, self.trainer, self._model_file = folder, trainer, model_file
        self._events = Events(folder.path) if tensorboard else None
        self.saved_step = 0
        # What the last regular checkpoint refers to; a later one adds what is new since then.
        self._segments: list[tuple[Entry, Array]] = []  # with the counts at which each ends
        self._base_E = np.zeros(len(trainer.envs), np.int64)
        self._clock = Clock(0)

    def begin(self) -> list[str]:
        """Take the lock, then start the run or go on with it; returns sentences that the user should read."""
        folder = self.folder
        said = folder.open({"device": str(self.trainer.learner.device), "threads": torch.get_num_threads()})
        try:
            if folder.checkpoint is not None:
                said += self._continue(folder.checkpoint)
            folder.set_status("running", self.trainer.step)
        except BaseException:
            folder.release()
            raise
        self._clock = Clock(self.trainer.step)
        return said

    def _continue(self, checkpoint: Checkpoint) -> list[str]:
        trainer, manifest, path = self.trainer, checkpoint.manifest, self.folder.path
        model = parse_model(checkpoint.files["agent.safetensors"], path)
        arrays, header = unpack_arrays(checkpoint.files["trainer.safetensors"], path)
        ends: list[tuple[Entry, Array]] = []

        def segments() -> Any:
            for entry in manifest.segments:
                segment, _ = unpack_arrays(self.folder.checkpoints.segment(entry), path / "replay" / entry.name)
                ends.append((entry, segment["stop_E"].copy()))
                self._base_E = segment["start_E"].copy()
                yield segment

        restore_segments(trainer.replay, segments())
        try:
            state = unflatten(arrays, header["state"])
            if state["written"] != trainer.replay.written_E.tolist():
                raise ValueError("the replay ends at another step")
            trainer.learner.load_state(model.tensors)
            said = trainer.load_state(state)
        except (KeyError, TypeError, ValueError, RuntimeError, AttributeError) as error:
            raise RunError(
                f"the checkpoint of step {manifest.step} in {path} does not fit this run ({error})"
            ) from error
        self._segments = ends
        if manifest.regular:
            self._base_E = trainer.replay.written_E.copy()
        else:
            self._segments = ends[:-1]  # its last piece was cut short by a stop, and is made again, whole
        self.saved_step = manifest.step
        return said

    # --- while it goes on ---

    def log(self, row: Row) -> None:
        self.folder.log("metrics.jsonl", row)
        self.folder.log("timing.jsonl", self._clock.row(self.trainer.step))
        if self._events is not None:
            self._events.add(row)
        self.folder.set_status("running", self.trainer.step)

    def after_step(self, before: int) -> None:
        """Called between two steps of the loop, where everything is consistent."""
        self.folder.beat()
        every = self.trainer.config.checkpoint_every
        if self.trainer.step // every > before // every:
            self.save(regular=True)

    def save(self, regular: bool) -> None:
        """A checkpoint of this moment. Weights that are not finite are not saved over good ones."""
        trainer, step = self.trainer, self.trainer.step
        model = self._model_file()
        for name, tensor in model.tensors.items():
            sound = ~torch.isnan(tensor) if name == "log_alpha" else torch.isfinite(tensor)  # alpha 0 is -inf there
            if not bool(sound.all()):
                raise TrainingDiverged(
                    f"{name} is not finite at step {step}; step {self.saved_step} is the last good one"
                )
        arrays, plain = flatten(trainer.state())
        files = {"agent.safetensors": model_bytes(model), "trainer.safetensors": pack_arrays(arrays, {"state": plain})}
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

    def finish(self) -> None:
        if self.saved_step != self.trainer.step:
            self.save(regular=False)
        self.folder.close("finished", self.trainer.step)

    def stop(self) -> None:
        """Save and leave; the same command goes on from here."""
        if self.saved_step != self.trainer.step:
            self.save(regular=False)
        self.folder.close("stopped", self.trainer.step)

    def fail(self, error: BaseException) -> None:
        """Leave as it is; the same command goes on from the last checkpoint."""
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
