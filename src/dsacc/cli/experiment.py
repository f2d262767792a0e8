"""`dsacc experiment`."""

import argparse
from pathlib import Path

from dsacc.cli.common import Commands, say, whole
from dsacc.config import AGENTS, PRESETS
from dsacc.experiments.backends.registry import BACKENDS, find_backend
from dsacc.experiments.builtin import builtin_names


def add(commands: Commands) -> None:
    parser = commands.add_parser(
        "experiment",
        help="train and test a grid of games, agents and seeds",
        usage="dsacc experiment GRID [options]",
        description="Train and test every run of a grid. The same command again continues, and repeats nothing.",
    )
    parser.add_argument("grid", metavar="GRID", help=f"{', '.join(builtin_names())}, or a .toml file")
    parser.add_argument(
        "--backend", choices=list(BACKENDS), default="local", help="where the runs are executed (default: local)"
    )
    parser.add_argument("--out", type=Path, help="the experiment's folder (default: experiments/GRID)")
    parser.add_argument("--workers", type=whole, help="runs side by side (default: one per core)")
    parser.add_argument("--retries", type=whole, default=1, help="more attempts for a run that failed (default: 1)")
    parser.add_argument("--device", default="cpu", help="cpu, cuda or mps (default: cpu)")
    parser.add_argument(
        "--only",
        nargs="+",
        default=[],
        metavar="PATTERN",
        help="perform only runs whose name and label fit a pattern, such as 'Breakout*-s0-*' or '*constant lambda'; "
        "the others wait for another call (default: all)",
    )
    parser.add_argument("--dry-run", action="store_true", help="print what it will take here, and run nothing")
    for name, entry in BACKENDS.items():
        if entry.options:
            group = parser.add_argument_group(f"with --backend {name}")
            for option in entry.options:
                numbers = {"type": whole} if option.argparse_words.get("type") is int else {}
                group.add_argument(option.flag, dest=option.keyword, **{**option.argparse_words, **numbers})
    group = parser.add_argument_group("in place of what the grid says")
    group.add_argument("--envs", nargs="+", metavar="ENV", help="environments")
    group.add_argument("--agents", nargs="+", metavar="AGENT", help=", ".join(AGENTS))
    group.add_argument("--seeds", type=whole, metavar="N", help="how many seeds: 0 to N-1")
    group.add_argument("--steps", type=whole, help="agent steps of each run")
    group.add_argument("--preset", choices=list(PRESETS), help="set of settings")


def run(args: argparse.Namespace) -> None:
    from rich.console import Console

    from dsacc.experiments.driver import check_folder, run_experiment
    from dsacc.experiments.grids import Overrides, load_plan

    plan = load_plan(args.grid, Overrides(args.envs, args.agents, args.seeds, args.steps, args.preset))
    out = args.out or Path("experiments") / plan.name
    for note in plan.notes:
        say(note)
    options = {option.keyword: getattr(args, option.keyword) for option in BACKENDS[args.backend].options}
    backend = find_backend(args.backend, workers=args.workers, device=args.device, **options)
    if args.dry_run:
        from dsacc.experiments.estimate import print_estimate
        from dsacc.system.processes import cores

        check_folder(plan, out)
        print_estimate(plan, out, args.workers or len(cores()), Console(), args.only)
    else:
        run_experiment(plan, out, backend, say, retries=args.retries, only=args.only)
