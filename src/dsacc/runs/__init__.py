"""What a run leaves on disk."""

from dsacc.runs.folder import RunFolder, latest_model, read_json, read_status
from dsacc.runs.model_file import ModelFile, read_model, write_atomically, write_model

__all__ = [
    "ModelFile",
    "RunFolder",
    "latest_model",
    "read_json",
    "read_model",
    "read_status",
    "write_atomically",
    "write_model",
]
