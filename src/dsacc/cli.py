"""The command line: parsing and printing only.

Built on argparse, because a user's mistake must end in one line and exit code 2, and every option's help must say what
each preset makes of it.
"""

import argparse
import json
import sys
import warnings
from collections.abc import Sequence
from dataclasses import MISSING, Field, fields
from pathlib import Path
from typing import Any, NoReturn

from dsacc import __version__
from dsacc.config import AGENTS, GROUPS, PRESETS, Config, field_type, make_config
from dsacc.errors import BadInput, ConfigError, DsaccError, Stopped

NOT_OPTIONS = ("env", "constraint")  # given as ENV and --agent


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        print(f"dsacc: {message}; see `{self.prog} --help`", file=sys.stderr)
        raise SystemExit(2)


def build_parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="dsacc", description="Train discrete-action agents and test how well they hold up.")
    parser.add_argument("--version", action="version", version=f"dsacc {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=_Parser)
    _train_options(commands.add_parser("train", help="train an agent", usage="dsacc train ENV [options]"))
    _evaluate_options(
        commands.add_parser(
            "evaluate", help="test trained agents", description="Play full episodes, report raw scores."
        )
    )
    demo = commands.add_parser(
        "demo",
        help="the whole job on a built-in game, in a few minutes",
        description="Train DSAC and DSAC-M on the built-in game Catch, test both, print the table.",
    )
    demo.add_argument("--out", type=Path, default=Path("demo"), help="folder for the results (default: demo)")
    _preview_options(
        commands.add_parser(
            "preview",
            help="a picture of games under shifts",
            description="Draw games under shifts: the screen in colour above, what the agent gets below.",
        )
    )
    _export_options(
        commands.add_parser(
            "export", help="write an agent for deployment", description="Write the policy as an ONNX graph."
        )
    )
    _experiment_options(
        commands.add_parser(
            "experiment",
            help="train and test a grid of games, agents and seeds",
            usage="dsacc experiment GRID [options]",
            description="Train and test every run of a grid. The same command again goes on, and repeats nothing.",
        )
    )
    _status_options(commands.add_parser("status", help="how the runs of a folder stand"))
    return parser


def _train_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("env", metavar="ENV", help="an Atari game (Breakout), or a Gymnasium id (CartPole-v1)")
    parser.add_argument(
        "--agent", choices=list(AGENTS), default="dsac-m", help="DSAC, or with a mean, variance or both constraints"
        " (default: dsac-m)",
    )  # fmt: skip
    parser.add_argument("--steps", type=_whole, default=100_000, help="agent steps to train for (default: 100000)")
    parser.add_argument(
        "--preset", choices=list(PRESETS), help="set of settings (default: efficient for pictures, else classic)"
    )
    parser.add_argument("--out", type=Path, help="run folder (default: runs/ENV-AGENT-sSEED-ID)")
    parser.add_argument("--device", default="cpu", help="cpu, cuda or mps (default: cpu)")
    parser.add_argument("--threads", type=_whole, default=1, help="threads of this process (default: 1)")
    parser.add_argument("--tensorboard", action="store_true", help="write TensorBoard events into the run folder too")
    parser.add_argument("--dry-run", action="store_true", help="say what would be done, and do nothing")
    tests = parser.add_argument_group("tests during training, which change nothing in it")
    tests.add_argument("--evaluate-every", type=_whole, metavar="STEPS", help="play test games every so many steps")
    tests.add_argument("--evaluate-shifts", nargs="+", default=["id"], metavar="SHIFT", help="conditions (default: id)")
    tests.add_argument("--evaluate-episodes", type=_whole, default=10, help="episodes per condition (default: 10)")
    group = parser
    for f in fields(Config):
        if f.name in NOT_OPTIONS:
            continue
        if f.name in GROUPS:
            group = parser.add_argument_group(GROUPS[f.name])  # type: ignore[assignment]
        _add_option(group, f)


def _evaluate_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "runs",
        nargs="+",
        metavar="RUN",
        help="run folder or saved agent; or random, blind:RUN (sees a constant), sb3:FILE, onnx:FILE, module:function",
    )
    parser.add_argument("--env", help="environment to play (default: the one trained on)")
    parser.add_argument(
        "--shifts",
        nargs="+",
        metavar="SHIFT",
        help="conditions; id is the clean game (default: id snow rain fog for pictures, else id)",
    )
    parser.add_argument(
        "--severity", nargs="+", default=["paper"], metavar="LEVEL", help="paper, or 1 to 5; several (default: paper)"
    )
    parser.add_argument(
        "--mode",
        choices=["independent", "frozen", "falling"],
        default="independent",
        help="new weather each frame, one draw an episode, or one that falls (default: independent)",
    )
    parser.add_argument(
        "--where",
        choices=["screen", "observation"],
        help="shift the full screen, or what the agent sees (default: screen for Atari, else observation)",
    )
    parser.add_argument("--episodes", type=_whole, default=10, help="full episodes per condition (default: 10)")
    parser.add_argument(
        "--policy",
        nargs="+",
        choices=["greedy", "sampled"],
        default=["greedy"],
        help="how actions are chosen; both may be given (default: greedy)",
    )
    parser.add_argument("--seed", type=int, default=0, help="of games, weather and actions (default: 0)")
    parser.add_argument(
        "--format", choices=["table", "csv", "markdown", "latex", "json"], default="table", help="(default: table)"
    )
    parser.add_argument("--baseline", help="agent that others are compared with (default: dsac, or the first)")
    parser.add_argument("--out", type=Path, help="folder for the rows of agents that have no run folder")
    parser.add_argument(
        "--trust", action="store_true", help="load files that can execute code (sb3: files are pickles)"
    )
    parser.add_argument("--threads", type=_whole, default=1, help="threads of this process (default: 1)")


def _export_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", type=Path, metavar="RUN", help="run folder or saved agent")
    parser.add_argument("--format", choices=["onnx"], default="onnx", help="of the file (default: onnx)")
    parser.add_argument("--out", type=Path, help="file to write (default: the name of RUN with .onnx, here)")


def _preview_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("envs", nargs="+", metavar="ENV", help="environments with pictures, a row each")
    parser.add_argument("--out", type=Path, default=Path("preview.png"), help="PNG file (default: preview.png)")
    parser.add_argument(
        "--shifts", nargs="+", default=["snow", "rain", "fog"], metavar="SHIFT",
        help="columns, beside the clean game (default: snow rain fog)",
    )  # fmt: skip
    parser.add_argument(
        "--severities", nargs="+", default=["paper"], metavar="SEVERITY",
        help="paper, or 1 to 5: a column each for every shift (default: paper)",
    )  # fmt: skip
    parser.add_argument(
        "--mode", default="independent", help="independent, frozen or falling (default: independent)"
    )  # fmt: skip
    parser.add_argument("--modes", action="store_true", help="a row for each mode, four successive frames in a cell")
    parser.add_argument("--seed", type=_whole, default=0, help="of the game and of the shifts (default: 0)")
    parser.add_argument("--steps", type=_whole, default=150, help="random steps before the picture (default: 150)")


def _experiment_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("grid", metavar="GRID", help="paper, paper-100k, readings, smoke, or a .toml file")
    parser.add_argument(
        "--backend", choices=["local", "ray", "slurm"], default="local", help="where the runs go (default: local)"
    )
    parser.add_argument("--out", type=Path, help="the experiment's folder (default: experiments/GRID)")
    parser.add_argument("--workers", type=_whole, help="runs side by side (default: one a core)")
    parser.add_argument("--retries", type=_whole, default=1, help="more attempts for a run that failed (default: 1)")
    parser.add_argument("--device", default="cpu", help="cpu, cuda or mps (default: cpu)")
    parser.add_argument("--dry-run", action="store_true", help="say what it will take here, and do nothing")
    _backend_options(parser)
    group = parser.add_argument_group("instead of what the grid says")
    group.add_argument("--envs", nargs="+", metavar="ENV", help="environments")
    group.add_argument("--agents", nargs="+", metavar="AGENT", help=", ".join(AGENTS))
    group.add_argument("--seeds", type=_whole, metavar="N", help="how many seeds: 0 to N-1")
    group.add_argument("--steps", type=_whole, help="agent steps of each run")
    group.add_argument("--preset", choices=list(PRESETS), help="set of settings")


def _backend_options(parser: argparse.ArgumentParser) -> None:
    ray = parser.add_argument_group("with --backend ray")
    ray.add_argument("--address", help="HOST:PORT of a cluster, auto, or local (default: RAY_ADDRESS, else local)")
    ray.add_argument("--allow-open-cluster", action="store_true", help="use a cluster that wants no token")
    slurm = parser.add_argument_group("with --backend slurm")
    slurm.add_argument("--slurm", action="append", metavar="KEY=VALUE", help="option of sbatch, such as partition=gpu")
    slurm.add_argument(
        "--slurm-time",
        type=_whole,
        default=1440,
        metavar="MINUTES",
        help="limit of a job, which goes on (default: 1440)",
    )
    slurm.add_argument("--detach", action="store_true", help="submit and leave; the same command collects")
    slurm.add_argument("--slurm-executor", choices=["slurm", "local"], default="slurm", help=argparse.SUPPRESS)


def _status_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", type=Path, metavar="DIR", help="an experiment, a folder of runs, or one run")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--json", action="store_true", help="a JSON list, and nothing else")
    how.add_argument("--once", action="store_true", help="one table (default: live on a terminal, else one)")


def _add_option(group: Any, f: "Field[Any]") -> None:
    """`--noise-std`, with its unit, its default and what other presets make of it."""
    kind, _ = field_type(f)
    others = [f"{name}: {_shown(preset[f.name])}" for name, preset in PRESETS.items() if f.name in preset]
    default = f" (default: {_shown(f.default)}{'; ' if others else ''}{', '.join(others)})"
    text = (f.metadata["help"] + default).replace("%", "%%")
    name = "--" + f.name.replace("_", "-")
    if kind is bool:
        group.add_argument(name, action=argparse.BooleanOptionalAction, default=MISSING, help=text)
    else:
        choices = f.metadata["choices"]
        group.add_argument(
            name,
            default=MISSING,
            help=text,
            type=_reader(f),
            choices=choices,
            metavar=None if choices else kind.__name__,
        )


def _shown(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return {None: "none", True: "on", False: "off"}[value]
    return f"{value:g}" if isinstance(value, float) else str(value)


def _reader(f: "Field[Any]") -> Any:
    kind, optional = field_type(f)

    def read(text: str) -> Any:
        if optional and text.lower() == "none":
            return None
        try:
            return kind(text) if kind is not int else _whole(text)
        except ValueError:
            wanted = "a whole number" if kind is int else "a number"
            raise argparse.ArgumentTypeError(f"{text!r} is not {wanted}") from None

    return read


def _whole(text: str) -> int:
    """30000, 30_000 or 3e4."""
    try:
        return int(text)
    except ValueError:
        value = float(text)
        if value != int(value):
            raise ValueError(text) from None
        return int(value)


_whole.__name__ = "whole number"  # argparse names the type in its message


# --- commands --------------------------------------------------------------------------------------------------------


def _train(args: argparse.Namespace) -> None:
    _at_least_one(args, "steps", "threads", "evaluate_every", "evaluate_episodes")
    given = {f.name: getattr(args, f.name) for f in fields(Config) if getattr(args, f.name, MISSING) is not MISSING}
    given.pop("env")
    config = make_config(args.preset or "classic", env=args.env, **given)  # a mistake is told before anything slow

    from dsacc.dsac import DSAC
    from dsacc.replay import free_memory
    from dsacc.runs import RunFolder
    from dsacc.runs.files import size

    model = DSAC(args.env, AGENTS[args.agent], args.preset, device=args.device, **{"seed": config.seed, **given})
    config = model.config
    out = args.out or Path("runs") / config.run_name
    folder = RunFolder(out, config, args.steps)
    found = folder.found
    if found != "finished":
        model.prepare(args.steps)  # an environment that cannot be learned from says so before a run is announced
    _say(
        {
            "new": f"new run in {out}: {config.agent} on {config.env}, {args.steps:,} steps",
            "restart": f"{out} holds a run that stopped before a checkpoint: it starts again from step 0 with its seed",
            "continue": f"{out} holds this run: continuing from step {folder.step:,} of {args.steps:,}",
            "finished": f"{out} is finished at {args.steps:,} steps or more",
        }[found]
    )
    if found != "finished":
        needed, free = model.replay_bytes(args.steps), free_memory()
        _say(f"replay memory: up to {size(needed)} of {size(free)} free")
    if args.dry_run:
        return
    asked = {"tensorboard": args.tensorboard, "every": _tests(args, out), "threads": args.threads}
    model.learn(args.steps, progress_bar=True, out=out, **asked)
    if found != "finished":
        _say(f"done: the agent is in {out}")
    _say(f"next: dsacc evaluate {out}")


def _tests(args: argparse.Namespace, out: Path) -> dict[int, Any]:
    """What `--evaluate-every` asks for, as a function of the model."""
    if args.evaluate_every is None:
        return {}
    from dsacc.evaluation import evaluate

    def test(model: Any) -> None:
        asked = {"shifts": args.evaluate_shifts, "episodes": args.evaluate_episodes, "threads": args.threads}
        for row in evaluate(model, args.env, policy=["greedy", "sampled"], out=out, **asked):
            mean = sum(row["returns"]) / len(row["returns"])
            _say(f"step {model.step:,}: {row['shift']}, {row['policy']}: {mean:.4g} ({len(row['returns'])} episodes)")

    return {args.evaluate_every: test}


def _evaluate(args: argparse.Namespace) -> None:
    _at_least_one(args, "episodes", "threads")
    from dsacc.evaluation import evaluate, find_player
    from dsacc.evaluation.formats import render

    players = [
        find_player(spec, env=args.env, trust=args.trust) for spec in args.runs
    ]  # all are there, before any plays
    rows = []
    for spec, player in zip(args.runs, players, strict=True):
        own = Path(spec) if (Path(spec) / "config.json").is_file() else None
        out = own or args.out
        if len(players) > 1:
            _say(f"{spec}: {player.agent}")
        rows += evaluate(
            player,
            args.env,
            shifts=args.shifts,
            severity=args.severity,
            mode=args.mode,
            where=args.where,
            episodes=args.episodes,
            seed=args.seed,
            policy=args.policy,
            out=out,
            threads=args.threads,
            progress_bar=True,
        )
        _say(f"rows in {out / 'evaluations'}" if out else "rows are not kept: --out FOLDER would keep them")
    if args.format == "json":
        print(json.dumps(rows, indent=2))
    else:
        text = render(rows, args.format, baseline=args.baseline)
        if text is not None:
            print(text, end="")


def _export(args: argparse.Namespace) -> None:
    from dsacc.dsac import DSAC
    from dsacc.export import COMPARED, export_onnx
    from dsacc.runs.files import size

    model = DSAC.load(args.run)
    made = export_onnx(model, args.out or Path(f"{args.run.resolve().name.removesuffix('.safetensors')}.onnx"))
    c = model.config
    _say(f"wrote {made.path} ({size(made.bytes)}): {c.agent} on {c.env}, seed {c.seed}, step {model.step:,}")
    _say(
        f"input: observation, {made.observation}, as {c.env} gives it; output: logits, float32 [batch, {made.actions}]"
    )
    ties = f" ({made.ties} where rounding decides between two best actions)" if made.ties else ""
    _say(f"its actions equal the agent's on {COMPARED - made.ties:,} of {COMPARED:,} random observations{ties}")
    _say(f"next: dsacc evaluate onnx:{made.path}")


def _demo(args: argparse.Namespace) -> None:
    from dsacc.demo import run_demo

    run_demo(args.out)


def _preview(args: argparse.Namespace) -> None:
    from dsacc.preview import preview

    out = preview(
        args.envs,
        args.out,
        shifts=args.shifts,
        severities=args.severities,
        mode=args.mode,
        modes=args.modes,
        seed=args.seed,
        steps=args.steps,
    )
    print(f"the preview is in {out}")


def _experiment(args: argparse.Namespace) -> None:
    from rich.console import Console

    from dsacc.experiments.backends import Options, find_backend
    from dsacc.experiments.driver import check_folder, run_experiment
    from dsacc.experiments.grids import Overrides, load_plan

    plan = load_plan(args.grid, Overrides(args.envs, args.agents, args.seeds, args.steps, args.preset))
    out = args.out or Path("experiments") / plan.name
    for note in plan.notes:
        _say(note)
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
        from dsacc.experiments.backends.local import cores
        from dsacc.experiments.estimate import print_estimate

        check_folder(plan, out)
        print_estimate(plan, out, args.workers or len(cores()), Console())
    else:
        run_experiment(plan, out, backend, _say)


def _status(args: argparse.Namespace) -> None:
    from rich.console import Console

    from dsacc.experiments.status import as_json, read_standings, watch

    if args.json:
        print(as_json(read_standings(args.folder)))
    else:
        watch(args.folder, Console(), args.once)


def _at_least_one(args: argparse.Namespace, *names: str) -> None:
    for name in names:
        value = getattr(args, name)
        if value is not None and value < 1:
            raise ConfigError(f"--{name.replace('_', '-')} must be at least 1, not {value}")


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _warn_in_a_line(message: Warning | str, category: type[Warning], filename: str, *_: Any, **__: Any) -> None:
    """Our own warnings, as a line. Gymnasium's passive checker would say what our own checks say as errors."""
    if "gymnasium" not in Path(filename).parts:
        _say(f"dsacc: warning: {message}")


COMMANDS = {
    "train": _train,
    "evaluate": _evaluate,
    "demo": _demo,
    "preview": _preview,
    "export": _export,
    "experiment": _experiment,
    "status": _status,
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code: 0, 2 for a user's mistake, 1 for a failed run, 130 for Ctrl-C."""
    args = build_parser().parse_args(argv)
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _warn_in_a_line
            COMMANDS[args.command](args)
    except Stopped as stopped:
        _say("dsacc: stopped and saved; the same command goes on")
        return 128 + stopped.signal
    except DsaccError as error:
        _say(f"dsacc: {error}")
        return 2 if isinstance(error, BadInput) else 1
    except KeyboardInterrupt:
        _say("dsacc: stopped; the same command goes on")
        return 130
    return 0
