"""`dsacc train`."""

import argparse
from dataclasses import MISSING, Field, fields
from pathlib import Path
from typing import Any

from dsacc.cli.common import Commands, at_least_one, say, whole
from dsacc.config import (
    AGENTS,
    GROUPS,
    PRESETS,
    Config,
    choices,
    default_preset,
    field_type,
    make_config,
    present_presets,
)
from dsacc.errors import ConfigError
from dsacc.system.text import readable
from dsacc.system.types import POLICIES

NOT_OPTIONS = ("env", "constraint")  # given as ENV and --agent


def add(commands: Commands) -> None:
    parser = commands.add_parser("train", help="train an agent", usage="dsacc train ENV [options]")
    env = "a game of Atari (Breakout) or MinAtar (minatar/Breakout), a Gymnasium id (CartPole-v1), or MODULE:Id-v0"
    parser.add_argument("env", metavar="ENV", help=env)
    parser.add_argument(
        "--agent", choices=list(AGENTS), default="dsac-m", help="DSAC without a constraint, with the mean constraint, "
        "with the variance constraint, or with both (default: dsac-m)",
    )  # fmt: skip
    parser.add_argument("--steps", type=whole, default=100_000, help="agent steps to train for (default: 100000)")
    preset = "named settings (default: efficient for pictures, else classic)"
    parser.add_argument("--preset", choices=list(PRESETS), help=preset)
    parser.add_argument("--out", type=Path, help="run folder (default: runs/ENV-AGENT-sSEED-ID)")
    parser.add_argument("--device", default="cpu", help="cpu, cuda or mps (default: cpu)")
    parser.add_argument("--threads", type=whole, default=1, help="threads of this process (default: 1)")
    parser.add_argument("--tensorboard", action="store_true", help="also write TensorBoard events into the run folder")
    parser.add_argument("--dry-run", action="store_true", help="say what would be done, and do nothing")
    tests = parser.add_argument_group("tests during training, which do not affect it")
    tests.add_argument("--evaluate-every", type=whole, metavar="STEPS", help="agent steps between tests (default: off)")
    tests.add_argument("--evaluate-shifts", nargs="+", default=["id"], metavar="SHIFT", help="conditions (default: id)")
    tests.add_argument("--evaluate-episodes", type=whole, default=10, help="episodes per condition (default: 10)")
    for title in GROUPS:
        group = parser if title == GROUPS[0] else parser.add_argument_group(title)
        for f in fields(Config):
            if f.metadata["group"] == title and f.name not in NOT_OPTIONS:
                _add_option(group, f)


def _add_option(group: Any, f: "Field[Any]") -> None:
    """Add `--noise-std` with its help, its default and its value in other presets."""
    kind, _ = field_type(f)
    others = [f"{name}: {_shown(preset[f.name])}" for name, preset in present_presets().items() if f.name in preset]
    default = f" (default: {_shown(f.default)}{'; ' if others else ''}{', '.join(others)})"
    text = (f.metadata["help"] + default).replace("%", "%%")
    name = "--" + f.name.replace("_", "-")
    if kind is bool:
        group.add_argument(name, action=argparse.BooleanOptionalAction, default=MISSING, help=text)
    else:
        metavar = None if choices(f) else "NAME" if kind is str else kind.__name__
        group.add_argument(name, default=MISSING, help=text, type=_reader(f), choices=choices(f), metavar=metavar)


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
            return kind(text) if kind is not int else whole(text)
        except ValueError:
            wanted = "a whole number" if kind is int else "a number"
            raise argparse.ArgumentTypeError(f"{text!r} is not {wanted}") from None

    return read


def run(args: argparse.Namespace) -> None:
    at_least_one(args, "steps", "threads", "evaluate_every", "evaluate_episodes")
    given = {f.name: getattr(args, f.name) for f in fields(Config) if getattr(args, f.name, MISSING) is not MISSING}
    given.pop("env")
    config = _checked(args.preset, env=args.env, **given)

    from dsacc.dsac import DSAC
    from dsacc.envs.spaces import shows_pictures
    from dsacc.runs import RunFolder
    from dsacc.system.memory import free_memory, keep_freed_memory
    from dsacc.system.text import size

    keep_freed_memory()
    model = DSAC(args.env, AGENTS[args.agent], args.preset, device=args.device, **{"seed": config.seed, **given})
    config = model.config
    out = args.out or Path("runs") / config.run_name
    every = _tests(args, out, shows_pictures(model.observations.space))
    folder = RunFolder(out, config, args.steps)
    found = folder.found
    if found != "finished":
        model.prepare(args.steps)  # an environment that cannot be used is reported before a run is announced
    say(
        {
            "new": f"new run in {out}: {config.agent} on {config.env}, {args.steps:,} steps",
            "restart": f"{out}: this run stopped before its first checkpoint; it starts again with the same seed",
            "continue": f"{out}: this run continues from step {folder.step:,} of {args.steps:,}",
            "finished": f"{out}: this run is finished; it has {args.steps:,} steps or more",
        }[found]
    )
    if found != "finished":
        needed, free = model.replay_bytes(args.steps), free_memory()
        say(f"replay memory: up to {size(needed)} of {size(free)} free")
    if args.dry_run:
        return
    model.learn(args.steps, progress_bar=True, out=out, tensorboard=args.tensorboard, every=every, threads=args.threads)
    if found != "finished":
        untrained = args.steps <= config.random_steps
        say(f"done: the agent is in {out}" + (", but it has learned nothing: all steps were random" * untrained))
    own = f" --env {args.env}" if ":" in args.env else ""  # a run stores the id, not the module that registers it
    if ":" in config.encoder:
        own += f" --import {config.encoder.partition(':')[0]}"
    say(f"next: dsacc evaluate {out}{own}")


def _checked(preset: str | None, **settings: Any) -> Config:
    """The settings, to report mistakes before anything slow. The default preset depends on what the environment shows,
    which is not known yet, so what one of them allows may be right."""
    presets = [preset] if preset else [default_preset(pictures=False), default_preset(pictures=True)]
    refused: list[ConfigError] = []
    for name in presets:
        try:
            return make_config(name, **settings)
        except ConfigError as error:
            refused.append(error)
    raise refused[0]


def _tests(args: argparse.Namespace, out: Path, picture: bool) -> dict[int, Any]:
    """The tests that `--evaluate-every` asks for, as a function of the model."""
    if args.evaluate_every is None:
        return {}
    from dsacc.play import evaluate
    from dsacc.play.callbacks import mean_scores
    from dsacc.shifts import find_kind

    for shift in args.evaluate_shifts:  # report mistakes now, not after 10,000 steps
        if shift != "id":
            find_kind(shift, "picture" if picture else "vector")

    def test(model: Any) -> None:
        asked = {"shifts": args.evaluate_shifts, "episodes": args.evaluate_episodes, "threads": args.threads}
        rows = evaluate(model, args.env, policy=POLICIES, out=out, **asked)
        model.record(mean_scores(rows))
        for row in rows:
            games = row["returns"]
            mean = readable(sum(games) / len(games), 4)
            say(f"step {model.step:,}: {row['shift']}, {row['policy']}: {mean} ({len(games)} episodes)")

    return {args.evaluate_every: test}
