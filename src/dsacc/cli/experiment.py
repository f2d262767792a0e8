"""`dsacc experiment`."""

import argparse
from pathlib import Path

from dsacc.cli.common import Commands, say, whole
from dsacc.config import AGENTS, PRESETS


def add(commands: Commands) -> None:
    parser = commands.add_parser(
        "experiment",
        help="train and test a grid of games, agents and seeds",
        usage="dsacc experiment GRID [options]",
        description="Train and test every run of a grid. The same command again goes on, and repeats nothing.",
    )
    parser.add_argument(
        "grid", metavar="GRID", help="lowdata, paper, paper-100k, readings, readings-catch, smoke, or a .toml file"
    )
    parser.add_argument(
        "--backend", choices=["local", "ray", "slurm"], default="local", help="where the runs go (default: local)"
    )
    parser.add_argument("--out", type=Path, help="the experiment's folder (default: experiments/GRID)")
    parser.add_argument("--workers", type=whole, help="runs side by side (default: one a core)")
    parser.add_argument("--retries", type=whole, default=1, help="more attempts for a run that failed (default: 1)")
    parser.add_argument("--device", default="cpu", help="cpu, cuda or mps (default: cpu)")
    parser.add_argument("--dry-run", action="store_true", help="say what it will take here, and do nothing")
    _backend_options(parser)
    group = parser.add_argument_group("instead of what the grid says")
    group.add_argument("--envs", nargs="+", metavar="ENV", help="environments")
    group.add_argument("--agents", nargs="+", metavar="AGENT", help=", ".join(AGENTS))
    group.add_argument("--seeds", type=whole, metavar="N", help="how many seeds: 0 to N-1")
    group.add_argument("--steps", type=whole, help="agent steps of each run")
    group.add_argument("--preset", choices=list(PRESETS), help="set of settings")


def _backend_options(parser: argparse.ArgumentParser) -> None:
    ray = parser.add_argument_group("with --backend ray")
    ray.add_argument("--address", help="HOST:PORT of a cluster, auto, or local (default: RAY_ADDRESS, else local)")
    ray.add_argument("--allow-open-cluster", action="store_true", help="use a cluster that wants no token")
    slurm = parser.add_argument_group("with --backend slurm")
    slurm.add_argument("--slurm", action="append", metavar="KEY=VALUE", help="option of sbatch, such as partition=gpu")
    slurm.add_argument(
        "--slurm-time",
        type=whole,
        default=1440,
        metavar="MINUTES",
        help="limit of a job, which goes on (default: 1440)",
    )
    slurm.add_argument("--detach", action="store_true", help="submit and leave; the same command collects")
    slurm.add_argument("--slurm-executor", choices=["slurm", "local"], default="slurm", help=argparse.SUPPRESS)


def run(args: argparse.Namespace) -> None:
    from rich.console import Console

    from dsacc.experiments.backends import Options, find_backend
    from dsacc.experiments.driver import check_folder, run_experiment
    from dsacc.experiments.grids import Overrides, load_plan

    plan = load_plan(args.grid, Overrides(args.envs, args.agents, args.seeds, args.steps, args.preset))
    out = args.out or Path("experiments") / plan.name
    for note in plan.notes:
        say(note)
    options = Options(
        args.address,
        args.allow_open_cluster,
        tuple(args.slurm or ()),
        args.slurm_time,
        args.slurm_executor,
        args.detach,
    )
    backend = find_backend(
        args.backend, workers=args.workers, retries=args.retries, device=args.device, options=options
    )
    if args.dry_run:
        from dsacc.experiments.estimate import print_estimate
        from dsacc.system.processes import cores

        check_folder(plan, out)
        print_estimate(plan, out, args.workers or len(cores()), Console())
    else:
        run_experiment(plan, out, backend, say)
