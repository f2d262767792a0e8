"""`dsacc watch`."""

import argparse
from pathlib import Path

from dsacc.cli.common import PLAYERS, Commands, at_least_one, picked, player_options, say, whole
from dsacc.system.types import POLICIES


def add(commands: Commands) -> None:
    parser = commands.add_parser(
        "watch",
        help="a video of an agent and of what it computes",
        description="Write a video: the shifted game, what the agent sees, its policy, its critics' policy, Q and "
        "lambda. The games are the same as those of evaluate.",
    )
    parser.add_argument("run", metavar="RUN", help=PLAYERS)
    player_options(parser)
    shifts = "conditions, up to four; id is the clean game (default: id snow for pictures, else id)"
    parser.add_argument("--shifts", nargs="+", metavar="SHIFT", help=shifts)
    parser.add_argument("--severity", default="paper", metavar="LEVEL", help="paper, or 1 to 5 (default: paper)")
    parser.add_argument("--policy", choices=POLICIES, default="greedy", help="how actions are chosen (default: greedy)")
    parser.add_argument("--episodes", type=whole, default=1, help="games, one after the other (default: 1)")
    parser.add_argument("--max-steps", type=whole, default=1000, help="agent steps shown per game (default: 1000)")
    parser.add_argument("--fps", type=float, help="frames (agent steps) per second (default: the environment's own)")
    parser.add_argument("--out", type=Path, help="file, .mp4 or .gif (default: watch.mp4, or watch.gif without ffmpeg)")


def run(args: argparse.Namespace) -> None:
    at_least_one(args, "episodes", "max_steps", "threads")
    from dsacc.system.text import size
    from dsacc.views.watch import watch
    from dsacc.views.watch.film import EXTRA, has_ffmpeg

    out = args.out or Path("watch.mp4" if has_ffmpeg() else "watch.gif")
    asked = picked(args, "shifts severity mode where policy episodes seed max_steps fps threads")
    made = watch(args.run, args.env, out=out, progress_bar=True, **asked)
    for shift in made.shifts:
        games = zip(made.scores[shift], made.steps[shift], strict=True)
        say(f"{shift}: " + ", ".join(f"score {score:g} in {steps:,} steps" for score, steps in games))
    if made.cut:
        say(f"a game was cut after {args.max_steps:,} steps; a higher --max-steps shows more")
    if not has_ffmpeg():
        say(f"{EXTRA} allows mp4, which is smaller and sharper")
    seconds, (width, height) = made.frames / made.fps, made.size
    about = f"{made.frames:,} frames of {width}x{height}, {seconds:.0f} s, {size(made.path.stat().st_size)}"
    print(f"the video is in {made.path} ({about})")
