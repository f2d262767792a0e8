"""The parser of all commands, and `main`.

It uses argparse, because a user's mistake must end in one line and exit code 2, and because the help of each option
must give its value in every preset.
"""

import argparse
import sys
import traceback
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from dsacc import __version__
from dsacc.cli import demo, evaluate, experiment, export, harden, preview, report, status, train, watch
from dsacc.cli.common import say
from dsacc.errors import BadInput, DsaccError, EnvFailed, Stopped, Unchecked
from dsacc.system.imports import import_here
from dsacc.system.text import nearest
from dsacc.system.trust import trusting

_MODULES = (demo, train, evaluate, harden, preview, watch, experiment, status, report, export)
COMMANDS = {module.__name__.rpartition(".")[2]: module for module in _MODULES}
_CONTINUES = ("demo", "train", "evaluate", "harden", "experiment")  # the other commands start again
MOST_FRAMES = 6  # of a user's traceback, the innermost ones


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        print(f"dsacc: {message}; see `{self.prog} --help`", file=sys.stderr)
        raise SystemExit(2)


class _Command(_Parser):
    """The parser of one command. For an unknown option it suggests the nearest known one."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            options = [option for action in self._actions for option in action.option_strings]
            near = next(filter(None, (nearest(text.split("=")[0], options, 0.7) for text in unknown)), None)
            self.error(f"unrecognized arguments: {' '.join(unknown)}" + (f" (did you mean {near}?)" if near else ""))
        return found, unknown


def build_parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="dsacc", description="Train discrete-action agents and test how well they hold up.")
    parser.add_argument("--version", action="version", version=f"dsacc {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=_Command)
    for command in COMMANDS.values():
        command.add(commands)
    return parser


class _Warnings:
    """Prints each warning as one line. Gymnasium's are left out: our own checks raise errors for the same things. Rows
    without a checksum are counted, and said once, at the end of the command."""

    def __init__(self) -> None:
        self._unchecked: dict[str, int] = {}  # by the sentence: a folder may be read twice

    def show(self, message: Warning | str, category: type[Warning], filename: str, *_: Any, **__: Any) -> None:
        if isinstance(message, Unchecked):
            self._unchecked[str(message)] = message.count
        elif "gymnasium" not in Path(filename).parts:
            say(f"dsacc: warning: {message}")

    def end(self) -> None:
        if self._unchecked:
            say(f"dsacc: warning: {Unchecked.sentence(sum(self._unchecked.values()))}")


def _own_traceback(error: DsaccError) -> list[str]:
    """Where an environment's own exception comes from, in the user's files; nothing for any other error."""
    cause = error.__cause__
    if not isinstance(error, EnvFailed) or cause is None:
        return []
    from dsacc.envs.checked import own_frames

    if cause.__context__ is not None and not own_frames(cause.__traceback__):
        cause = cause.__context__  # Gymnasium raises some exceptions of a constructor again
    frames = own_frames(cause.__traceback__)[-MOST_FRAMES:]
    lines = traceback.format_list(frames) + traceback.format_exception_only(cause) if frames else []
    return "".join(lines).splitlines()


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code: 0, 2 for a user's mistake, 1 for a failed run, 130 for Ctrl-C and 143
    for SIGTERM."""
    command, told = "", _Warnings()
    try:
        args = build_parser().parse_args(argv)
        command = args.command
        with warnings.catch_warnings(), trusting(getattr(args, "trust", False)):
            warnings.showwarning = told.show
            for module in getattr(args, "imports", ()):
                import_here(module, f"there is no module {module!r} here or among the installed packages")
            COMMANDS[command].run(args)
            told.end()
    except Stopped as stopped:
        say("dsacc: stopped and saved; run the same command to continue")
        return 128 + stopped.signal
    except DsaccError as error:
        say(f"dsacc: {error}")
        for line in _own_traceback(error):
            say(line)
        return 2 if isinstance(error, BadInput) else 1
    except KeyboardInterrupt:
        say("dsacc: stopped" + ("; run the same command to continue" if command in _CONTINUES else ""))
        return 130
    return 0
