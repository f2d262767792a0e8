"""An agent as one safetensors file: tensors, and a JSON header that describes them. Nothing in it can be executed."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save as to_bytes

from dsacc.config import Config
from dsacc.envs.record import is_record
from dsacc.errors import BadInput, ModelError, RunError
from dsacc.system.files import read_file, sha256, write_atomically
from dsacc.system.packing import unpack_arrays

FORMAT = 1
SEAL = rb"\"sha256\": \"%b\""  # where a file has its own hash: JSON inside a text of JSON
UNSEALED = SEAL % (b"0" * 64)  # as it is while the hash is computed
UNHASHED_KEYS = {"format", "config", "space", "actions", "step", "hardened"}  # of files from before they had a hash
FOREIGN = (".zip", ".pt", ".pth", ".pkl", ".pickle", ".ckpt", ".onnx", ".bin", ".npz", ".h5", ".json")


@dataclasses.dataclass(frozen=True)
class ModelFile:
    """The content of a saved agent."""

    config: Config
    space: dict[str, Any]  # the observation space, as JSON data
    actions: int
    step: int
    tensors: dict[str, torch.Tensor]
    hardened: dict[str, Any] | None = None  # by what, where it is the student of `harden`
    environment: dict[str, Any] | None = None  # what it was trained on (dsacc.envs.record), where a name is not enough
    action_space: dict[str, Any] | None = None  # as JSON data, where an action has several choices


def with_suffix(path: str | Path) -> Path:
    """`agent` and `agent.safetensors` name the same file."""
    path = Path(path)
    return path if path.suffix == ".safetensors" else path.with_name(path.name + ".safetensors")


def write_model(path: str | Path, model: ModelFile) -> Path:
    """Write the whole file or nothing. Returns its path."""
    if Path(path).suffix.lower() in FOREIGN:
        names = f"{Path(path).stem!r} or '{Path(path).stem}.safetensors'"
        raise ModelError(f"an agent is saved as a .safetensors file: give {names} as its name, not {Path(path).name!r}")
    path = with_suffix(path)
    write_atomically(path, model_bytes(model))
    return path


def model_bytes(model: ModelFile) -> bytes:
    """The bytes of the file; the same agent gives the same bytes.

    The header holds the sha256 of the whole file, computed with zeros in its place.
    """
    header = {
        "format": FORMAT,
        "config": dataclasses.asdict(model.config),
        "space": model.space,
        "actions": model.actions,
        "step": model.step,
        **({} if model.hardened is None else {"hardened": model.hardened}),
        **({} if model.environment is None else {"environment": model.environment}),
        **({} if model.action_space is None else {"action_space": model.action_space}),
        "sha256": "0" * 64,
    }
    tensors = {name: t.detach().cpu().contiguous() for name, t in sorted(model.tensors.items())}
    data = bytes(to_bytes(tensors, {"dsacc": json.dumps(header, sort_keys=True)}))
    return data.replace(UNSEALED, SEAL % sha256(data).encode(), 1)


def _check_hash(data: bytes, header: dict[str, Any]) -> None:
    """Compare the file with its own hash. Every byte counts: a name that is damaged is no longer the name of a hash,
    so a file without one must be as they were before they had one."""
    if "sha256" not in header:
        unknown = sorted(set(header) - UNHASHED_KEYS)
        if unknown:
            raise ValueError(f"its header has no sha256, but {unknown[0]!r}")
        return
    stated = header["sha256"]
    if sha256(data.replace(SEAL % str(stated).encode(), UNSEALED, 1)) != stated:
        raise ValueError("its content does not match its sha256")


def read_model(path: str | Path) -> ModelFile:
    """Read a saved agent. A ModelError says why a file is not one."""
    folder, path = Path(path), with_suffix(path)
    if not path.is_file():
        if folder.is_dir():
            raise ModelError(f"{folder} is a folder without a run (it has no config.json){_runs_below(folder)}")
        raise ModelError(f"there is no saved agent {path}" + ("" if folder == path else f", nor a run folder {folder}"))
    try:
        data = read_file(path)
    except RunError as error:
        raise ModelError(str(error)) from error
    return parse_model(data, path)


def _runs_below(folder: Path) -> str:
    """A hint for users who name the folder that holds their runs."""
    runs = sorted(file.parent for pattern in ("*", "*/*") for file in folder.glob(f"{pattern}/config.json"))
    return f"; did you mean {runs[0]}?" if runs else ""


def parse_model(data: bytes, path: Path) -> ModelFile:
    """An agent from the bytes of its file; `path` is named in errors."""
    try:
        arrays, header = unpack_arrays(data, path)
        _check_hash(data, header)
        if header["format"] > FORMAT:
            raise ModelError(f"{path} was written by a newer dsacc (format {header['format']}); upgrade to read it")
        config = Config(**header["config"])
        tensors = {name: torch.from_numpy(array.copy()) for name, array in arrays.items()}
        hardened = None if header.get("hardened") is None else _hardening(header["hardened"])
        counts, environment = (int(header["actions"]), int(header["step"])), header.get("environment")
        if environment is not None and not is_record(environment):
            raise ValueError("it does not say what it was trained on")
        choices = None if header.get("action_space") is None else dict(header["action_space"])
        return ModelFile(config, dict(header["space"]), *counts, tensors, hardened, environment, choices)
    except RunError as error:
        raise ModelError(f"{path} is not a saved dsacc agent, or is damaged ({error})") from error
    except BadInput as error:
        raise ModelError(f"{path} cannot be used: {error}") from error
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise ModelError(f"{path} is not a saved dsacc agent, or is damaged ({error})") from error


def _hardening(content: Any) -> dict[str, Any]:
    """What the header says about hardening, checked as far as others rely on it."""
    name, kinds, seed = content["name"], content["kinds"], content["train_seed"]
    texts = isinstance(kinds, list) and all(isinstance(text, str) and text.isprintable() for text in (name, *kinds))
    if not texts or not (seed is None or type(seed) is int):
        raise ValueError("it does not say what it was hardened with")
    return dict(content)
