"""`dsacc export`."""

import argparse
from pathlib import Path

from dsacc.cli.common import Commands, import_option, say, trust_option


def add(commands: Commands) -> None:
    parser = commands.add_parser(
        "export",
        help="write an agent for deployment, or to share",
        description="Write the policy as an ONNX graph, or the agent as a small file that dsacc reads.",
    )
    parser.add_argument("run", type=Path, metavar="RUN", help="run folder or saved agent")
    parser.add_argument(
        "--format",
        choices=["onnx", "agent"],
        default="onnx",
        help="onnx: a graph for any runtime; agent: the networks that play, in half precision, for DSAC.load and every "
        "command (default: onnx)",
    )
    parser.add_argument(
        "--out", type=Path, help="file to write (default: the name of RUN with .onnx or .safetensors, in this folder)"
    )
    import_option(parser)
    trust_option(parser)


def run(args: argparse.Namespace) -> None:
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
