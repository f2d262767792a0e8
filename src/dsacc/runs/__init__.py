"""A run on disk: its folder, lock, checkpoints, model files and events."""

from dsacc.runs.checkpoint import Checkpoint, Checkpoints, Entry
from dsacc.runs.folder import RunFolder, read_latest, read_saved, read_status
from dsacc.runs.model_file import ModelFile, model_bytes, parse_model, read_model, write_model

__all__ = [
    "Checkpoint",
    "Checkpoints",
    "Entry",
    "ModelFile",
    "RunFolder",
    "model_bytes",
    "parse_model",
    "read_latest",
    "read_model",
    "read_saved",
    "read_status",
    "write_model",
]
