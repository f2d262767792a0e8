"""The command line: parsing and printing. Each command is a file: `add` describes its options, `run` does the work."""

from dsacc.cli.parser import COMMANDS, build_parser, main

__all__ = ["COMMANDS", "build_parser", "main"]
