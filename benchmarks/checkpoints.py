"""What a checkpoint costs: time and bytes with 10,000, 100,000 and 1,000,000 steps stored, and its share of training.

The real thing: a `paper` run of DSAC-M on Breakout (three Nature CNNs, their Adam moments, two target critics), its
replay filled with real pictures, 10,000 new steps since the checkpoint before (the default interval). A disk's first
writes are slow and its cache deceives, so every file is synced as in a run. Run with `make bench-checkpoints` (8 GB).
"""

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table
from steps import PRESETS, advance, extend, filled, games, make_trainer

from dsacc.envs.spaces import space_to_json
from dsacc.runs import ModelFile, RunFolder
from dsacc.training.loop import Trainer
from dsacc.training.session import Session


def measure(trainer: Trainer, size: int, repeats: int, path: Path) -> tuple[float, int, int]:
    """Median seconds of a checkpoint with an interval of new steps, its bytes, and all bytes of the run on the disk."""
    interval = trainer.config.checkpoint_every
    space, actions = space_to_json(trainer.observations.space), trainer.learner.actions
    run = RunFolder(path, trainer.config, 10**9)
    session = Session(
        run, trainer, lambda: ModelFile(trainer.config, space, actions, trainer.step, trainer.learner.state())
    )
    session.begin()
    played = games(trainer.envs[0])
    trainer.replay, trainer.step = filled(trainer, 0), size - interval
    extend(trainer.replay, played, trainer.step)
    if trainer.step:
        session.save(regular=True)  # everything before, which a run would have saved piece by piece
    seconds = []
    for _ in range(repeats):
        extend(trainer.replay, played, interval)
        trainer.step += interval
        began = time.perf_counter()
        session.save(regular=True)
        seconds.append(time.perf_counter() - began)
    newest = path / "checkpoints" / f"step-{trainer.step}"
    written = [*newest.iterdir(), path / "replay" / f"{newest.name}.safetensors"]
    total = sum(p.stat().st_size for p in path.rglob("*") if p.is_file())
    run.close("stopped", trainer.step)
    return statistics.median(seconds), sum(p.stat().st_size for p in written), total


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[10_000, 100_000, 1_000_000], help="stored steps")
    parser.add_argument("--repeats", type=int, default=3, help="checkpoints a size (default: 3)")
    parser.add_argument("--out", type=Path, help="a folder on the disk to measure (default: a temporary one)")
    args = parser.parse_args()
    torch.set_num_threads(1)
    table = Table(title="a checkpoint every 10,000 steps, Breakout, DSAC-M")
    for column in ("preset", "stored steps", "seconds", "MB written", "MB on disk", "ms a step", "share of training"):
        table.add_column(column, justify="left" if column == "preset" else "right")
    with tempfile.TemporaryDirectory(dir=args.out) as folder:
        for preset in ("paper", "efficient"):
            trainer = make_trainer(PRESETS[preset], replay_size=1_000_000)
            step = advance(trainer, 100) / 100
            for size in args.sizes:
                cost, new, total = measure(trainer, size, args.repeats, Path(folder) / f"{preset}-{size}")
                share = 100 * cost / (cost + step * trainer.config.checkpoint_every)
                table.add_row(
                    preset, f"{size:,}", f"{cost:.2f}", f"{new / 1e6:.0f}", f"{total / 1e6:.0f}", f"{1e3 * step:.1f}",
                    f"{share:.2f} %",
                )  # fmt: skip
    Console().print(table)


if __name__ == "__main__":
    main()
