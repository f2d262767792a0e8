"""`dsacc status`."""

import argparse
from pathlib import Path

from dsacc.cli.common import Commands


def add(commands: Commands) -> None:
    parser = commands.add_parser("status", help="show how the runs of a folder stand")
    parser.add_argument("folder", type=Path, metavar="DIR", help="an experiment, a folder of runs, or one run")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--json", action="store_true", help="print a JSON list, and nothing else")
    how.add_argument("--once", action="store_true", help="print one table (default: live on a terminal, else one)")


def run(args: argparse.Namespace) -> None:
    from rich.console import Console

    from dsacc.experiments.status import read_standings
    from dsacc.experiments.status_table import as_json, watch

    if args.json:
        print(as_json(read_standings(args.folder)))
    else:
        watch(args.folder, Console(), args.once)
