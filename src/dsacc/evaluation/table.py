"""Evaluation rows as a table on the terminal and as files in a run folder."""

import json
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from dsacc.runs import write_atomically

Row = dict[str, Any]


def save_rows(run: Path, rows: list[Row]) -> Path:
    """Write the rows to `run`/evaluations, in a file named after what was asked."""
    first = rows[0]
    env = str(first["env"]).replace("/", "-")
    name = f"{env}-step{first['step']}-{first['policy']}-seed{first['eval_seed']}-{len(first['returns'])}.json"
    path = run / "evaluations" / name
    write_atomically(path, (json.dumps(rows, indent=2) + "\n").encode())
    return path


def print_table(rows: list[Row], title: str | None = None, console: Console | None = None) -> None:
    """Mean, spread, and range of the raw scores; one line a condition."""
    table = Table(title=title, title_justify="left")
    for column in ("environment", "agent", "seed", "condition", "policy"):
        table.add_column(column)
    for column in ("episodes", "mean", "std", "min", "max"):
        table.add_column(column, justify="right")
    for row in rows:
        scores = np.asarray(row["returns"])
        figures = (scores.mean(), scores.std(), scores.min(), scores.max())
        table.add_row(
            str(row["env"]),
            str(row["agent"]),
            str(row["train_seed"]),
            str(row["shift"]),
            str(row["policy"]),
            str(len(scores)),
            *(f"{x:.2f}" for x in figures),
        )
    (console or Console()).print(table)
