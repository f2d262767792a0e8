"""Tables for the page: the paper's, with ours, the paper's own figures, random and human in one cell or beneath."""

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dsacc.analysis.references import Scale, paper_table, reference_scores
from dsacc.analysis.results import Condition, Results
from dsacc.analysis.sheets import Entry, Sheet, paper_notes, paper_sheet
from dsacc.analysis.summary import Summary
from dsacc.system.text import listed
from dsacc.views.report.data import Study
from dsacc.views.report.series import at_the_end, held_lambda
from dsacc.views.report.verdict import capital, said, shown

SUSPECT = "‡"
PUBLISHED = {
    "sac_2019_100k": "SAC (2019)",
    "der_100k": "DER",
    "spr_100k": "SPR",
    "drq_eps_100k": "DrQ(ε)",
    "efficientzero_100k": "EfficientZero",
    "bbf_100k": "BBF",
    "sac_bbf_100k": "SAC-BBF",
}


@dataclass(frozen=True)
class Cell:
    """What stands in a cell: our text, its number for sorting, the paper's text beneath it."""

    text: str
    value: float | None = None
    best: bool = False
    below: str = ""
    tag: str = ""  # beneath a name: how the agent acted


@dataclass(frozen=True)
class Table:
    """Lines of name cells (`names` of them) and figures; `foot` lines keep their place when it is sorted."""

    caption: str
    header: list[str]
    lines: list[list[Cell]]
    foot: list[list[Cell]]
    notes: list[str]
    names: int = 2
    extra: list[list[Cell]] = field(default_factory=list)  # lines of the foot that are shown when asked for


def score_table(found: Sequence[tuple[Results, Summary]]) -> Table:
    """The paper's table: a line for each condition, agent and way of acting, a column for each game."""
    games = sorted({game for results, _ in found for game in results.games})
    conditions = list(dict.fromkeys(c for results, _ in found for c in results.conditions))
    agents = list(dict.fromkeys(a for results, _ in found for a in results.agents))
    lines: dict[tuple[Any, ...], list[Cell]] = {}
    foot: dict[tuple[Any, ...], list[Cell]] = {}
    notes: dict[str, None] = {}
    for i, (results, summary) in enumerate(found):
        named = {results.name(c): c for c in results.conditions}
        for group in paper_sheet(results, summary).groups:
            name = group[0][0].text
            condition = named.get(name)
            for entries in group:
                agent = entries[1].text
                texts = dict(zip(results.games, entries[2:], strict=True))
                shift = Cell(said(results, condition) if condition else name)
                line = [shift, Cell(shown(agent), tag=results.policy if len(found) > 1 else "")]
                place = (conditions.index(condition) if condition else name, agents.index(agent), i)
                first = not any((*place[:2], j) in lines for j in range(i))  # the paper's figure stands once
                line += [_score(results, condition, agent, game, texts.get(game), first) for game in games]
                (lines if condition else foot)[place] = line
        notes |= dict.fromkeys(map(capital, paper_notes(results, summary)))
    below = [cell.below for line in lines.values() for cell in line if cell.below]
    if below:
        notes["Small, beneath each: the paper's figure, after 1,000,000 steps, three seeds."] = None
    if any(SUSPECT in text for text in below):
        notes[f"{SUSPECT} In the paper these repeat BattleZone's clean cells, and cannot be right."] = None
    any_of = found[0][0]
    played = listed([results.policy for results, _ in found]) + (" policies" if len(found) > 1 else " policy")
    about = any_of.settings.replace(f"{any_of.policy} policy", played, 1)
    sums = [foot[place] for place in sorted(foot)]
    references = _references(games, dict(pair for _, summary in found for pair in summary.scales.items()))
    header = ["condition", "agent", *games]
    ordered = [lines[place] for place in sorted(lines)]
    table = Table(f"Raw scores, {about}", header, ordered, [*sums, *references], list(notes))
    return dataclasses.replace(table, extra=_published(games))


def _score(
    results: Results, condition: Condition | None, agent: str, game: str, entry: Entry | None, beside: bool
) -> Cell:
    if entry is None:
        return Cell("-")
    known = results.cell(condition, agent, game) if condition else None
    return Cell(entry.text, known.mean if known else None, entry.best, _paper(game, condition, agent) if beside else "")


def _paper(game: str, condition: Condition | None, agent: str) -> str:
    """The paper's cell, where it has one for these very conditions."""
    if condition is None or (not condition.clean and condition.severity != "paper"):
        return ""
    cell = paper_table().get((game, condition.shift, agent))
    return "" if cell is None else f"{cell.mean:g} ± {cell.std:g}{SUSPECT if cell.suspect else ''}"


def _references(games: Sequence[str], scales: Mapping[str, Scale]) -> list[list[Cell]]:
    """A random player and a human one (or the best possible), for the games for which they are known."""
    if not scales:
        return []
    top = " or ".join(sorted({known.top_name for known in scales.values()}))
    rows = []
    for name, key in (("random", "random"), (top, "top")):
        known = [getattr(scales[g], key) if g in scales else None for g in games]
        rows.append([Cell("reference"), Cell(name), *map(_known, known)])
    return rows


def _published(games: Sequence[str]) -> list[list[Cell]]:
    """Low-data agents of others, for the games in which they were reported."""
    scores = {g: reference_scores()[g].published for g in games if g in reference_scores()}
    names = dict.fromkeys(name for found in scores.values() for name in found)
    return [
        [Cell("published"), Cell(PUBLISHED.get(name, name)), *(_known(scores.get(g, {}).get(name)) for g in games)]
        for name in names
    ]


def _known(x: float | None) -> Cell:
    return Cell("-" if x is None else f"{round(x, 2):.7g}", x)


def sheet_table(sheet: Sheet) -> Table:
    """A table of `dsacc.analysis.sheets`, its names repeated so that lines can be sorted."""
    lines = []
    for group in sheet.groups:
        first = group[0][0].text
        for entries in group:
            name = "clean" if first == "id" else first
            figures = [Cell(e.text, _leading(e.text), e.best) for e in entries[sheet.names :]]
            lines.append([Cell(name), Cell(shown(entries[1].text)), *figures])
    return Table(sheet.title, [*map(capital, sheet.header)], lines, [], [*map(capital, sheet.notes)], sheet.names)


def _leading(text: str) -> float | None:
    try:
        return float(text.split(" ")[0])
    except ValueError:
        return None


ENDS = (
    ("|E_φ[Q] - μ_θ|", ("expected_error",)),
    ("λ", ("lambda", "lambda_1")),
    ("λ at 0", ("lambda_at_lower", "lambda_at_lower_1")),
    ("λ at 1", ("lambda_at_upper", "lambda_at_upper_1")),
    ("λ₂", ("lambda_2",)),
    ("λ₂ at 0", ("lambda_at_lower_2",)),
    ("λ₂ at 1", ("lambda_at_upper_2",)),
    ("entropy", ("entropy",)),
    ("Q", ("q_mean",)),
)


def multiplier_table(study: Study) -> Table:
    """What the multiplier does, and what comes with it: means over the last tenth of training, ± between seeds. What an
    agent does not have is left empty: a control without a constraint has an entropy and an error, and no λ."""
    found: list[tuple[str, str, list[list[float]]]] = []
    for game in study.games:
        for agent in study.agents:
            ends = [at_the_end(study.runs, agent, game, *keys) for _, keys in ENDS]
            found += [(game, agent, ends)] if any(ends) else []
    there = [i for i, (name, _) in enumerate(ENDS) if "₂" not in name or any(ends[i] for _, _, ends in found)]
    lines = []
    for game, agent, ends in found:
        cells = [_share(ends[i]) if " at " in ENDS[i][0] else _figure(ends[i]) for i in there]
        lines.append([Cell(game), Cell(shown(agent)), *cells, Cell(str(max(map(len, ends))), max(map(len, ends)))])
    held = dict.fromkeys((run.agent, x) for run in study.runs if (x := held_lambda(run)) is not None)
    notes = [f"{shown(agent)}: λ is held at {x:g} and not solved." for agent, x in held]
    if any(len(values) > 1 for _, _, ends in found for values in ends):
        notes.append("± is the standard deviation between seeds (n - 1).")
    header = ["game", "agent", *(ENDS[i][0] for i in there), "seeds"]
    return Table("What the multiplier does: means over the last tenth of training", header, lines, [], notes)


def _figure(values: Sequence[float]) -> Cell:
    if not values:
        return Cell("-")
    mean = float(np.mean(values))
    digits = 2 if mean == 0 else min(max(2 - math.floor(math.log10(abs(mean))), 0), 8)
    return Cell(f"{mean:.{digits}f}" + _spread(values, lambda x: f"{x:.{digits}f}"), mean)


def _share(values: Sequence[float]) -> Cell:
    if not values:
        return Cell("-")
    return Cell(f"{100 * np.mean(values):.0f}{_spread(values, lambda x: f'{100 * x:.0f}')} %", float(np.mean(values)))


def _spread(values: Sequence[float], write: Callable[[float], str]) -> str:
    return f" ± {write(float(np.std(values, ddof=1)))}" if len(values) > 1 else ""
