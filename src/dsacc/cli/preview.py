"""`dsacc preview`."""

import argparse
from dataclasses import fields
from pathlib import Path

from dsacc.cli.common import Commands, mode_option, picked, whole
from dsacc.config import Config, choices


def add(commands: Commands) -> None:
    parser = commands.add_parser(
        "preview",
        help="a picture of games under shifts",
        description="Draw games under shifts: the screen in colour above, what the agent sees below.",
    )
    parser.add_argument("envs", nargs="+", metavar="ENV", help="environments with pictures, one row each")
    parser.add_argument("--out", type=Path, default=Path("preview.png"), help="PNG file (default: preview.png)")
    shifts = "columns after the clean game (default: snow rain fog)"
    parser.add_argument("--shifts", nargs="+", default=["snow", "rain", "fog"], metavar="SHIFT", help=shifts)
    severities = "paper, or 1 to 5; one column per shift and severity (default: paper)"
    parser.add_argument("--severities", nargs="+", default=["paper"], metavar="SEVERITY", help=severities)
    mode_option(parser)
    parser.add_argument("--modes", action="store_true", help="one row per mode, with four successive frames per cell")
    seen = "show what an agent with this setting sees (default: none)"
    setting = next(f for f in fields(Config) if f.name == "picture_filter")
    parser.add_argument("--picture-filter", choices=choices(setting), default="none", help=seen)
    parser.add_argument("--seed", type=whole, default=0, help="seed of the game and of the shifts (default: 0)")
    parser.add_argument("--steps", type=whole, default=150, help="random steps before the picture (default: 150)")


def run(args: argparse.Namespace) -> None:
    from dsacc.views.preview import preview

    out = preview(args.envs, args.out, **picked(args, "shifts severities mode modes seed steps picture_filter"))
    print(f"the preview is in {out}")
