"""A training run with a folder. The loop itself is in `Trainer`, what any kept work shares in `FolderSession`."""

from collections.abc import Callable, Iterator

import numpy as np

from dsacc.errors import RunError
from dsacc.replay.segments import export_segment, needed_from, restore_segments
from dsacc.runs import Checkpoint, Entry, ModelFile, RunFolder, model_bytes, parse_model
from dsacc.runs.session import FolderSession
from dsacc.system.packing import flatten, pack_arrays, unflatten, unpack_arrays
from dsacc.system.types import Array
from dsacc.training.loop import Trainer

FORMAT = 1  # of trainer.safetensors; files without a number are of format 1 too


class Session(FolderSession):
    """Ties a trainer to its run folder. A checkpoint holds the agent, the trainer and what is new in the replay."""

    def __init__(
        self, folder: RunFolder, trainer: Trainer, model_file: Callable[[], ModelFile], tensorboard: bool = False
    ) -> None:
        every, device = trainer.config.checkpoint_every, str(trainer.learner.device)
        super().__init__(folder, model_file, every, device, tensorboard)
        self.trainer = trainer
        # What the last regular checkpoint refers to; a later one adds what is new since then.
        self._segments: list[tuple[Entry, Array]] = []  # each with the counts at which it ends
        self._base_E = np.zeros(len(trainer.envs), np.int64)

    @property
    def step(self) -> int:
        return self.trainer.step

    def after_step(self, before: int) -> None:
        """Log the episodes that have just ended, before a checkpoint records how many there are."""
        for episode in self.trainer.ended:
            self.folder.log("episodes.jsonl", episode)
        super().after_step(before)

    def restore(self, checkpoint: Checkpoint) -> list[str]:
        """Put replay, learner and trainer back as they were; returns sentences that the user should read."""
        trainer, manifest, path = self.trainer, checkpoint.manifest, self.folder.path
        model = parse_model(checkpoint.file("agent.safetensors"), path)
        arrays, header = unpack_arrays(checkpoint.file("trainer.safetensors"), path)
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

    def save(self, regular: bool) -> None:
        trainer, step = self.trainer, self.trainer.step
        model = self.sound_model()
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
