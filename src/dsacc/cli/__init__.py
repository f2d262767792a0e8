"""The command line: parsing and printing only. Each command is one file: `add` defines its options, `run` runs it."""

from dsacc.cli.parser import COMMANDS, build_parser, main

__all__ = ["COMMANDS", "build_parser", "main"]
