"""`dsacc evaluate`."""

import argparse
import json
from pathlib import Path
from typing import Any

from dsacc.cli.common import PLAYERS, Commands, at_least_one, picked, player_options, say, whole
from dsacc.system.types import POLICIES


def add(commands: Commands) -> None:
    parser = commands.add_parser(
        "evaluate", help="test trained agents", description="Play full episodes and report raw scores."
    )
    parser.add_argument("runs", nargs="+", metavar="RUN", help=PLAYERS)
    player_options(parser)
    shifts = "conditions; id is the clean game (default: id snow rain fog for pictures, else id)"
    parser.add_argument("--shifts", nargs="+", metavar="SHIFT", help=shifts)
    parser.add_argument(
        "--severity", nargs="+", default=["paper"], metavar="LEVEL", help="paper, 1 to 5, or several (default: paper)"
    )
    parser.add_argument("--episodes", type=whole, default=10, help="full episodes per condition (default: 10)")
    policy = "how actions are chosen; both may be given (default: greedy)"
    parser.add_argument("--policy", nargs="+", choices=POLICIES, default=["greedy"], help=policy)
    formats = ["table", "csv", "markdown", "latex", "json"]
    parser.add_argument("--format", choices=formats, default="table", help="format of the output (default: table)")
    parser.add_argument("--baseline", help="agent that the others are compared with (default: dsac, or the first)")
    out = "folder for the rows (default: the run folder; the rows of an agent that has none are not kept)"
    parser.add_argument("--out", type=Path, help=out)


def run(args: argparse.Namespace) -> None:
    at_least_one(args, "episodes", "threads")
    from dsacc.analysis.formats import render
    from dsacc.play import evaluate, find_player
    from dsacc.play.naming import names_of
    from dsacc.play.store import NotKept

    # All agents are found before any of them plays.
    players = [find_player(spec, env=args.env) for spec in args.runs]
    names = names_of(players, args.runs, args.env)
    asked = picked(args, "shifts severity mode where episodes seed policy threads")
    rows: list[dict[str, Any]] = []
    lost: NotKept | None = None
    for spec, player, name in zip(args.runs, players, names, strict=True):
        own = Path(spec) if (Path(spec) / "config.json").is_file() else None
        out = args.out or own
        if len(players) > 1:
            say(f"{spec}: {name}")
        try:
            found = evaluate(player, args.env, out=out, progress_bar=True, **asked)
            say(f"the rows are in {out / 'evaluations'}" if out else "the rows are not kept; --out FOLDER keeps them")
        except NotKept as error:
            if not error.rows and args.out is not None:  # nothing was played yet, and keeping was asked for
                raise
            say(f"{error}: the rows are not kept; --out FOLDER keeps them elsewhere")
            lost, found = (error, error.rows) if error.rows else (lost, [])
            found = found or evaluate(player, args.env, progress_bar=True, **asked)
        rows += [{**row, "agent": name} for row in found]
    if args.format == "json":
        print(json.dumps(rows, indent=2))
    else:
        print(render(rows, args.format, baseline=args.baseline) or "", end="")
    if lost is not None:
        raise lost
