"""`dsacc demo`."""

import argparse
from pathlib import Path

from dsacc.cli.common import Commands


def add(commands: Commands) -> None:
    parser = commands.add_parser(
        "demo",
        help="the whole job on a built-in game, in a few minutes",
        description="Train DSAC and DSAC-M on the built-in game Catch, harden DSAC-M, test all three clean and in bad "
        "weather, and write a picture and a report. The same command again continues.",
    )
    parser.add_argument("--out", type=Path, default=Path("demo"), help="folder for the results (default: demo)")


def run(args: argparse.Namespace) -> None:
    from dsacc.cli.demo_run import run_demo

    run_demo(args.out)
