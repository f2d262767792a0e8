"""`dsacc export`."""

import argparse
from pathlib import Path

from dsacc.cli.common import Commands, import_option, say, trust_option


def add(commands: Commands) -> None:
    parser = commands.add_parser(
        "export",
        help="write an agent for deployment, or an agent or an experiment's results to share",
        description="Write the policy as an ONNX graph, the agent as a small file that dsacc reads, or the results of "
        "an experiment without its agents.",
    )
    parser.add_argument(
        "run", type=Path, metavar="RUN", help="run folder or saved agent; with --format results an experiment's folder"
    )
    parser.add_argument(
        "--format",
        choices=["onnx", "agent", "results"],
        default="onnx",
        help="onnx: a graph for any runtime; agent: the networks that play, in half precision, for DSAC.load and every "
        "command; results: the plan, curves and rows of the runs that are finished (default: onnx)",
    )
    parser.add_argument(
        "--out",
        type=Path,
        help="file to write (default: the name of RUN with .onnx, .safetensors or .tar.gz, in this folder)",
    )
    import_option(parser)
    trust_option(parser)


def run(args: argparse.Namespace) -> None:
    if args.format == "results":
        _results(args)
    else:
        _agent(args)


def _results(args: argparse.Namespace) -> None:
    from dsacc.experiments.pack import pack_results
    from dsacc.system.text import size

    made = pack_results(args.run, args.out or Path(f"{args.run.resolve().name}.tar.gz"))
    say(f"wrote {made.path} ({size(made.bytes)}): {made.runs} of {made.planned} runs, those that are finished")
    say(f"next: tar xzf {made.path}, anywhere; `dsacc report` reads the folder, `dsacc experiment` goes on with it")


def _agent(args: argparse.Namespace) -> None:
    from dsacc.dsac import DSAC
    from dsacc.errors import ConfigError
    from dsacc.play.export import COMPARED, export_agent, export_onnx
    from dsacc.runs.model_file import with_suffix
    from dsacc.system.text import size

    small = args.format == "agent"
    name = args.run.resolve().name.removesuffix(".safetensors")
    out = args.out or Path(f"{name}.safetensors" if small else f"{name}.onnx")
    model = DSAC.load(args.run)
    if small and with_suffix(out).resolve() == with_suffix(args.run).resolve():
        raise ConfigError(f"{out} would replace the agent that it is made of; name another file with --out")
    made = (export_agent if small else export_onnx)(model, out)
    c = model.config
    say(f"wrote {made.path} ({size(made.bytes)}): {c.agent} on {c.env}, seed {c.seed}, step {model.step:,}")
    if not small:
        shape = f"float32 [batch, {made.actions}]"
        say(f"input: observation, {made.observation}, as {c.env} gives it; output: logits, {shape}")
        if str(made.actions) != model.actions_in_words:
            say(f"an action is one of {model.actions_in_words} choices: numpy.unravel_index gives them from its number")
    ties = f"; on {made.ties}, rounding decides between two best actions" if made.ties else ""
    say(f"it chooses the agent's action on {COMPARED - made.ties:,} of {COMPARED:,} random observations{ties}")
    say(f"next: dsacc evaluate {'' if small else 'onnx:'}{made.path}")
