"""Evaluation rows as the paper's table with a summary beneath: on the terminal, as CSV, Markdown or LaTeX."""

import csv
import io
from collections.abc import Sequence
from typing import Literal

from rich.console import Console
from rich.table import Table
from rich.text import Text

from dsacc.analysis import sheets
from dsacc.analysis.results import Condition, Results, Row, Seed, collect
from dsacc.analysis.sheets import Entry, Sheet
from dsacc.analysis.summary import Summary
from dsacc.errors import ConfigError

Format = Literal["table", "csv", "markdown", "latex"]
_NAME_WIDTH = 28  # characters of a name on the terminal; a longer one is folded


def render(
    rows: Sequence[Row],
    format: Format = "table",
    baseline: str | None = None,
    seed: int = 0,
    console: Console | None = None,
) -> str | None:
    """The text of `csv`, `markdown` or `latex`; `table` is printed on the console, and None returned.

    `baseline` is the agent that others are compared with (by default dsac, or the first), `seed` that of the intervals.
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
    written = [sheet for block in blocks for sheet in _sheets(*block)]
    if format == "markdown":
        return _markdown(written, notes)
    if format == "latex":
        return _latex(written, notes)
    _print(written, notes, console or Console())
    return None


def render_sheet(sheet: Sheet, format: Literal["csv", "markdown", "latex"]) -> str:
    """One table by itself, its notes with it; a CSV has cells alone."""
    if format == "markdown":
        return _markdown([sheet], [])
    if format == "latex":
        return _latex([sheet], [])
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerows([sheet.header, *([entry.text for entry in line] for group in sheet.groups for line in group)])
    return out.getvalue()


def _sheets(results: Results, summary: Summary) -> list[Sheet]:
    """The tables of one policy; notes on all figures go beneath the last."""
    first, second, third = (
        sheets.paper_sheet(results, summary),
        sheets.summary_sheet(results, summary),
        sheets.curve_sheet(results, summary),
    )
    first.notes.extend(sheets.paper_notes(results, summary))
    found = [sheet for sheet in (first, second, third) if sheet is not None and sheet.groups]
    found[-1].notes.extend(summary.notes)
    return found


# --- terminal --------------------------------------------------------------------------------------------------------


def _print(written: Sequence[Sheet], notes: Sequence[str], console: Console) -> None:
    starred = not console.is_terminal  # bold cannot be seen in a file
    for sheet in written:
        console.print(Text(sheet.title, style="italic"))
        for part in _parts(sheet, console.width):
            console.print(_rich(part, starred))
        is_best = any(entry.best for group in sheet.groups for line in group for entry in line)
        for note in [*(["* best mean."] if starred and is_best else []), *sheet.notes]:
            console.print(note, highlight=False, style="dim")
        console.print()
    for note in notes:
        console.print(note, highlight=False)


def _parts(sheet: Sheet, width: int) -> list[Sheet]:
    """The sheet in parts that fit side by side into `width` characters, each with the names; one column at least."""
    edges = 3  # characters that a column costs beside its text
    free = width - 1 - sum(min(sheet.width(i), _NAME_WIDTH) + edges for i in range(sheet.names))
    parts, start, used = [], sheet.names, 0
    for column in range(sheet.names, len(sheet.header)):
        needed = sheet.width(column) + 1 + edges  # one for the star
        if column > start and used + needed > free:
            parts.append(sheet.columns(start, column))
            start, used = column, 0
        used += needed
    return [*parts, sheet.columns(start, len(sheet.header))]


def _rich(sheet: Sheet, starred: bool) -> Table:
    table = Table()
    for i, name in enumerate(sheet.header):
        if i < sheet.names:
            table.add_column(Text(name), overflow="fold", max_width=_NAME_WIDTH)
        else:
            table.add_column(Text(name), justify="right", overflow="fold")
    for group in sheet.groups:
        for line in group:
            table.add_row(*(_rich_text(entry, starred) for entry in line))
        table.add_section()
    return table


def _rich_text(entry: Entry, starred: bool) -> Text:
    text = f"*{entry.text}" if entry.best and starred else entry.text
    return Text(text, style="bold" if entry.best else "")


# --- markdown --------------------------------------------------------------------------------------------------------


def _markdown(written: Sequence[Sheet], notes: Sequence[str]) -> str:
    blocks = []
    for sheet in written:
        ruler = ["---"] * sheet.names + ["---:"] * (len(sheet.header) - sheet.names)
        lines = [[_markdown_text(name) for name in sheet.header], ruler]
        lines += [[_markdown_entry(entry) for entry in line] for group in sheet.groups for line in group]
        table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
        listed = "".join(f"- {_markdown_text(note)}\n" for note in sheet.notes)
        blocks.append(f"**{_markdown_text(sheet.title)}**\n\n{table}\n" + (f"\n{listed}" if listed else ""))
    blocks += ["".join(f"- {_markdown_text(note)}\n" for note in notes)] if notes else []
    return "\n".join(blocks)


def _markdown_entry(entry: Entry) -> str:
    text = _markdown_text(entry.text)
    return f"**{text}**" if entry.best else text


def _markdown_text(text: str) -> str:
    for special in ("\\", "|", "*", "_", "`", "<", ">"):
        text = text.replace(special, f"\\{special}")
    return text.replace("\n", " ")


# --- latex -----------------------------------------------------------------------------------------------------------

_LATEX = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "±": r"$\pm$",
    sheets.NO_SKILL: r"$^\dagger$",
    "‡": r"$^\ddagger$",
    "λ": r"$\lambda$",
    "μ": r"$\mu$",
    "φ": r"$\phi$",
    "θ": r"$\theta$",
    "ε": r"$\epsilon$",
    "₂": r"$_2$",
}


def _latex(written: Sequence[Sheet], notes: Sequence[str]) -> str:
    blocks = ["% needs \\usepackage{booktabs,graphicx}\n"]
    for i, sheet in enumerate(written):
        said = [*sheet.notes, *(notes if i == len(written) - 1 else ())]
        caption = " ".join([f"{sheet.title}.", *said])
        rules = "\\midrule\n".join(_latex_lines(group) for group in sheet.groups)
        columns = "l" * sheet.names + "r" * (len(sheet.header) - sheet.names)
        blocks.append(
            "\\begin{table}[htb]\n\\centering\n\\small\n"
            "\\resizebox{\\ifdim\\width>\\linewidth\\linewidth\\else\\width\\fi}{!}{%\n"
            f"\\begin{{tabular}}{{{columns}}}\n\\toprule\n"
            f"{' & '.join(map(_latex_text, sheet.header))} \\\\\n\\midrule\n{rules}\\bottomrule\n\\end{{tabular}}}}\n"
            f"\\caption{{{_latex_text(caption)}}}\n\\end{{table}}\n"
        )
    return "\n".join(blocks)


def _latex_lines(group: Sequence[Sequence[Entry]]) -> str:
    return "".join(f"{' & '.join(map(_latex_entry, line))} \\\\\n" for line in group)


def _latex_entry(entry: Entry) -> str:
    if not entry.best:
        return _latex_text(entry.text)
    best, *rest = entry.text.split(" ", 1)  # the mean is bold, its spread is not, as in the paper
    return f"\\textbf{{{_latex_text(best)}}}" + "".join(f" {_latex_text(part)}" for part in rest)


def _latex_text(text: str) -> str:
    # A bracket at the start of a line would be read as an option of the \\ before it.
    written = "".join(_LATEX.get(character, character) for character in text)
    return f"{{{written}}}" if written.startswith(("[", "*")) else written


# --- csv -------------------------------------------------------------------------------------------------------------


def _csv(blocks: Sequence[tuple[Results, Summary]]) -> str:
    """A line for each game, condition, policy and agent, with a column for each training seed's mean."""
    seeds = {s for results, _ in blocks for cell in results.cells.values() for s in cell.seeds}
    order = sorted(seeds, key=lambda s: -1 if s is None else s)
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    figures = ["mean", "std", "std_over", "n_seeds", "n_episodes", "normalised_mean", "gap", "retention", "skill"]
    names = ["env", "shift", "severity", "mode", "policy", "agent"]
    writer.writerow([*names, *figures, *(f"seed_{'none' if s is None else s}" for s in order)])
    for results, summary in blocks:
        for condition in results.conditions:
            for agent in results.agents:
                for game in results.games:
                    if (condition, agent, game) in results.cells:
                        writer.writerow(_csv_line(results, summary, condition, agent, game, order))
    return out.getvalue()


def _csv_line(
    results: Results, summary: Summary, condition: Condition, agent: str, game: str, order: Sequence[Seed]
) -> list[str]:
    cell = results.cells[condition, agent, game]
    pairs = (
        None if summary.clean is None or condition.clean else results.paired([summary.clean, condition], agent, game)
    )
    kept = summary.retention(agent, condition, [game])
    known = summary.scales.get(game)
    skill = summary.skill(agent, game)
    figures = [
        _full(cell.mean),
        _full(cell.std),
        "seeds" if len(cell.seeds) > 1 else "episodes",
        str(len(cell.seeds)),
        str(len(cell.all_episodes)),
        _full(None if known is None else (cell.mean - known.random) / (known.top - known.random)),
        _full(float((pairs[:, 0] - pairs[:, 1]).mean()) if pairs is not None and len(pairs) else None),
        _full(None if kept is None else kept.value),
        {True: "yes", False: "no", None: ""}[skill],
    ]
    severity = "" if condition.severity is None else str(condition.severity)
    names = [game, condition.shift, severity, condition.mode or "", results.policy, agent]
    return [*names, *figures, *(_full(cell.seeds.get(seed)) for seed in order)]


def _full(x: float | None) -> str:
    return "" if x is None else f"{x:.10g}"
