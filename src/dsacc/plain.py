"""Nested state as plain data: arrays by name for safetensors, and a skeleton for JSON. No pickle is needed."""

from collections.abc import Callable
from typing import Any

import numpy as np

from dsacc.errors import EnvError, RunError

Arrays = dict[str, np.ndarray[Any, Any]]


def flatten(state: Any) -> tuple[Arrays, Any]:
    """All arrays, copied, by a name (for safetensors), and a skeleton for JSON with that name in an array's place."""
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
        if dtype.kind not in "biuf" or dtype.itemsize > 8 or not dtype.isnative:  # safetensors holds no others
            raise EnvError(f"a value of type {kind.__name__} ({dtype}) cannot be saved")
        name = f"array{len(arrays)}"
        arrays[name] = np.array(x, order="C")
        return {"$ndarray" if kind is np.ndarray else "$generic": name}

    return arrays, flat(state)


def unflatten(arrays: Arrays, plain: Any) -> Any:
    """The exact inverse of `flatten`, with new arrays."""
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
