"""Nested state as JSON data and arrays, and both as the bytes of a safetensors file. No pickle."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, deserialize
from safetensors.numpy import load as load_arrays
from safetensors.numpy import save as save_arrays

from dsacc.errors import EnvError, RunError
from dsacc.system.plain import parse_json
from dsacc.system.types import Array

Arrays = dict[str, Array]
MAX_HEADER = 16 * 2**20  # bytes; our headers have a few thousand


def flatten(state: Any) -> tuple[Arrays, Any]:
    """Split nested state into arrays by name (copies, for safetensors) and JSON data that refers to these names."""
    arrays: Arrays = {}

    def flat(x: Any) -> Any:
        kind = type(x)
        if x is None or kind in (bool, int, str) or (kind is float and np.isfinite(x)):
            return x
        if kind is list:
            return [flat(y) for y in x]
        if kind is dict and all(type(key) is str for key in x):
            return {"$" + key if key.startswith("$") else key: flat(y) for key, y in x.items()}
        if kind in (float, np.str_, tuple):  # JSON has no infinities
            return {f"${kind.__name__}": flat(list(x)) if kind is tuple else str(x)}
        dtype = x.dtype if kind is np.ndarray or isinstance(x, np.generic) else np.dtype(object)
        if dtype.kind not in "biuf" or dtype.itemsize > 8 or not dtype.isnative:  # safetensors has no others
            raise EnvError(f"a value of type {kind.__name__} ({dtype}) cannot be saved")
        name = f"array{len(arrays)}"
        arrays[name] = np.array(x, order="C")
        return {"$ndarray" if kind is np.ndarray else "$generic": name}

    return arrays, flat(state)


def unflatten(arrays: Arrays, plain: Any) -> Any:
    """The exact inverse of `flatten`; arrays are copied."""
    if type(plain) is list:
        return [unflatten(arrays, x) for x in plain]
    if type(plain) is not dict:
        return plain
    inner = {key[1:] if key.startswith("$") else key: unflatten(arrays, x) for key, x in plain.items()}
    mark = next(iter(plain), "")
    if mark not in _MARKS:
        return inner
    try:
        return _MARKS[mark](inner[mark[1:]], arrays)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise RunError(f"a saved state is damaged ({type(error).__name__}: {error})") from error


_MARKS: dict[str, Callable[[Any, Arrays], Any]] = {
    "$float": lambda text, _: float(text),
    "$str_": lambda text, _: np.str_(text),
    "$tuple": lambda inner, _: tuple(inner),
    "$ndarray": lambda name, arrays: arrays[name].copy(),
    "$generic": lambda name, arrays: arrays[name][()],
}


def pack_arrays(arrays: Mapping[str, Array], header: Mapping[str, Any]) -> bytes:
    """Arrays and JSON data as the bytes of a safetensors file; the same input gives the same bytes."""
    ordered = {name: np.ascontiguousarray(arrays[name]) for name in sorted(arrays)}
    return bytes(save_arrays(ordered, {"dsacc": json.dumps(header)}))  # not sorted: the order of keys is data


def unpack_arrays(data: bytes, path: Path) -> tuple[dict[str, Array], dict[str, Any]]:
    """The inverse of `pack_arrays`. The header is read only after safetensors has checked the layout."""
    try:
        if int.from_bytes(data[:8], "little") > MAX_HEADER:
            raise ValueError("its header is too long")
        deserialize(data)  # type: ignore[no-untyped-call]
        arrays = load_arrays(data)
        size = int.from_bytes(data[:8], "little")
        header = parse_json(parse_json(data[8 : 8 + size])["__metadata__"]["dsacc"], finite=False)
        if not isinstance(header, dict):
            raise ValueError("its header is not an object")
    except (SafetensorError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise RunError(f"{path.name} is damaged, or was not written by dsacc: {error}") from error
    return arrays, header
