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
    """Mean, spread and range of the raw scores; one line a condition. What all rows share goes into the title."""
    keys = {"env": "environment", "agent": "agent", "train_seed": "seed", "shift": "condition", "policy": "policy"}
    shared = [k for k in keys if len({str(row[k]) for row in rows}) == 1 and k in ("env", "policy")]
    title = title or ", ".join(str(rows[0][k]) for k in shared)
    table = Table(title=title, title_justify="left")
    for key, column in keys.items():
        if key not in shared:
            table.add_column(column, no_wrap=True)
    for column in ("episodes", "mean", "std", "min", "max"):
        table.add_column(column, justify="right", no_wrap=True)
    for row in rows:
        scores = np.asarray(row["returns"])
        figures = (scores.mean(), scores.std(), scores.min(), scores.max())
        cells = [str(row[k]) for k in keys if k not in shared]
        table.add_row(*cells, str(len(scores)), *(f"{x:.2f}" for x in figures))
    (console or Console()).print(table)
