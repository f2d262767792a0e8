"""What a long run did: memory without the replay's pictures, speed, and the score by 10,000 steps.

    python benchmarks/growth.py RUN [--from 20500]

Resident memory grows by design while the replay fills with one 84x84 picture a step; the rest should not.
"""

import argparse
import json
from pathlib import Path

import numpy as np

PICTURE = 84 * 84 / 1e6  # MB a stored step


def rows(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument(
        "--from", dest="start", type=int, default=20_500, help="first step that counts (default: 20500)"
    )
    args = parser.parse_args()
    timing = [r for r in rows(args.run / "timing.jsonl") if r["step"] >= args.start]
    steps = np.array([r["step"] for r in timing])
    rest = np.array([r["resident_mb"] for r in timing]) - steps * PICTURE
    slope = np.polyfit(steps, rest, 1)[0] * 1e4
    print(
        f"steps {steps[0]:,} to {steps[-1]:,}: median {np.median([r['steps_per_second'] for r in timing]):.1f} steps/s"
    )
    print(f"memory without pictures: {rest.min():.0f} to {rest.max():.0f} MB, slope {slope:+.1f} MB per 10,000 steps")
    metrics = [r for r in rows(args.run / "metrics.jsonl") if r["return"] is not None]
    for first in range(0, metrics[-1]["step"], 10_000):
        scores = [r["return"] for r in metrics if first < r["step"] <= first + 10_000]
        if scores:
            print(f"return, steps {first:,} to {first + 10_000:,}: {np.mean(scores):.2f}")


if __name__ == "__main__":
    main()
