"""Evaluation rows as the paper's table with a summary beneath: on the terminal, as CSV, Markdown or LaTeX."""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import Any, Literal

from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from dsacc.analysis.latex import latex
from dsacc.analysis.layout import NAME_WIDTH, in_columns, written
from dsacc.analysis.results import Results, collect
from dsacc.analysis.rows import Condition, Row, Seed
from dsacc.analysis.summary import Summary
from dsacc.analysis.tables import Table, score_table, severity_table, summary_table
from dsacc.errors import ConfigError
from dsacc.system.text import harmless

Format = Literal["table", "csv", "markdown", "latex"]


def render(
    rows: Iterable[Row | Mapping[str, Any]],
    format: Format = "table",
    baseline: str | None = None,
    seed: int = 0,
    console: Console | None = None,
) -> str | None:
    """The text of `csv`, `markdown` or `latex`. A `table` is printed on the console, and None is returned.

    `rows` are those of `dsacc.evaluate`. `baseline` is the agent that others are compared with (by default dsac, or
    else the first). `seed` is that of the intervals.
    """
    if format not in ("table", "csv", "markdown", "latex"):
        raise ConfigError(f"format is 'table', 'csv', 'markdown' or 'latex', not {format!r}")
    found, notes = collect(rows)
    blocks = []
    for results in found:
        elsewhere = baseline not in results.agents and any(baseline in other.agents for other in found)
        blocks.append((results, Summary(results, None if elsewhere else baseline, seed)))
    if format == "csv":
        return _csv(blocks)
    tables = [table for block in blocks for table in _tables(*block)]
    if format != "table":
        return _WRITERS[format](tables, notes, False)
    _print(tables, notes, console or Console())
    return None


def render_table(table: Table, format: Literal["csv", "markdown", "latex"]) -> str:
    """One table by itself with all names in every line. Its notes come with it, except in a CSV."""
    if format != "csv":
        return _WRITERS[format]([table], [], True)
    lines = [line for group in written(table, repeat=True) for line in group]
    return csv_text([table.header, *([cell.text for cell in line] for line in lines)])


def _tables(results: Results, summary: Summary) -> list[Table]:
    """The tables of one policy; notes on all figures go beneath the last."""
    scores, over_games = score_table(results, summary), summary_table(results, summary)
    made = [scores, None if _repeats(summary, over_games) else over_games, severity_table(results, summary)]
    found = [table for table in made if table is not None and table.lines]
    found[-1].notes.extend(summary.notes)
    return found


def _repeats(summary: Summary, table: Table) -> bool:
    """Whether a summary only repeats the raw scores: one seed each, no scale, and nothing to compare."""
    several = any(len(scores.seeds) > 1 for scores in summary.results.scores.values())
    return table.header[table.names :] == ["IQM"] and not several and not summary.scales


# --- terminal --------------------------------------------------------------------------------------------------------


def _print(tables: Sequence[Table], notes: Sequence[str], console: Console) -> None:
    starred = not console.is_terminal  # bold cannot be seen in a file
    for table in tables:
        console.print(Text(harmless(table.title), style="italic"))
        for part in in_columns(table, console.width):
            console.print(_rich(part, starred))
        is_best = any(cell.best for line in table.lines for cell in line)
        for note in [*(["* best mean."] if starred and is_best else []), *table.notes]:
            console.print(Text(harmless(note), style="dim"))
        console.print()
    for note in notes:
        console.print(Text(harmless(note)))


def _rich(table: Table, starred: bool) -> RichTable:
    rich = RichTable()
    for i, name in enumerate(table.header):
        look: dict[str, Any] = {"max_width": NAME_WIDTH} if i < table.names else {"justify": "right"}
        rich.add_column(Text(harmless(name)), overflow="fold", **look)
    for group in written(table, repeat=False):
        for line in group:
            texts = [f"*{cell.text}" if cell.best and starred else cell.text for cell in line]
            rich.add_row(*(Text(text, "bold" if cell.best else "") for text, cell in zip(texts, line, strict=True)))
        rich.add_section()
    return rich


# --- markdown --------------------------------------------------------------------------------------------------------


def _markdown(tables: Sequence[Table], notes: Sequence[str], repeat: bool) -> str:
    blocks = []
    for table in tables:
        ruler = ["---"] * table.names + ["---:"] * (len(table.header) - table.names)
        lines = [[_markdown_text(name) for name in table.header], ruler]
        lines += [
            [_markdown_text(cell.text, cell.best) for cell in line]
            for group in written(table, repeat)
            for line in group
        ]
        text = "\n".join(f"| {' | '.join(line)} |" for line in lines)
        listed = "".join(f"- {_markdown_text(note)}\n" for note in table.notes)
        blocks.append(f"**{_markdown_text(table.title)}**\n\n{text}\n" + (f"\n{listed}" if listed else ""))
    blocks += ["".join(f"- {_markdown_text(note)}\n" for note in notes)] if notes else []
    return "\n".join(blocks)


def _markdown_text(text: str, bold: bool = False) -> str:
    for special in ("\\", "|", "*", "_", "`", "<", ">"):
        text = text.replace(special, f"\\{special}")
    text = harmless(text).replace("\n", " ")
    return f"**{text}**" if bold else text


_WRITERS = {"markdown": _markdown, "latex": latex}

# --- csv -------------------------------------------------------------------------------------------------------------


def _csv(blocks: Sequence[tuple[Results, Summary]]) -> str:
    """One line per game, condition, policy and agent, with one column per training seed for its mean. `retention_of` is
    the agent whose clean score the retention is a share of."""
    seeds = {s for results, _ in blocks for scores in results.scores.values() for s in scores.seeds}
    order = sorted(seeds, key=lambda s: -1 if s is None else s)
    figures = ["mean", "std", "std_over", "n_seeds", "n_episodes", "normalised_mean", "gap"]
    figures += ["retention", "retention_of", "skill"]
    names = ["env", "shift", "severity", "mode", "policy", "agent", "exposure"]
    lines = [[*names, *figures, *(f"seed_{'none' if s is None else s}" for s in order)]]
    for results, summary in blocks:
        for key in product(results.conditions, results.agents, results.games):
            if key in results.scores:
                lines.append(_csv_line(results, summary, *key, order))
    return csv_text(lines)


def _csv_line(
    results: Results, summary: Summary, condition: Condition, agent: str, game: str, order: Sequence[Seed]
) -> list[str]:
    scores = results.scores[condition, agent, game]
    clean = None if condition.clean else summary.clean
    pairs = results.paired([clean, condition], agent, game) if clean else None
    kept = summary.retention(agent, condition, [game])
    known = summary.scales.get(game)
    skill = summary.skill(agent, game)
    figures = [
        full(scores.mean),
        full(scores.std),
        "seeds" if len(scores.seeds) > 1 else "episodes",
        str(len(scores.seeds)),
        str(len(scores.all_episodes)),
        full(None if known is None else (scores.mean - known.random) / (known.top - known.random)),
        full(float((pairs[:, 0] - pairs[:, 1]).mean()) if pairs is not None and len(pairs) else None),
        full(None if kept is None else kept.value),
        "" if kept is None else summary.kept_of(agent),
        {True: "yes", False: "no", None: ""}[skill],
    ]
    severity = "" if condition.severity is None else str(condition.severity)
    names = [game, condition.shift, severity, condition.mode or "", results.policy, agent, scores.exposure]
    return [*names, *figures, *(full(scores.seeds.get(seed)) for seed in order)]


def csv_text(lines: Iterable[Iterable[Any]]) -> str:
    """Lines of cells as the text of a CSV file."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([[harmless(str(cell)) for cell in line] for line in lines])
    return out.getvalue()


def full(x: float | None) -> str:
    """A number with ten digits, empty for None."""
    return "" if x is None else f"{x:.10g}"
