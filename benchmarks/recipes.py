"""Recipes side by side: learning curves as a picture, and a table of scores and what the multiplier did.

    python benchmarks/recipes.py "small trunk=RUN" "compact trunk=RUN" ... [--upto 30000] [--picture recipes.png]

Each argument is a label and a run folder; runs of one label may be of several games. `dsacc experiment
benchmarks/recipes.toml` makes such runs.
"""

import argparse
import json
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dsacc.analysis.rows import Row as TestRow
from dsacc.play.store import read_rows
from dsacc.views.report.drawing import styles_of

WINDOW = 10  # logged rows in the moving average
Row = dict[str, Any]


@dataclass(frozen=True)
class Recipe:
    label: str
    game: str
    rows: list[Row]  # of metrics.jsonl
    tests: list[TestRow]  # of its last test, clean
    last: float  # the share of the rows that figures are means of

    @classmethod
    def read(cls, text: str, upto: int | None, last: float) -> "Recipe":
        label, _, path = text.rpartition("=")
        run = Path(path)
        game = json.loads((run / "config.json").read_text())["config"]["env"]
        rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
        rows = [r for r in rows if upto is None or r["step"] <= upto]
        tests = [r for r in read_rows(run / "evaluations") if r.shift == "id" and (r.step or 0) <= (upto or 10**12)]
        newest = max((r.step or 0 for r in tests), default=0)
        return cls(label, game, rows, [r for r in tests if (r.step or 0) == newest], last)

    def at_end(self, key: str) -> float:
        """The mean over the last part of what was trained."""
        begin = (1 - self.last) * self.rows[-1]["step"]
        rows = [r[key] for r in self.rows if r["step"] > begin and r.get(key) is not None]
        return float(np.mean(rows)) if rows else float("nan")

    def score(self, policy: str) -> str:
        found = [r.mean for r in self.tests if r.policy == policy]
        return f"{found[0]:,.1f}" if found else "-"


def table(recipes: list[Recipe]) -> str:
    head = [
        "recipe",
        "game",
        "steps",
        "training return",
        "greedy",
        "sampled",
        "entropy",
        "alpha",
        "error",
        "lambda",
        "at 0",
        "at 1",
    ]
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    for r in recipes:
        keys = ("entropy", "alpha", "expected_error", "lambda", "lambda_at_lower", "lambda_at_upper")
        figures = [r.at_end(key) for key in keys]
        cells = [r.label, r.game, f"{r.rows[-1]['step']:,}", f"{r.at_end('return'):,.1f}", r.score("greedy")]
        cells += [r.score("sampled"), *(f"{x:.2g}" for x in figures)]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def draw(recipes: list[Recipe], path: Path) -> None:
    """One panel a game: the moving average of training returns, over agent steps."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot as plt

    games = defaultdict(list)
    for recipe in recipes:
        games[recipe.game].append(recipe)
    looks = styles_of(list(dict.fromkeys(r.label for r in recipes)))
    figure, axes = plt.subplots(1, len(games), figsize=(4.6 * len(games), 3.4), layout="constrained", squeeze=False)
    for axis, (game, some) in zip(axes[0], games.items(), strict=True):
        for recipe in some:
            rows = [r for r in recipe.rows if r["return"] is not None]
            returns = [r["return"] for r in rows]
            smooth = [np.mean(returns[max(0, i - WINDOW + 1) : i + 1]) for i in range(len(returns))]
            axis.plot(
                [r["step"] / 1000 for r in rows], smooth, label=recipe.label, lw=1.4,
                **looks[recipe.label].line, markersize=4, markevery=max(len(rows) // 6, 1),
            )  # fmt: skip
        axis.set_title(game, fontsize=10)
        axis.set_xlabel("thousand agent steps")
        axis.grid(alpha=0.3)
    axes[0][0].set_ylabel(f"training return, mean of {WINDOW} rows")
    handles = {text: h for a in axes[0] for h, text in zip(*a.get_legend_handles_labels(), strict=True)}
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=2, frameon=False, fontsize=9)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", metavar="LABEL=RUN")
    parser.add_argument("--upto", type=int, help="agent steps to look at (default: all)")
    parser.add_argument("--last", type=float, default=0.1, help="share at their end that is averaged (default: 0.1)")
    parser.add_argument("--picture", type=Path, help="file for the curves")
    args = parser.parse_args()
    recipes = [Recipe.read(text, args.upto, args.last) for text in args.runs]
    print(table(recipes))
    if args.picture:
        draw(recipes, args.picture)
        print(f"curves: {args.picture}")


if __name__ == "__main__":
    main()
