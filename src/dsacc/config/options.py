"""What a setting is made of: its group, its help text and its range, and how a value is checked against them."""

import dataclasses
import sys
from dataclasses import field
from functools import partial
from typing import Any, Literal, get_args, get_origin

from dsacc.errors import ConfigError

EXPERIMENTAL = "experimental: tried, and not shown to help so far"
CANDIDATES = "candidates for learning from little data: not compared yet"
GROUPS = (
    "run",
    "collecting and replaying",
    "networks",
    "optimiser",
    "critics",
    "entropy",
    "constraint",
    "controls for studies of the constraint",
    EXPERIMENTAL,
    CANDIDATES,
    "reporting and saving",
)


def option(
    group: str,
    default: Any,
    help: str,
    *,
    low: float | None = None,
    high: float | None = None,
    above: float | None = None,
) -> Any:
    """A field with its group, its explanation and its range: `low` and `high` inclusive, `above` exclusive."""
    return field(default=default, metadata={"group": group, "help": help, "low": low, "high": high, "above": above})


(run, collecting, networks, optimiser, critics, entropy, constraint, control, experimental, candidate, saving) = (
    partial(option, group) for group in GROUPS
)


def field_type(f: "dataclasses.Field[Any]") -> tuple[type, bool]:
    """bool, int, float or str, and whether None is allowed too."""
    kind, optional = _declared(f)
    return (str if get_origin(kind) is Literal else kind), optional


def choices(f: "dataclasses.Field[Any]") -> tuple[str, ...] | None:
    """The texts that a setting may have, where its type lists them."""
    kind, _ = _declared(f)
    return get_args(kind) if get_origin(kind) is Literal else None


def _declared(f: "dataclasses.Field[Any]") -> tuple[Any, bool]:
    alternatives = (f.type,) if get_origin(f.type) in (None, Literal) else get_args(f.type)
    return next(t for t in alternatives if t is not type(None)), type(None) in alternatives


def checked(f: "dataclasses.Field[Any]", value: Any) -> Any:
    """The value in the field's type and inside its range, or a sentence that says what is wrong with it."""
    name, rule = f.name, f.metadata
    kind, optional = field_type(f)
    if value is None:
        if optional:
            return None
        raise ConfigError(f"{name} must be given; its default is {f.default!r}")
    if kind is bool:
        if not isinstance(value, bool):
            raise ConfigError(f"{name} is True or False, not {value!r}")
        return value
    if kind is str:
        allowed = choices(f)
        if allowed is not None and value not in allowed:
            raise ConfigError(f"{name} is one of {', '.join(allowed)}, not {value!r}")
        if not isinstance(value, str) or not value.isprintable():
            raise ConfigError(f"{name} must be text without control characters, not {value!r}")
        return value
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) <= sys.float_info.max:
        raise ConfigError(f"{name} must be a finite number, not {value!r}")
    if kind is int:
        if value != int(value):
            raise ConfigError(f"{name} must be a whole number, not {value!r}")
        value = int(value)
    else:
        value = float(value)
    low, high, above = rule["low"], rule["high"], rule["above"]
    if low is not None and value < low:
        raise ConfigError(f"{name} must be at least {low:g}, not {value:g}")
    if above is not None and value <= above:
        raise ConfigError(f"{name} must be above {above:g}, not {value:g}")
    if high is not None and value > high:
        raise ConfigError(f"{name} must be at most {high:g}, not {value:g}")
    return value
