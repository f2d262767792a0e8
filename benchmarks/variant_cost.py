"""What an agent step of each variant of a grid takes, beside its first variant.

    python benchmarks/variant_cost.py recipe-screen [recipe-long] [--turns 60]

One training of Breakout per variant, DSAC-M, one thread; they take turns of 20 steps, so that all meet the same moments
of the machine. A step is everything: environment, acting, replay, updates, target networks. The ratio is that of the
medians. A step after a reset, or with an n that has changed, takes as long as any other, so schedules count for nothing
here.
"""

import argparse
import sys
from collections.abc import Sequence
from typing import Any

from steps import in_turns, make_trainer

from dsacc.errors import DsaccError
from dsacc.experiments.grids import load_plan
from dsacc.system.memory import keep_freed_memory
from dsacc.system.threads import use_one_thread


def settings_of(grids: Sequence[str]) -> dict[str, dict[str, Any]]:
    """The settings of each variant, by label; of several grids, each label once."""
    found: dict[str, dict[str, Any]] = {}
    for grid in grids:
        for run in load_plan(grid).runs:
            found.setdefault(run.label or "as it is", {"preset": run.preset, **run.settings})
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("grids", nargs="+", metavar="GRID", help="names of grids, or .toml files")
    parser.add_argument("--turns", type=int, default=60, help="turns of 20 steps (default: 60)")
    args = parser.parse_args(arguments)
    use_one_thread()
    keep_freed_memory()
    try:
        wanted = settings_of(args.grids)
    except DsaccError as error:
        print(f"variant_cost.py: {error}", file=sys.stderr)
        return 2
    taken = in_turns({label: make_trainer(settings) for label, settings in wanted.items()}, args.turns)
    first = next(iter(taken.values()))
    print("| variant | ms per step | ratio |\n| --- | --- | --- |")
    for label, milliseconds in taken.items():
        print(f"| {label} | {milliseconds:.1f} | {milliseconds / first:.2f} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
