"""`dsacc export`."""

import argparse
from pathlib import Path

from dsacc.cli.common import Commands, import_option, say


def add(commands: Commands) -> None:
    parser = commands.add_parser(
        "export", help="write an agent for deployment", description="Write the policy as an ONNX graph."
    )
    parser.add_argument("run", type=Path, metavar="RUN", help="run folder or saved agent")
    parser.add_argument("--format", choices=["onnx"], default="onnx", help="format of the file (default: onnx)")
    parser.add_argument("--out", type=Path, help="file to write (default: the name of RUN with .onnx, in this folder)")
    import_option(parser)


def run(args: argparse.Namespace) -> None:
    from dsacc.dsac import DSAC
    from dsacc.play.export import COMPARED, export_onnx
    from dsacc.system.text import size

    model = DSAC.load(args.run)
    made = export_onnx(model, args.out or Path(f"{args.run.resolve().name.removesuffix('.safetensors')}.onnx"))
    c = model.config
    say(f"wrote {made.path} ({size(made.bytes)}): {c.agent} on {c.env}, seed {c.seed}, step {model.step:,}")
    say(f"input: observation, {made.observation}, as {c.env} gives it; output: logits, float32 [batch, {made.actions}]")
    if str(made.actions) != model.actions_in_words:
        say(f"an action is one of {model.actions_in_words} choices: numpy.unravel_index gives them from its number")
    ties = f"; on {made.ties}, rounding decides between two best actions" if made.ties else ""
    say(f"it chooses the agent's action on {COMPARED - made.ties:,} of {COMPARED:,} random observations{ties}")
    say(f"next: dsacc evaluate onnx:{made.path}")
