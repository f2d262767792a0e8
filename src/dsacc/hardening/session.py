"""Hardening with a folder: what a checkpoint of it holds, and how it continues from one."""

from dsacc.errors import RunError
from dsacc.hardening.work import Work
from dsacc.runs import Checkpoint, Entry, RunFolder, model_bytes, parse_model
from dsacc.runs.session import FolderSession
from dsacc.system.packing import flatten, pack_arrays, unflatten, unpack_arrays

FORMAT = 2  # of hardening.safetensors; 1 had 16 clean and 16 augmented states per update


class HardenSession(FolderSession):
    """Ties hardening to its run folder. A checkpoint holds the student, its moments, and each round of states.

    The finished folder holds the student alone: states take much space and can be collected again.
    """

    def __init__(self, folder: RunFolder, work: Work, every: int) -> None:
        super().__init__(folder, work.model.to_file, every, str(work.model.learner.device))
        self.work = work
        self._segments: list[Entry] = []

    @property
    def step(self) -> int:
        return self.work.step

    @property
    def alone(self) -> bool:
        return self.step == self.work.recipe.updates

    def restore(self, checkpoint: Checkpoint) -> list[str]:
        work, manifest, path = self.work, checkpoint.manifest, self.folder.path
        model = parse_model(checkpoint.file("agent.safetensors"), path)
        if manifest.step == work.recipe.updates:  # killed after its last save, which holds the student alone
            work.model.learner.load_state(model.tensors)
            work.step = self.saved_step = manifest.step
            return []
        arrays, header = unpack_arrays(checkpoint.file("hardening.safetensors"), path)
        rounds = []
        for entry in manifest.segments:
            segment, about = unpack_arrays(self.folder.checkpoints.segment(entry), path / "replay" / entry.name)
            rounds.append((int(about["update"]), segment["observations"]))
        try:
            if header["format"] != FORMAT:
                raise ValueError(f"hardening.safetensors has format {header['format']}, this dsacc reads {FORMAT}")
            for update, observations in rounds:
                work.add(update, observations)
            work.model.learner.load_state(model.tensors)
            work.load_state(unflatten(arrays, header["state"]))
        except (KeyError, TypeError, ValueError, RuntimeError, AttributeError, IndexError) as error:
            raise RunError(f"the checkpoint of update {manifest.step} in {path} does not fit ({error})") from error
        self._segments, self.saved_step = list(manifest.segments), manifest.step
        return []

    def save(self, regular: bool) -> None:
        work, step = self.work, self.work.step
        work.student.publish()
        files = {"agent.safetensors": model_bytes(self.sound_model())}
        if self.alone:
            self.folder.write_checkpoint(step, regular, files, (), alone=True)
        else:
            for number in range(len(self._segments), len(work.rounds)):
                update, _ = work.rounds[number]
                data = pack_arrays({"observations": work.states_of(number)}, {"update": update})
                self._segments.append(self.folder.checkpoints.write_segment(update, data))
            arrays, plain = flatten(work.state())
            files["hardening.safetensors"] = pack_arrays(arrays, {"format": FORMAT, "state": plain})
            self.folder.write_checkpoint(step, regular, files, tuple(self._segments))
        self.saved_step = step
