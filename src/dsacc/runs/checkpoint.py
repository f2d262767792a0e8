"""Checkpoints: one folder each, complete or absent, verified byte by byte when read.

    checkpoints/step-20000/     agent.safetensors, trainer.safetensors, manifest.json
    checkpoints/newest.json     which one is the newest; written last
    replay/step-20000.safetensors   what the replay gained since the previous checkpoint

The manifest lists every file with its sha256, including the segments of the replay. The newest checkpoint is kept, and
the newest regular one before it: a damaged checkpoint costs one interval, not the run.
"""

import json
import os
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dsacc.errors import RunError
from dsacc.system.files import disk_error, read_file, read_json, sha256, sync_folder, write_atomically, write_synced
from dsacc.system.seals import holds, sealed

FORMAT = 1
_FOLDER = re.compile(r"step-(0|[1-9][0-9]{0,14})")
_FILE = re.compile(r"[a-z][a-z0-9_-]{0,60}\.safetensors")
_SEGMENT = re.compile(r"step-(0|[1-9][0-9]{0,14})\.safetensors")
_HASH = re.compile(r"[0-9a-f]{64}")
MAX_FILES = 100_000


@dataclass(frozen=True)
class Entry:
    """One file in a manifest."""

    name: str
    sha256: str
    bytes: int


@dataclass(frozen=True)
class Manifest:
    """What a checkpoint consists of."""

    step: int
    regular: bool  # at a multiple of the interval; others are made when a run is stopped or ends
    files: tuple[Entry, ...]
    segments: tuple[Entry, ...]  # of the replay, oldest first
    extra: dict[str, Any] = field(default_factory=dict)  # small facts about the run, such as the length of its metrics


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint with every byte verified. `passed_over` says which newer ones are damaged, and how."""

    manifest: Manifest
    files: dict[str, bytes]
    passed_over: tuple[str, ...]

    def file(self, name: str) -> bytes:
        """The bytes of one of its files; a RunError where it has none of that name."""
        if name not in self.files:
            raise RunError(f"the checkpoint of step {self.manifest.step} has no {name}; choose another --out")
        return self.files[name]


class DamagedSegment(Exception):
    """A segment of the replay is missing or does not match its sha256."""


class DamagedLog(DamagedSegment):
    """A log is not as it was at the checkpoint."""


class Checkpoints:
    """The checkpoints of one run folder."""

    def __init__(self, run: Path) -> None:
        self.run, self.folder, self.replay = run, run / "checkpoints", run / "replay"

    # --- writing ---

    def write_segment(self, step: int, data: bytes) -> Entry:
        """Write a piece of the replay, before the checkpoint that refers to it."""
        name = f"step-{step}.safetensors"
        write_atomically(self.replay / name, data)
        return Entry(name, sha256(data), len(data))

    def write(
        self,
        step: int,
        regular: bool,
        files: Mapping[str, bytes],
        segments: tuple[Entry, ...],
        extra: dict[str, Any],
        alone: bool = False,
    ) -> Manifest:
        """Write a temporary folder to disk and rename it; then write the pointer; then remove what is not needed.

        With `alone` no older checkpoint is kept.
        """
        self._refuse_links()
        entries = tuple(Entry(name, sha256(data), len(data)) for name, data in sorted(files.items()))
        manifest = Manifest(step, regular, entries, segments, extra)
        target, temporary = self.folder / f"step-{step}", self.folder / f".step-{step}.{os.getpid()}.tmp"
        needed = sum(len(data) for data in files.values())
        try:
            try:
                shutil.rmtree(temporary, ignore_errors=True)  # of a killed process with our pid: in a container it is 1
                temporary.mkdir(parents=True)
                for name, data in files.items():
                    write_synced(temporary / name, data)
                write_synced(temporary / "manifest.json", _to_json(manifest))
                sync_folder(temporary)
                if target.exists():  # a damaged one, or the same again
                    shutil.rmtree(target)
                os.rename(temporary, target)
                sync_folder(self.folder)
            finally:
                shutil.rmtree(temporary, ignore_errors=True)
        except OSError as error:
            raise disk_error(error, target, needed) from error
        write_atomically(self.folder / "newest.json", _sealed({"format": FORMAT, "newest": target.name}))
        self.prune(manifest, alone)
        return manifest

    def prune(self, newest: Manifest, alone: bool) -> None:
        """Keep the newest, the newest regular one before it unless it stays `alone`, and the segments of these."""
        kept = [newest]
        for step in [] if alone else sorted(self._steps(), reverse=True):
            if step >= newest.step or len(kept) == 2:
                continue
            try:
                manifest = self._manifest(step)
            except RunError:
                continue
            if manifest.regular:
                kept.append(manifest)
        names = {f"step-{m.step}" for m in kept} | {"newest.json"}
        segments = {entry.name for m in kept for entry in m.segments}
        for folder, wanted in ((self.folder, names), (self.replay, segments)):
            for path in folder.iterdir() if folder.is_dir() else ():
                if path.name not in wanted:
                    _remove(path)

    # --- reading ---

    def newest(self, restore: Callable[[Checkpoint], None] | None = None) -> Checkpoint | None:
        """The newest intact checkpoint; None if there is none at all.

        `restore` is called with it, and reads its segments, which may be large, once. Where one of them is damaged
        (`DamagedSegment`), or a log (`DamagedLog`), the next older checkpoint is tried.
        """
        self._refuse_links()
        passed_over: list[str] = []
        log: DamagedLog | None = None
        steps = sorted(self._steps(), reverse=True)
        steps.sort(key=lambda step: f"step-{step}" != self._pointed_at())  # stable: the rest stay newest first
        for step in steps:
            try:
                manifest = self._manifest(step)
                files = {e.name: self._verified(self.folder / f"step-{step}" / e.name, e) for e in manifest.files}
            except RunError as error:
                passed_over.append(str(error))
                continue
            checkpoint = Checkpoint(manifest, files, tuple(passed_over))
            try:
                if restore is not None:
                    restore(checkpoint)
                return checkpoint
            except DamagedSegment as error:
                passed_over.append(str(error))
                log = error if isinstance(error, DamagedLog) else log
        if log is not None:
            raise RunError(f"{log}; restore it, or choose another --out")
        if steps:
            raise RunError(
                f"no checkpoint in {self.folder} is intact: {'; '.join(passed_over)}; "
                "delete that folder and the folder replay to start again, or choose another --out"
            )
        return None

    def segment(self, entry: Entry) -> bytes:
        """The verified bytes of a segment."""
        try:
            return self._verified(self.replay / entry.name, entry)
        except RunError as error:
            raise DamagedSegment(str(error)) from error

    def _refuse_links(self) -> None:
        """What is not needed in these two folders is removed, so neither may be somebody else's."""
        for folder in (self.folder, self.replay):
            if folder.is_symlink():
                raise RunError(f"{folder} is a link, and links in a run folder are not followed; choose another --out")

    def _pointed_at(self) -> str | None:
        try:
            return str(_unsealed(self.folder / "newest.json").get("newest"))
        except RunError:
            return None

    def _steps(self) -> list[int]:
        names = [p.name for p in self.folder.iterdir()] if self.folder.is_dir() else []
        return [int(match[1]) for match in map(_FOLDER.fullmatch, names) if match]

    def _manifest(self, step: int) -> Manifest:
        path = self.folder / f"step-{step}" / "manifest.json"
        content = _unsealed(path)
        try:
            manifest = Manifest(
                _whole(content["step"]),
                _flag(content["regular"]),
                _entries(content["files"], _FILE),
                _entries(content["segments"], _SEGMENT),
                dict(content["extra"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise RunError(f"{path} does not describe a checkpoint ({error})") from error
        if manifest.step != step:
            raise RunError(f"{path} describes step {manifest.step}, not step {step}")
        return manifest

    @staticmethod
    def _verified(path: Path, entry: Entry) -> bytes:
        data = read_file(path)
        if len(data) != entry.bytes or sha256(data) != entry.sha256:
            raise RunError(f"{path} does not match its sha256")
        return data


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _to_json(manifest: Manifest) -> bytes:
    def listed(entries: tuple[Entry, ...]) -> list[dict[str, Any]]:
        return [{"name": e.name, "sha256": e.sha256, "bytes": e.bytes} for e in entries]

    return _sealed(
        {
            "format": FORMAT,
            "step": manifest.step,
            "regular": manifest.regular,
            "files": listed(manifest.files),
            "segments": listed(manifest.segments),
            "extra": manifest.extra,
        }
    )


def _sealed(content: dict[str, Any]) -> bytes:
    """JSON that carries the sha256 of itself."""
    return (json.dumps(sealed(content), indent=1, sort_keys=True) + "\n").encode()


def _unsealed(path: Path) -> dict[str, Any]:
    content = read_json(path)
    if not holds(content):
        raise RunError(f"{path} does not match its sha256")
    if content.get("format") != FORMAT:
        number = content.get("format")
        raise RunError(f"{path} has format {number}, but this dsacc reads format {FORMAT}; use the one that wrote it")
    return content


def _entries(content: Any, allowed: "re.Pattern[str]") -> tuple[Entry, ...]:
    if not isinstance(content, list) or len(content) > MAX_FILES:
        raise ValueError("its files are not a list, or too many")
    entries = []
    for item in content:
        name, digest = item["name"], item["sha256"]
        if not isinstance(name, str) or not allowed.fullmatch(name):
            raise ValueError(f"dsacc writes no file named {name!r}")
        if not isinstance(digest, str) or not _HASH.fullmatch(digest):
            raise ValueError(f"{name} has no valid sha256")
        entries.append(Entry(name, digest, _whole(item["bytes"])))
    if len({e.name for e in entries}) != len(entries):
        raise ValueError("it lists a file twice")
    return tuple(entries)


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(f"{value!r} is not a count")
    return value


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"{value!r} is neither true nor false")
    return value
