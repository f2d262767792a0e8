"""Tables for the page: the paper's, with ours, the paper's own figures, random and human in one cell or beneath."""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass

from dsacc.evaluation.references import paper_table
from dsacc.evaluation.results import Condition, Results
from dsacc.evaluation.sheets import Sheet, paper_sheet
from dsacc.evaluation.summary import Summary
from dsacc.report.data import Study
from dsacc.report.series import at_the_end
from dsacc.report.verdict import said, shown

SUSPECT = "‡"


@dataclass(frozen=True)
class Cell:
    """What stands in a cell: our text, its number for sorting, the paper's text beneath it."""

    text: str
    value: float | None = None
    best: bool = False
    below: str = ""


@dataclass(frozen=True)
class Table:
    """Lines of name cells (`names` of them) and figures; `foot` lines keep their place when it is sorted."""

    caption: str
    header: list[str]
    lines: list[list[Cell]]
    foot: list[list[Cell]]
    notes: list[str]
    names: int = 2


def score_table(results: Results, summary: Summary, notes: Sequence[str]) -> Table:
    """The paper's table: a line for each condition and agent, a column for each game."""
    sheet = paper_sheet(results, summary)
    lines: list[list[Cell]] = []
    foot: list[list[Cell]] = []
    conditions = {results.name(c): c for c in results.conditions}
    suspect = False
    for group in sheet.groups:
        name = group[0][0].text
        condition = conditions.get(name)
        for entries in group:
            agent = entries[1].text
            shown_name = said(results, condition) if condition else name
            line = [Cell(shown_name), Cell(shown(agent))]
            for game, entry in zip(results.games, entries[2:], strict=True):
                known = results.cell(condition, agent, game) if condition else None
                below, odd = _paper(game, condition, agent)
                suspect |= odd
                line.append(Cell(entry.text, known.mean if known else None, entry.best, below))
            (lines if condition else foot).append(line)
    for row in _references(results, summary):
        foot.append(row)
    notes = list(notes)
    if any(cell.below for line in lines for cell in line):
        notes.append("Small, beneath each: the paper's figure, after 1,000,000 steps, three seeds.")
    if suspect:
        notes.append(f"{SUSPECT} In the paper these repeat BattleZone's clean cells, and cannot be right.")
    return Table(sheet.title, ["condition", "agent", *results.games], lines, foot, notes)


def _paper(game: str, condition: Condition | None, agent: str) -> tuple[str, bool]:
    """The paper's cell, where it has one for these very conditions."""
    if condition is None or (not condition.clean and condition.severity != "paper"):
        return "", False
    cell = paper_table().get((game, condition.shift, agent))
    if cell is None:
        return "", False
    return f"{cell.mean:g} ± {cell.std:g}{SUSPECT if cell.suspect else ''}", bool(cell.suspect)


def _references(results: Results, summary: Summary) -> list[list[Cell]]:
    """A random player and a human one (or the best possible), for the games for which they are known."""
    if not summary.scales:
        return []
    top = " or ".join(sorted({known.top_name for known in summary.scales.values()}))
    rows = []
    for name, key in (("random", "random"), (top, "top")):
        known = [getattr(summary.scales[g], key) if g in summary.scales else None for g in results.games]
        rows.append(
            [Cell("reference"), Cell(name), *(Cell("-" if x is None else f"{round(x, 2):.7g}", x) for x in known)]
        )
    return rows


def sheet_table(sheet: Sheet) -> Table:
    """A table of `dsacc.evaluation.sheets`, its names repeated so that lines can be sorted."""
    lines = []
    for group in sheet.groups:
        first = group[0][0].text
        for entries in group:
            name = "clean" if first == "id" else first
            figures = [Cell(e.text, _leading(e.text), e.best) for e in entries[sheet.names :]]
            lines.append([Cell(name), Cell(shown(entries[1].text)), *figures])
    return Table(sheet.title, sheet.header, lines, [], list(sheet.notes), sheet.names)


def _leading(text: str) -> float | None:
    try:
        return float(text.split(" ")[0])
    except ValueError:
        return None


LAST = (
    ("|E_φ[Q] - μ_θ|", ("expected_error",)),
    ("λ", ("lambda", "lambda_1")),
    ("λ at 0", ("lambda_at_lower", "lambda_at_lower_1")),
    ("λ at 1", ("lambda_at_upper", "lambda_at_upper_1")),
    ("entropy", ("entropy",)),
    ("Q", ("q_mean",)),
)


def end_table(study: Study) -> Table:
    """The diagnostic figures at the end of training; what an agent does not have is left empty."""
    lines = []
    for game in study.games:
        for agent in study.agents:
            ends = [at_the_end(study.runs, agent, game, *keys) for _, keys in LAST]
            if any(x is not None for x in ends):
                cells = [_share(x) if " at " in name else _figure(x) for (name, _), x in zip(LAST, ends, strict=True)]
                lines.append([Cell(game), Cell(shown(agent)), *cells])
    header = ["game", "agent", *(name for name, _ in LAST)]
    return Table("At the end of training: the last moving average, mean over seeds", header, lines, [], [])


def _figure(x: float | None) -> Cell:
    return Cell("-") if x is None else Cell(f"{x:.3g}", x)


def _share(x: float | None) -> Cell:
    return Cell("-") if x is None else Cell(f"{100 * x:.0f} %", x)


def beside_csv(found: Sequence[tuple[Results, Summary]]) -> str:
    """Ours, the paper's, random and human, a line for each game, condition, policy and agent."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    names = ["game", "shift", "severity", "mode", "policy", "agent"]
    writer.writerow([*names, "mean", "std", "seeds", "paper_mean", "paper_std", "paper_suspect", "random", "human"])
    for results, summary in found:
        for (c, agent, game), cell in results.cells.items():
            paper = paper_table().get((game, c.shift, agent)) if c.clean or c.severity == "paper" else None
            scale = summary.scales.get(game)
            human = scale.top if scale and scale.top_name == "human" else None
            figures = [cell.mean, cell.std, len(cell.seeds)]
            figures += [paper.mean, paper.std] if paper else [None, None]
            ours = ["" if x is None else f"{x:.10g}" for x in figures]
            ends = ["" if x is None else f"{x:.10g}" for x in (scale.random if scale else None, human)]
            about = [game, c.shift, "" if c.severity is None else str(c.severity), c.mode or "", results.policy, agent]
            writer.writerow([*about, *ours, paper.suspect if paper else "", *ends])
    return out.getvalue()


def raw_curves(study: Study) -> str:
    """Every number that was logged, a line for each run and step."""
    keys = list(dict.fromkeys(key for run in study.runs for row in run.metrics[-1:] for key in row if key != "step"))
    keys = ["return", *(key for key in keys if key != "return")]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["run", "game", "agent", "seed", "step", *keys])
    for run in study.runs:
        for row in run.metrics:
            about = [run.name, run.game, run.agent, "" if run.seed is None else run.seed, f"{row['step']:.0f}"]
            writer.writerow([*about, *(f"{row[key]:.10g}" if key in row else "" for key in keys)])
    return text.getvalue()
