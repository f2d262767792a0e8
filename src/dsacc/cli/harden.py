"""`dsacc harden`."""

import argparse
from dataclasses import fields
from pathlib import Path

from dsacc.cli.common import Commands, at_least_one, import_option, picked, say, trust_option, whole
from dsacc.config import Config, choices


def add(commands: Commands) -> None:
    parser = commands.add_parser(
        "harden",
        help="make a student of any agent that keeps its score under shifts",
        usage="dsacc harden AGENT [options]",
        description="Make a student that plays like AGENT and keeps its score under shifts that it never saw.",
    )
    agent = "run folder or saved agent; or sb3:FILE, onnx:FILE, module:function"
    parser.add_argument("agent", metavar="AGENT", help=agent)
    parser.add_argument("--env", help="environment to play (default: the one that the agent was trained on)")
    import_option(parser)
    parser.add_argument("--out", type=Path, help="run folder of the student (default: AGENT-hardened)")
    augment = "generic (nothing like weather), near (relatives of weather too), or kinds by name (default: generic)"
    parser.add_argument("--augment", nargs="+", default=["generic"], metavar="KIND", help=augment)
    parser.add_argument("--updates", type=whole, help="updates of the student, of 40 states each (default: 12000)")
    parser.add_argument("--states", type=whole, help="states that are collected (default: 20000)")
    rounds = "rounds in which the student's own play gives half of the states; 0: all are the teacher's (default: 2)"
    parser.add_argument("--rounds", type=whole, help=rounds)
    parser.add_argument("--seed", type=whole, default=0, help="fixes everything random (default: 0)")
    every = "updates between checkpoints (default: 1000)"
    parser.add_argument("--checkpoint-every", type=whole, default=1_000, help=every)
    filters = "picture filter of the student (default: detail; with --no-fresh the agent's own)"
    setting = next(f for f in fields(Config) if f.name == "picture_filter")
    parser.add_argument("--picture-filter", choices=choices(setting), help=filters)
    fresh = "begin with new weights (default), or as a copy of an agent of dsacc: closer to it on clean pictures alone"
    parser.add_argument("--fresh", action=argparse.BooleanOptionalAction, default=True, help=fresh)
    encoder = "network of a student with new weights, such as nature (default: the agent's own)"
    parser.add_argument("--encoder", help=encoder)
    parser.add_argument("--values", action="store_true", help="scores of a function or an ONNX graph are values Q")
    trust_option(parser)
    parser.add_argument("--device", default="cpu", help="cpu, cuda or mps (default: cpu)")
    parser.add_argument("--threads", type=whole, default=1, help="threads of this process (default: 1)")


def run(args: argparse.Namespace) -> None:
    at_least_one(args, "threads", "checkpoint_every")
    from dsacc.hardening import harden
    from dsacc.hardening.work import Recipe
    from dsacc.runs import Checkpoints, read_status
    from dsacc.system.memory import keep_freed_memory

    keep_freed_memory()
    given = {name: getattr(args, name) for name in ("updates", "states", "rounds") if getattr(args, name) is not None}
    updates = Recipe(tuple(args.augment), seed=args.seed, **given).updates  # reports mistakes before anything slow
    out = args.out or Path(f"{args.agent.rstrip('/').replace(':', '-')}-hardened")
    before, saved = read_status(out), Checkpoints(out).newest()
    finished = before.get("state") == "finished"
    if saved is not None and not finished:
        say(f"{out}: this student continues from update {saved.manifest.step:,} of {updates:,}")
    elif before and not finished:
        say(f"{out}: this student stopped before its first checkpoint; it starts again with the same seed")
    elif not finished:
        say(f"new student of {args.agent} in {out}: {updates:,} updates under {', '.join(args.augment)}")
    asked = picked(args, "augment seed picture_filter fresh encoder values threads device checkpoint_every")
    harden(args.agent, args.env, out=out, progress_bar=True, **given, **asked)
    say(f"{out}: this student is finished" if finished else f"done: the student is in {out}")
    own = f" --env {args.env}" if args.env else ""
    say(f"next: dsacc evaluate {args.agent} {out}{own}{' --trust' if args.trust else ''}")
