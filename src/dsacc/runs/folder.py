"""A run folder: config.json, metrics.jsonl, episodes.jsonl, timing.jsonl, status.json, checkpoints/, replay/,
evaluations/, lock."""

import dataclasses
import errno
import json
import os
import platform
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any, Literal

from dsacc.config import Config
from dsacc.envs.record import in_words, is_other_game, is_record
from dsacc.errors import Damaged, RunError
from dsacc.runs.checkpoint import Checkpoint, Checkpoints, DamagedLog, Entry
from dsacc.runs.lock import RunLock
from dsacc.runs.logs import Log, is_as_recorded
from dsacc.runs.model_file import ModelFile, parse_model, read_model
from dsacc.system.files import disk_error, is_temporary, read_json, write_atomically
from dsacc.system.seals import CHANGED, holds, is_sealed, read_sealed, sealed, sealed_or_empty

FORMAT = 2  # of the folder; checkpoints and model files have their own
Found = Literal["new", "restart", "continue", "finished"]


class RunFolder:
    """The files of one run. The constructor only looks at what is there; nothing is written before `open`.

    `hardened` is how a student is made, where the run is one of `harden`: its steps are then updates of the student.
    `environment` is what it learns on (see `dsacc.envs.record`), where that is known.
    """

    def __init__(
        self,
        path: str | Path,
        config: Config,
        steps: int,
        hardened: Mapping[str, Any] | None = None,
        environment: Mapping[str, Any] | None = None,
    ) -> None:
        self.path, self.config, self.steps, self.hardened = Path(path), config, steps, hardened
        self.environment = environment
        self.checkpoints = Checkpoints(self.path)
        self.checkpoint: Checkpoint | None = None  # where the run continues
        self.found: Found = self._look()
        self._logs: dict[str, Log] = {}
        self._lock: RunLock | None = None

    def _look(self) -> Found:
        if not self.path.exists():
            return "new"
        if not self.path.is_dir():
            raise RunError(f"{self.path} is a file, not a run folder; choose another --out")
        if not (self.path / "config.json").is_file():
            if any(p.name != "lock" and not is_temporary(p, "config.json") for p in self.path.iterdir()):
                raise RunError(f"{self.path} contains files but no run; choose another --out")
            return "new"
        self._require_same_settings()
        status, damaged = {}, ""
        try:
            status = read_status(self.path)
        except RunError as error:  # then the newest checkpoint says how far it is
            damaged = str(error)
        if status.get("state") == "finished" and _count(status.get("step")) >= self.steps:
            return "finished"
        self.checkpoint = self.checkpoints.newest()
        if self.checkpoint is None and damaged:  # it may have been finished, and what it learned be put elsewhere
            raise RunError(f"{damaged}; restore it, or choose another --out")
        if self.checkpoint is None:
            return "restart"
        if self.checkpoint.manifest.step > self.steps:
            raise RunError(
                f"{self.path} is already at step {self.checkpoint.manifest.step}, beyond the {self.steps} steps asked "
                "for; raise --steps, or choose another --out"
            )
        return "continue"

    def _require_same_settings(self) -> None:
        content = read_json(self.path / "config.json")
        if content.get("format") != FORMAT:
            raise RunError(
                f"{self.path} has format {content.get('format')}, but this version of dsacc reads format {FORMAT}; "
                "use the version that wrote it, or choose another --out"
            )
        if is_sealed(content) and not holds(content):
            raise Damaged(f"{self.path / 'config.json'} {CHANGED}; restore it, or choose another --out")
        before = content.get("config")
        if not isinstance(before, dict):
            raise RunError(f"{self.path / 'config.json'} does not contain the settings of a run; choose another --out")
        how = content.get("hardened")
        if (how is None) != (self.hardened is None):
            there, here = ("a hardened agent", "a training run") if how else ("a training run", "a hardened agent")
            raise RunError(f"{self.path} contains {there}, not {here}; choose another --out")
        changes = differences(how or {}, self.hardened or {})
        changes = changes or differences(dataclasses.asdict(Config()) | before, dataclasses.asdict(self.config))
        if changes:
            raise RunError(f"{self.path} contains a run with other settings ({changes}); choose another --out")
        before = content.get("environment")
        known = isinstance(before, dict) and is_record(before)
        if self.environment and before and known and is_other_game(before, self.environment):
            both = f"{in_words(before)} there, {in_words(self.environment)} here"
            raise RunError(f"{self.path} contains a run in another environment ({both}); choose another --out")

    @property
    def step(self) -> int:
        """The step at which the run continues."""
        return 0 if self.checkpoint is None else self.checkpoint.manifest.step

    def open(self, runtime: Mapping[str, Any], restore: Callable[[Checkpoint], None]) -> list[str]:
        """Take the lock, `restore` the newest intact checkpoint if there is one, and open the logs: new, or as they
        were at the checkpoint. Returns notes for the user."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise disk_error(error, self.path, 0) from error
        self._lock = RunLock.acquire(self.path)
        said = [self._lock.taken_over] if self._lock.taken_over else []
        try:
            self.found = self._look()  # again: another process may have used it since
            if self.found == "finished":
                raise RunError(f"another process has just finished {self.path}; there is nothing left to do")
            if self.found == "continue":
                self.checkpoint = self.checkpoints.newest(lambda checkpoint: self._restore(checkpoint, restore))
            said += self._open_logs(runtime)
        except BaseException:
            self.release()
            raise
        return said

    def _restore(self, checkpoint: Checkpoint, restore: Callable[[Checkpoint], None]) -> None:
        """Restore a checkpoint whose logs are as it recorded them. One of before has their length alone."""
        extra = checkpoint.manifest.extra
        for name in self._exact_logs:
            path, length = self.path / name, _count(extra.get(_in_extra(name)))
            sha256 = extra.get(_in_extra(name, "sha256"))
            if path.is_symlink():
                raise disk_error(OSError(errno.ELOOP, "a link"), path, 0)
            if (path.stat().st_size if path.is_file() else 0) < length:
                raise DamagedLog(f"{path} is shorter than at its checkpoint")
            if sha256 is not None and not is_as_recorded(path, length, sha256):
                raise DamagedLog(f"{path} {CHANGED}")
        restore(checkpoint)

    def _open_logs(self, runtime: Mapping[str, Any]) -> list[str]:
        said = []
        content = {
            "format": FORMAT,
            "run_id": self.config.run_id,
            "agent": self.config.agent,
            "config": dataclasses.asdict(self.config),
            **({} if self.environment is None else {"environment": dict(self.environment)}),
            **({} if self.hardened is None else {"hardened": dict(self.hardened)}),
            "runtime": dict(runtime),
            "versions": versions(),
        }
        if self.checkpoint is None:
            self._write_json("config.json", content)
        else:
            said += [f"{text}; the run continues from step {self.step:,}" for text in self.checkpoint.passed_over]
            before = read_json(self.path / "config.json")
            there, here = (_circumstances(c) for c in (before, content))
            if changed := differences(there, here):
                said.append(f"the run continues, but not bit for bit: it started in other circumstances ({changed})")
        (self.path / "evaluations").mkdir(exist_ok=True)
        for name in (*self._exact_logs, "timing.jsonl"):
            self._logs[name] = Log(self.path / name, self._kept(name))
        return said

    @property
    def _exact_logs(self) -> tuple[str, ...]:
        """The logs that have the same bytes however often the run was killed. Hardening has no episodes of its own."""
        return ("metrics.jsonl", "episodes.jsonl") if self.hardened is None else ("metrics.jsonl",)

    def _kept(self, name: str) -> int | None:
        """How many bytes of a log stay: rows after the checkpoint will be written again. A checkpoint that does not
        know the log is of a run that began without it: the log begins where the run continues."""
        if self.checkpoint is None:
            return 0
        return _count(self.checkpoint.manifest.extra.get(_in_extra(name))) if name in self._exact_logs else None

    def beat(self) -> None:
        """Show that this process is alive. Raises a RunError if another process has taken over the folder."""
        if self._lock is None:
            return
        self._lock.beat()
        if self._lock.lost:
            raise RunError(self._lock.lost)

    def log(self, name: str, row: Mapping[str, Any]) -> None:
        """Append one JSON object as a line. NaN and infinity, which JSON does not have, become null."""
        self._logs[name].append(row)

    def write_checkpoint(
        self,
        step: int,
        regular: bool,
        files: Mapping[str, bytes],
        segments: tuple[Entry, ...],
        alone: bool = False,
    ) -> None:
        """Write a checkpoint that records length and sha256 of the exact logs, once these are on disk; see
        `Checkpoints`."""
        extra: dict[str, Any] = {"run_id": self.config.run_id}
        for name in self._exact_logs:
            self._logs[name].sync()
            extra[_in_extra(name)] = self._logs[name].bytes
            extra[_in_extra(name, "sha256")] = self._logs[name].sha256
        self.checkpoints.write(step, regular, files, segments, extra, alone)

    def set_status(self, state: str, step: int, error: str | None = None) -> None:
        status = {"state": state, "step": step, "steps": self.steps, "run_id": self.config.run_id, "pid": os.getpid()}
        logs = {name: {"bytes": log.bytes, "sha256": log.sha256} for name, log in self._logs.items()}
        self._write_json("status.json", {**status, **({"error": error} if error else {}), "logs": logs})

    def close(self, state: str, step: int, error: str | None = None) -> None:
        """Write how the run ended, if the disk allows it, and release the folder."""
        try:
            if self._lock is None or not self._lock.lost:  # else the folder belongs to another process
                self.set_status(state, step, error)
        except RunError:
            if state == "finished":
                raise
        finally:
            self.release()

    def release(self) -> None:
        """Close the files and free the lock."""
        for log in self._logs.values():
            log.close()
        self._logs.clear()
        if self._lock is not None:
            self._lock.release()

    def _write_json(self, name: str, content: Mapping[str, Any]) -> None:
        write_atomically(self.path / name, (json.dumps(sealed(content), indent=2, allow_nan=False) + "\n").encode())


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """`noise_std 1.0 there, 0.5 here`, for every setting that differs."""
    names = [n for n in {**before, **after} if before.get(n) != after.get(n)]
    return ", ".join(f"{n} {before.get(n)} there, {after.get(n)} here" for n in names)


def read_status(path: Path) -> dict[str, Any]:
    """The content of status.json; empty if the run has not started."""
    return read_sealed(path / "status.json") if (path / "status.json").is_file() else {}


def _circumstances(content: Mapping[str, Any]) -> dict[str, Any]:
    """What must be the same as at the start for a run to continue bit for bit."""
    parts = [content.get(name) for name in ("runtime", "versions")]
    return {k: v for part in parts if isinstance(part, dict) for k, v in part.items()}


def _in_extra(log: str, what: str = "bytes") -> str:
    """`metrics_bytes`, `metrics_sha256`: where a checkpoint says how long the log is, and what is in it."""
    return f"{Path(log).stem}_{what}"


def _count(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else 0


def read_latest(path: str | Path) -> ModelFile:
    """The newest intact agent of a run folder. Damaged checkpoints are skipped with a warning."""
    path = Path(path)
    checkpoint = Checkpoints(path).newest()
    if checkpoint is None or "agent.safetensors" not in checkpoint.files:
        raise RunError(f"{path} holds no trained agent yet; `dsacc train` makes one")
    for sentence in checkpoint.passed_over:
        warnings.warn(f"{sentence}; the agent of step {checkpoint.manifest.step:,} is used", stacklevel=3)
    model, noted = parse_model(checkpoint.files["agent.safetensors"], path), sealed_or_empty(path / "config.json")
    known = model.environment or noted.get("environment")
    return dataclasses.replace(model, environment=known if is_record(known) else None)


def read_saved(path: str | Path) -> ModelFile:
    """A saved agent, or the newest of a run folder."""
    path = Path(path)
    return read_latest(path) if (path / "config.json").is_file() else read_model(path)


def versions() -> dict[str, str]:
    """The versions that must match for a run to be repeated bit for bit."""
    out = {"python": platform.python_version(), "machine": platform.machine()}
    for name in ("dsacc", "torch", "numpy", "gymnasium", "ale-py", "MinAtar", "opencv-python-headless"):
        with suppress(metadata.PackageNotFoundError):
            out[name] = metadata.version(name)
    return out
