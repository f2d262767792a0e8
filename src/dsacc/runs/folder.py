"""A run folder: config.json, metrics.jsonl, timing.jsonl, status.json, checkpoints/, evaluations/."""

import dataclasses
import json
import math
import os
import platform
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import IO, Any, Literal

from dsacc.config import Config
from dsacc.errors import RunError
from dsacc.runs.model_file import ModelFile, write_atomically, write_model

FORMAT = 1
Found = Literal["new", "restart", "finished"]


class RunFolder:
    """One run's files. Opening looks and decides; nothing is written before `start`."""

    def __init__(self, path: str | Path, config: Config, steps: int) -> None:
        self.path, self.config, self.steps = Path(path), config, steps
        self.found: Found = self._look()
        self._files: dict[str, IO[str]] = {}

    def _look(self) -> Found:
        if not self.path.exists():
            return "new"
        if not self.path.is_dir():
            raise RunError(f"{self.path} is a file, not a run folder; choose another --out")
        if not (self.path / "config.json").is_file():
            if any(self.path.iterdir()):
                raise RunError(f"{self.path} holds files but no run; choose another --out")
            return "new"
        before = dataclasses.asdict(Config()) | read_json(self.path / "config.json").get("config", {})
        changes = differences(before, dataclasses.asdict(self.config))
        if changes:
            raise RunError(f"{self.path} holds a run with other settings ({changes}); choose another --out")
        status = read_status(self.path)
        if status.get("state") == "finished":
            if status.get("step", 0) >= self.steps:
                return "finished"
            raise RunError(
                f"{self.path} is finished at step {status.get('step')}; to train for {self.steps} choose another --out"
            )
        return "restart"

    def start(self, runtime: Mapping[str, Any]) -> None:
        """Write the settings and open the logs. A run that stopped before its first checkpoint starts over."""
        self.path.mkdir(parents=True, exist_ok=True)
        content = {
            "format": FORMAT,
            "run_id": self.config.run_id,
            "agent": self.config.agent,
            "config": dataclasses.asdict(self.config),
            "runtime": dict(runtime),
            "versions": versions(),
        }
        self._write_json("config.json", content)
        for name in ("checkpoints", "evaluations"):
            (self.path / name).mkdir(exist_ok=True)
        for name in ("metrics.jsonl", "timing.jsonl"):
            self._files[name] = open(self.path / name, "w", encoding="utf-8")  # noqa: SIM115 - held until close()
        self.set_status("running", 0)

    def log(self, name: str, row: Mapping[str, Any]) -> None:
        """Append one object a line; NaN and infinity, which JSON does not have, become null."""
        clean = {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in row.items()}
        self._files[name].write(json.dumps(clean, allow_nan=False) + "\n")
        self._files[name].flush()

    def set_status(self, state: str, step: int, error: str | None = None) -> None:
        status = {"state": state, "step": step, "steps": self.steps, "run_id": self.config.run_id, "pid": os.getpid()}
        self._write_json("status.json", status | ({"error": error} if error else {}))

    def finish(self, model: ModelFile) -> None:
        """Keep the agent and mark the run as done."""
        write_model(self.path / "checkpoints" / f"step-{model.step}" / "agent", model)
        self.close()
        self.set_status("finished", model.step)

    def close(self) -> None:
        for file in self._files.values():
            file.close()
        self._files.clear()

    def _write_json(self, name: str, content: Any) -> None:
        write_atomically(self.path / name, (json.dumps(content, indent=2, allow_nan=False) + "\n").encode())


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """`noise_std 1.0 there, 0.5 here`, for every setting that differs."""
    names = [n for n in {**before, **after} if before.get(n) != after.get(n)]
    return ", ".join(f"{n} {before.get(n)} there, {after.get(n)} here" for n in names)


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object, or a sentence."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise RunError(f"{path} cannot be read as JSON ({error})") from error
    if not isinstance(content, dict):
        raise RunError(f"{path} does not hold a JSON object")
    return content


def read_status(path: Path) -> dict[str, Any]:
    """How a run stands; empty where it has not begun."""
    return read_json(path / "status.json") if (path / "status.json").is_file() else {}


def latest_model(path: str | Path) -> Path:
    """The newest saved agent of a run folder."""
    found = sorted(Path(path).glob("checkpoints/step-*/agent.safetensors"), key=lambda p: int(p.parent.name[5:]))
    if not found:
        raise RunError(f"{path} holds no trained agent yet; `dsacc train` makes one")
    return found[-1]


def versions() -> dict[str, str]:
    """What a repeat would need to match, bit for bit."""
    packages = {name: metadata.version(name) for name in ("dsacc", "torch", "numpy", "gymnasium")}
    return {"python": platform.python_version(), "machine": platform.machine(), **packages}
