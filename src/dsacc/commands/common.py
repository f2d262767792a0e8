"""What commands share: numbers as people write them, and lines for people."""

import argparse
import sys
from typing import Any

from dsacc.errors import ConfigError

Commands = Any  # what argparse's add_subparsers gives; it has no public name


def whole(text: str) -> int:
    """30000, 30_000 or 3e4."""
    try:
        return int(text)
    except ValueError:
        value = float(text)
        if value != int(value):
            raise ValueError(text) from None
        return int(value)


whole.__name__ = "whole number"  # argparse names the type in its message


def at_least_one(args: argparse.Namespace, *names: str) -> None:
    for name in names:
        value = getattr(args, name)
        if value is not None and value < 1:
            raise ConfigError(f"--{name.replace('_', '-')} must be at least 1, not {value}")


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
