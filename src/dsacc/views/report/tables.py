"""Tables for the page: the paper's table with our scores, the paper's figures and those of others, and what λ does."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from dsacc.agent.constraints import ALL
from dsacc.analysis.names import display_name, with_display_names
from dsacc.analysis.references import Scale, paper_table, reference_scores
from dsacc.analysis.results import Results
from dsacc.analysis.rows import Condition
from dsacc.analysis.summary import Summary
from dsacc.analysis.tables import (
    EXPOSURE,
    Cell,
    Table,
    TableLine,
    line_exposure,
    score_cells,
    score_notes,
    with_exposure,
)
from dsacc.system.text import listed
from dsacc.views.report.series import at_the_end, held_lambda
from dsacc.views.report.study import Study
from dsacc.views.report.verdict import said

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


def all_scores(found: Sequence[tuple[Results, Summary]]) -> Table:
    """The paper's table: one line per condition, agent and way of acting, one column per game."""
    games = sorted({game for results, _ in found for game in results.games})
    conditions = list(dict.fromkeys(c for results, _ in found for c in results.conditions))
    agents = list(dict.fromkeys(a for results, _ in found for a in results.agents))
    lines: dict[tuple[int, int, int], tuple[TableLine, str]] = {}  # each with what its agent met of its shift before
    sums: dict[tuple[str, int, int], tuple[TableLine, str]] = {}
    notes: dict[str, None] = {}
    for i, (results, summary) in enumerate(found):
        for (condition, agent), cells in score_cells(results, summary).items():
            who = Cell(display_name(agent), below=results.policy if len(found) > 1 else "")
            scores = [cells.get(game, Cell()) for game in games]
            met = line_exposure(results, condition, agent)
            if isinstance(condition, str):  # a sum over conditions
                sums[condition, agents.index(agent), i] = [Cell(condition), who, *scores], met
                continue
            place = (conditions.index(condition), agents.index(agent))
            if not any((*place, j) in lines for j in range(i)):  # the paper's figure is shown once
                papers = [_paper(game, condition, agent) if game in cells else "" for game in games]
                scores = [replace(cell, below=text) for cell, text in zip(scores, papers, strict=True)]
            lines[*place, i] = [Cell(said(results, condition)), who, *scores], met
        notes |= dict.fromkeys(map(with_display_names, score_notes(results, summary)))
    below = [cell.below for line, _ in lines.values() for cell in line[2:] if cell.below]
    if below:
        notes["Small beneath each score, or in brackets: the paper's score after 1,000,000 steps, three seeds."] = None
    if any(SUSPECT in text for text in below):
        notes[f"{SUSPECT} In the paper these scores repeat BattleZone's clean scores, and cannot be right."] = None
    first = found[0][0]
    played = listed([results.policy for results, _ in found]) + (" policies" if len(found) > 1 else " policy")
    title = f"Raw scores, {first.settings.replace(f'{first.policy} policy', played, 1)}"
    references = _references(games, dict(pair for _, summary in found for pair in summary.scales.items()))
    above, below_it = [lines[place] for place in sorted(lines)], [sums[place] for place in sorted(sums)]
    foot, extra = [*(line for line, _ in below_it), *references], _published(games)
    table = Table(title, ["condition", "agent", *games], [line for line, _ in above], 2, list(notes), foot, extra)
    words = [met for _, met in (*above, *below_it)]
    return with_exposure(table, [*words, *[""] * (len(references) + len(extra))])


def _paper(game: str, condition: Condition, agent: str) -> str:
    """The paper's score, where it has one for exactly this condition."""
    if not condition.clean and condition.severity != "paper":
        return ""
    cell = paper_table().get((game, condition.shift, agent))
    return "" if cell is None else f"{cell.mean:g} ± {cell.std:g}{SUSPECT if cell.suspect else ''}"


def _references(games: Sequence[str], scales: Mapping[str, Scale]) -> list[TableLine]:
    """The scores of a random player and of a human (or the best possible score), for the games where they are known."""
    if not scales:
        return []
    top = " or ".join(sorted({known.top_name for known in scales.values()}))
    rows = []
    for name, key in (("random", "random"), (top, "top")):
        known = [getattr(scales[g], key) if g in scales else None for g in games]
        rows.append([Cell("reference"), Cell(name), *map(_known, known)])
    return rows


def _published(games: Sequence[str]) -> list[TableLine]:
    """Published low-data agents, for the games in which they were reported."""
    scores = {g: reference_scores()[g].published for g in games if g in reference_scores()}
    names = dict.fromkeys(name for found in scores.values() for name in found)
    figures = {name: [_known(scores.get(g, {}).get(name)) for g in games] for name in names}
    return [[Cell("published"), Cell(PUBLISHED.get(name, name)), *cells] for name, cells in figures.items()]


def _known(x: float | None) -> Cell:
    return Cell() if x is None else Cell(f"{round(x, 2):.7g}", x)


def for_page(table: Table) -> Table:
    """The table with agents as the paper writes them, and with `clean` for `id`."""
    lines = [
        [Cell("clean" if name.text == "id" else name.text), Cell(display_name(agent.text)), *figures]
        for name, agent, *figures in table.lines
    ]
    header, notes = ([*map(with_display_names, texts)] for texts in (table.header, table.notes))
    return beneath_names(replace(table, header=header, lines=lines, notes=notes))


def beneath_names(table: Table) -> Table:
    """The table with what agents met before small beneath their names, which stay in place on a narrow screen while
    the figures scroll."""
    if table.names < 3 or table.header[2] != EXPOSURE:
        return table

    def shorter(lines: Sequence[TableLine]) -> list[TableLine]:
        return [
            [first, replace(agent, below=", ".join(x for x in (agent.below, met.text) if x)), *figures]
            for first, agent, met, *figures in lines
        ]

    lines, foot, extra = map(shorter, (table.lines, table.foot, table.extra))
    notes = [note.replace("exposure:", "Small, beneath the name of an agent:") for note in table.notes]
    header = [*table.header[:2], *table.header[3:]]
    return replace(table, header=header, lines=lines, names=2, notes=notes, foot=foot, extra=extra)


_BOUNDS = (("", "lambda"), (" at 0", "lambda_at_lower"), (" at 1", "lambda_at_upper"))
ENDS: list[tuple[str, tuple[str, ...]]] = [
    ("|E_φ[Q] - μ_θ|", ("expected_error",)),
    *(((c.symbol if c.order > 1 else "λ") + end, c.keys(quantity)) for c in ALL for end, quantity in _BOUNDS),
    ("entropy", ("entropy",)),
    ("Q", ("q_mean",)),
]
_OPTIONAL = tuple(c.symbol for c in ALL if c.order > 1)  # columns that are left out where no run has them


def multiplier_table(study: Study) -> Table:
    """What the multiplier does, and what comes with it: means over the last tenth of training, ± between seeds. What an
    agent does not have is left empty: a control without a constraint has an entropy and an error, but no λ."""
    found: list[tuple[str, str, list[list[float]]]] = []
    for game in study.games:
        for agent in study.agents:
            ends = [at_the_end(study.runs, agent, game, *keys) for _, keys in ENDS]
            found += [(game, agent, ends)] if any(ends) else []
    there = [
        i for i, (name, _) in enumerate(ENDS) if not name.startswith(_OPTIONAL) or any(ends[i] for *_, ends in found)
    ]
    lines = []
    for game, agent, ends in found:
        cells = [_share(ends[i]) if " at " in ENDS[i][0] else _figure(ends[i]) for i in there]
        seeds = max(map(len, ends))
        lines.append([Cell(game), Cell(display_name(agent)), *cells, Cell(str(seeds), seeds)])
    held = dict.fromkeys((run.agent, x) for run in study.runs if (x := held_lambda(run)) is not None)
    notes = [f"{display_name(agent)}: λ is held at {x:g} and is not solved for." for agent, x in held]
    if any(len(values) > 1 for _, _, ends in found for values in ends):
        notes.append("± is the standard deviation between seeds (n - 1).")
    header = ["game", "agent", *(ENDS[i][0] for i in there), "seeds"]
    return Table("What the multiplier does: means over the last tenth of training", header, lines, notes=notes)


def _figure(values: Sequence[float]) -> Cell:
    if not values:
        return Cell()
    mean = float(np.mean(values))
    digits = 2 if mean == 0 else min(max(2 - math.floor(math.log10(abs(mean))), 0), 8)
    return Cell(f"{mean:.{digits}f}" + _spread(values, lambda x: f"{x:.{digits}f}"), mean)


def _share(values: Sequence[float]) -> Cell:
    if not values:
        return Cell()
    return Cell(f"{100 * np.mean(values):.0f}{_spread(values, lambda x: f'{100 * x:.0f}')} %", float(np.mean(values)))


def _spread(values: Sequence[float], write: Callable[[float], str]) -> str:
    return f" ± {write(float(np.std(values, ddof=1)))}" if len(values) > 1 else ""
