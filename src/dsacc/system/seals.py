"""JSON objects that carry the sha256 of their own content, so that a change on disk is noticed.

The seal is that of the meaning and not of the bytes: the order of keys, white space and the way a number is written (3,
3.0 or 30e-1) do not count. It finds accidents. It is no signature: whoever changes a file on purpose can seal it again.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dsacc.errors import Damaged, RunError
from dsacc.system.files import read_json, sha256

KEY = "sha256"
CHANGED = f"does not match its {KEY}, so it was changed after it was written"


def seal(content: Mapping[str, Any]) -> str:
    """The sha256 of an object without its own seal, in hexadecimal digits."""
    bare = {key: value for key, value in content.items() if key != KEY}
    return sha256(json.dumps(_canonical(bare), sort_keys=True, separators=(",", ":")).encode())


def sealed(content: Mapping[str, Any]) -> dict[str, Any]:
    """The object with its seal, as its last key."""
    return {**{key: value for key, value in content.items() if key != KEY}, KEY: seal(content)}


def is_sealed(content: Mapping[str, Any]) -> bool:
    """Whether it has a seal at all, right or wrong; what was written before there were seals has none."""
    return KEY in content


def holds(content: Mapping[str, Any]) -> bool:
    """Whether its seal is that of its content."""
    return bool(content.get(KEY) == seal(content))


def read_sealed(path: Path) -> dict[str, Any]:
    """The JSON object in a file, without its seal. One whose seal does not hold raises `Damaged`; one that was written
    before there were seals has none and is read as it is."""
    content = read_json(path)
    if is_sealed(content) and not holds(content):
        raise Damaged(f"{path} {CHANGED}")
    return {key: value for key, value in content.items() if key != KEY}


def sealed_or_empty(path: Path) -> dict[str, Any]:
    """The same; empty where there is no file that can be read and is as it was written."""
    try:
        return read_sealed(path)
    except RunError:
        return {}


def _canonical(value: Any) -> Any:
    """The same with whole numbers as integers: other programs write 3.0 as 3, and 3 as 3.0."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, Mapping):
        return {key: _canonical(item) for key, item in value.items()}
    return [_canonical(item) for item in value] if isinstance(value, list | tuple) else value
