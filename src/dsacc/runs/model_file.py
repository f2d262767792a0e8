"""An agent as one safetensors file: tensors, and a JSON header that says what they are. Nothing in it can execute."""

import dataclasses
import json
import os
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as to_bytes

from dsacc.config import Config
from dsacc.errors import BadInput, ModelError

FORMAT = 1


@dataclasses.dataclass(frozen=True)
class ModelFile:
    """What a saved agent consists of."""

    config: Config
    space: dict[str, Any]  # the observation space, as data
    actions: int
    step: int
    tensors: dict[str, torch.Tensor]


def with_suffix(path: str | Path) -> Path:
    """`agent` and `agent.safetensors` name the same file."""
    path = Path(path)
    return path if path.suffix == ".safetensors" else path.with_name(path.name + ".safetensors")


def write_model(path: str | Path, model: ModelFile) -> Path:
    """Write the whole file or nothing: beside its place first, then moved there."""
    path = with_suffix(path)
    header = {
        "format": FORMAT,
        "config": dataclasses.asdict(model.config),
        "space": model.space,
        "actions": model.actions,
        "step": model.step,
    }
    tensors = {name: t.detach().cpu().contiguous() for name, t in sorted(model.tensors.items())}
    write_atomically(path, to_bytes(tensors, {"dsacc": json.dumps(header, sort_keys=True)}))
    return path


def read_model(path: str | Path) -> ModelFile:
    """Read a saved agent, or say in a sentence why it is none."""
    path = with_suffix(path)
    if not path.is_file():
        raise ModelError(f"there is no saved agent at {path}")
    try:
        with safe_open(path, framework="pt") as file:
            header = json.loads((file.metadata() or {})["dsacc"])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict
        if header["format"] > FORMAT:
            raise ModelError(f"{path} was written by a newer dsacc (format {header['format']}); upgrade to read it")
        config = Config(**header["config"])
        return ModelFile(config, dict(header["space"]), int(header["actions"]), int(header["step"]), tensors)
    except BadInput as error:
        raise ModelError(f"{path} cannot be used: {error}") from error
    except (SafetensorError, KeyError, TypeError, ValueError, OSError) as error:
        raise ModelError(f"{path} is not a saved dsacc agent, or is damaged ({error})") from error


def write_atomically(path: Path, data: bytes) -> None:
    """All of the bytes, or the file as it was."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(beside, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)
