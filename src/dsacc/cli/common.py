"""What commands share: whole numbers as people write them, options of commands that play, lines on standard error."""

import argparse
import sys
from typing import Any

from dsacc.errors import ConfigError
from dsacc.system.text import harmless
from dsacc.system.trust import HELP
from dsacc.system.types import MODES, WHERE

Commands = Any  # the result of argparse's add_subparsers, whose type has no public name


def whole(text: str) -> int:
    """A whole number, written as 30000, 30_000 or 3e4."""
    try:
        return int(text)
    except ValueError:
        value = float(text)
        if value != int(value):
            raise ValueError(text) from None
        return int(value)


whole.__name__ = "whole number"  # argparse names the type in its message


PLAYERS = "run folder or saved agent; or random, blind:RUN (sees a constant), sb3:FILE, onnx:FILE, module:function"


def mode_option(parser: argparse.ArgumentParser) -> None:
    text = "new weather per frame, one per episode, or one per episode that falls or drifts (default: independent)"
    parser.add_argument("--mode", choices=MODES, default="independent", help=text)


def import_option(parser: argparse.ArgumentParser) -> None:
    """`--import MODULE`, which `main` carries out before the command runs."""
    text = "module of yours to import first, which registers an encoder or a shift; may be given again"
    parser.add_argument("--import", dest="imports", action="append", default=[], metavar="MODULE", help=text)


def trust_option(parser: argparse.ArgumentParser) -> None:
    """`--trust`, which `main` carries out around the whole command."""
    parser.add_argument("--trust", action="store_true", help=HELP)


def player_options(parser: argparse.ArgumentParser) -> None:
    """Options of every command that plays games."""
    parser.add_argument("--env", help="environment to play (default: the one that the agent was trained on)")
    import_option(parser)
    mode_option(parser)
    where = "shift the full screen, or what the agent sees (default: screen for Atari and MinAtar, else observation)"
    parser.add_argument("--where", choices=WHERE, help=where)
    parser.add_argument("--seed", type=whole, default=0, help="seed of games, weather and actions (default: 0)")
    trust_option(parser)
    parser.add_argument("--threads", type=whole, default=1, help="threads of this process (default: 1)")


def picked(args: argparse.Namespace, names: str) -> dict[str, Any]:
    """Some of the arguments by name, to hand on as keywords."""
    return {name: getattr(args, name) for name in names.split()}


def at_least_one(args: argparse.Namespace, *names: str) -> None:
    for name in names:
        value = getattr(args, name)
        if value is not None and value < 1:
            raise ConfigError(f"--{name.replace('_', '-')} must be at least 1, not {value}")


def say(line: str) -> None:
    print(harmless(line), file=sys.stderr, flush=True)
