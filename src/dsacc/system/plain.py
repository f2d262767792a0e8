"""JSON and TOML that anyone may have written. They are parsed here and nowhere else.

What our readers would stumble over later is refused at once: text that is not UTF-8, a key that is there twice, NaN and
infinity, whole numbers of any length, and nesting so deep that Python cannot print it.
"""

import json
import math
import tomllib
from collections.abc import Callable
from typing import Any

from dsacc.system.text import size

MAX_BYTES = 64 * 2**20  # of a file, or of a text inside one: the rows of a large experiment have a few MB
MAX_GRID = 2**20  # bytes of a grid, which people write
MAX_LINE = 2**20  # bytes of a row of a log; ours have a few hundred
MAX_DEPTH = 100  # of nesting; the states of environments, our deepest, have ten or twenty
MAX_BITS = 128  # of a whole number: seeds and the states of random generators have that many


class NotPlain(ValueError):
    """A text is not JSON or TOML as we read it. The message says why, as a part of a sentence."""


def parse_json(data: bytes | str, finite: bool = True) -> Any:
    """The content of a JSON text. Without `finite`, NaN and infinity are let through, as others write them."""
    number = _finite if finite else float
    hooks: dict[str, Any] = {"parse_int": _whole, "parse_float": number, "parse_constant": number}
    return _parsed(lambda text: json.loads(text, object_pairs_hook=_object, **hooks), data)


def parse_toml(data: bytes | str) -> dict[str, Any]:
    """The content of a TOML text. `nan` and `inf` are refused, as they are in JSON."""
    content: dict[str, Any] = _parsed(lambda text: tomllib.loads(text, parse_float=_finite), data)
    return content


def as_json_has_it(value: Any, other: Callable[[Any], Any]) -> Any:
    """A value of this program as it would come back from a file: tuples as lists, keys as sorted texts. `other` gives
    what stands for a thing that JSON does not have."""
    return json.loads(json.dumps(value, default=other, sort_keys=True))


def _parsed(parse: Callable[[str], Any], data: bytes | str) -> Any:
    if len(data) > MAX_BYTES:
        raise NotPlain(f"it has {size(len(data))}, and at most {size(MAX_BYTES)} are read")
    try:
        content = parse(data if isinstance(data, str) else data.decode("utf-8"))
    except NotPlain:
        raise
    except RecursionError:
        raise NotPlain(_DEEP) from None
    except UnicodeDecodeError as error:
        raise NotPlain(f"byte {error.start + 1} is not UTF-8") from error
    except (json.JSONDecodeError, tomllib.TOMLDecodeError) as error:
        raise NotPlain(str(error).splitlines()[0]) from error
    except ValueError:  # Python reads no number of thousands of digits
        raise NotPlain(_LONG) from None
    _check(content)
    return content


_DEEP = f"it is nested more than {MAX_DEPTH} deep"
_LONG = f"a whole number has more than {MAX_BITS} bits"


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise NotPlain(f"the key {twice[:60]!r} is there twice")
    return content


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise NotPlain(f"it has {text[:20]} where a finite number must be")
    return value


def _whole(text: str) -> int:
    value = int(text) if len(text) <= MAX_BITS else 1 << MAX_BITS  # Python itself refuses to read very long ones
    if value.bit_length() > MAX_BITS:
        raise NotPlain(_LONG)
    return value


def _check(content: Any) -> None:
    """Refuse deep nesting, level by level, since a function that calls itself would not come back; and the long numbers
    that TOML let through."""
    level = [content]
    for _ in range(MAX_DEPTH + 1):
        if any(type(item) is int and item.bit_length() > MAX_BITS for item in level):
            raise NotPlain(_LONG)
        parts = [item for item in level if isinstance(item, dict | list)]
        if not parts:
            return
        level = [item for part in parts for item in (part.values() if isinstance(part, dict) else part)]
    raise NotPlain(_DEEP)
