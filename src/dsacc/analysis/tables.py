"""The tables as data: what is in which cell, and which cells are best. `formats` and the report's page write them."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby, product

from dsacc.analysis.exposure import NOTE
from dsacc.analysis.names import split_name
from dsacc.analysis.results import Results
from dsacc.analysis.rows import Condition
from dsacc.analysis.statistics import Estimate, overall, relative_gain
from dsacc.analysis.summary import Summary

NO_SKILL = "†"
NOTHING = "-"
EXPOSURE = "exposure"  # a third column of names where agents met augmentations before, empty for those that did not


@dataclass(frozen=True)
class Cell:
    """A text, the number behind it, and a small text beneath it: beneath a name how the agent acted, beneath a figure
    what the paper reports."""

    text: str = NOTHING
    value: float | None = None
    best: bool = False  # set in bold
    below: str = ""


TableLine = list[Cell]


@dataclass(frozen=True)
class Table:
    """Lines of names and figures, with a title above and notes beneath. Every line has all of its names."""

    title: str
    header: list[str]
    lines: list[TableLine]
    names: int = 2  # how many columns at the left are names
    notes: list[str] = field(default_factory=list)
    foot: list[TableLine] = field(default_factory=list)  # lines that keep their place when the page sorts the others
    extra: list[TableLine] = field(default_factory=list)  # lines of the foot that the page shows when asked

    @property
    def groups(self) -> list[list[TableLine]]:
        """All lines, those of the same first name together."""
        lines = [*self.lines, *self.foot, *self.extra]
        return [list(group) for _, group in groupby(lines, key=lambda line: line[0].text)]

    def columns(self, start: int, stop: int) -> "Table":
        """The names and some of the other columns, without notes and without groups in which nothing is left."""
        chosen = [*range(self.names), *range(start, stop)]
        groups = [[[line[i] for i in chosen] for line in group] for group in self.groups]
        kept = [g for g in groups if any(cell.text != NOTHING for line in g for cell in line[self.names :])]
        return Table(self.title, [self.header[i] for i in chosen], [line for g in kept for line in g], self.names)

    def width(self, column: int) -> int:
        """Characters of the widest text in a column."""
        return max(map(len, [self.header[column], *(line[column].text for group in self.groups for line in group)]))


# --- raw scores ------------------------------------------------------------------------------------------------------

ScoreCells = dict[tuple[Condition | str, str], dict[str, Cell]]  # by condition (or name of a sum) and agent: by game


def score_table(results: Results, summary: Summary) -> Table:
    """The paper's table: one line per condition and agent, one column per game, then the sums over conditions."""
    lines, words = [], []
    for (condition, agent), cells in score_cells(results, summary).items():
        name = condition if isinstance(condition, str) else results.name(condition)
        lines.append([Cell(name), Cell(agent), *(cells.get(game, Cell()) for game in results.games)])
        words.append(line_exposure(results, condition, agent))
    header = ["condition", "agent", *results.games]
    table = Table(f"Raw scores, {results.settings}", header, lines, notes=score_notes(results, summary))
    return with_exposure(table, words)


def with_exposure(table: Table, words: Sequence[str]) -> Table:
    """The table with a third column of names: what each line's agent met of its shift before. `words` has one entry per
    line, foot and extra included. Where all are empty, the table stays as it is."""
    if not any(words):
        return table
    found = iter(words)

    def longer(lines: Sequence[TableLine]) -> list[TableLine]:
        return [[*line[:2], Cell(next(found)), *line[2:]] for line in lines]

    header = [*table.header[:2], EXPOSURE, *table.header[2:]]
    lines, foot, extra = longer(table.lines), longer(table.foot), longer(table.extra)
    return replace(table, header=header, lines=lines, names=3, foot=foot, extra=extra)


def line_exposure(results: Results, condition: Condition | str, agent: str) -> str:
    """What the agent of a line met before of its shift, or of all the shifts that a sum over conditions is made of."""
    together = dict(_overall_conditions(results))
    return results.exposure(together[condition] if isinstance(condition, str) else [condition], agent)


def score_cells(results: Results, summary: Summary) -> ScoreCells:
    """The cells of the paper's table, for the agents that have anything there."""
    digits = {game: _digits(results, game) for game in results.games}
    found: ScoreCells = {}
    for condition in results.conditions:
        cells = {}
        for agent, game in product(results.agents, results.games):
            if scores := results.scores.get((condition, agent, game)):
                text = _number(scores.mean, digits[game])
                text += "" if scores.std is None else f" ± {_number(scores.std, digits[game])}"
                text += NO_SKILL if condition.clean and summary.skill(agent, game) is False else ""
                cells[agent, game] = Cell(text, scores.mean)
        found |= _with_best(condition, cells, results)
    for name, together in _overall_conditions(results):
        found |= _with_best(name, _sums(together, results, summary, digits), results)
    return found


def _with_best(condition: Condition | str, cells: dict[tuple[str, str], Cell], results: Results) -> ScoreCells:
    """The cells of one condition. The best mean of each game is marked where there are two or more."""
    best = {}
    for game in results.games:
        values = [cell.value for (_, g), cell in cells.items() if g == game and cell.value is not None]
        best[game] = max(values) if len(values) > 1 else None
    found: ScoreCells = {}
    for (agent, game), cell in cells.items():
        found.setdefault((condition, agent), {})[game] = replace(cell, best=cell.value == best[game])
    return found


def _overall_conditions(results: Results) -> list[tuple[str, list[Condition]]]:
    """What "Overall" sums: the clean screen and all shifts of the same severity and mode; once for each of these."""
    clean = [c for c in results.conditions if c.clean]
    shifted = [c for c in results.conditions if not c.clean]
    found = []
    for severity, mode in dict.fromkeys((c.severity, c.mode) for c in shifted):
        together = clean + [c for c in shifted if (c.severity, c.mode) == (severity, mode)]
        found.append((results.name(Condition("Overall", severity, mode)), together))
    return [(name, together) for name, together in found if len(together) > 1]


def _sums(
    conditions: Sequence[Condition], results: Results, summary: Summary, digits: dict[str, int]
) -> dict[tuple[str, str], Cell]:
    sums: dict[tuple[str, str], float] = {}
    for agent, game in product(results.agents, results.games):
        met = [results.scores.get((condition, agent, game)) for condition in conditions]
        if all(met):
            sums[agent, game] = float(overall([scores.mean for scores in met if scores]))
    cells = {}
    for (agent, game), total in sums.items():
        baseline = sums.get((summary.against(agent), game))
        gain = None if agent == summary.baseline or baseline is None else relative_gain(total, baseline)
        text = _number(total, digits[game]) + ("" if gain is None else f" ({round(100 * gain):+d} %)")
        cells[agent, game] = Cell(text, total)
    return cells


def score_notes(results: Results, summary: Summary) -> list[str]:
    """How to read the table of scores."""
    counts = {len(scores.seeds) for scores in results.scores.values()}
    seeds = "± is the standard deviation between training seeds (n - 1)"
    episodes = "± is the standard deviation between the episodes of the one seed, not between seeds"
    played = f"Scores are means of {_episode_counts(results)}"
    if counts == {1}:
        notes = [f"{played}; {episodes}."]
    else:
        notes = [f"{played}; {seeds}; with one seed, between its episodes." if 1 in counts else f"{played}; {seeds}."]
    if _overall_conditions(results):
        gain = f", and its relative gain over {summary.opponents()}" if len(results.agents) > 1 else ""
        notes.append(f"Overall is the sum of the conditions' raw scores, as in the paper{gain}.")
    if summary.no_skill:
        notes.append(f"{NO_SKILL} no skill: the clean score is not shown to beat a random player's.")
    return [*notes, NOTE] if results.has_exposure else notes


def _episode_counts(results: Results) -> str:
    """`10 episodes`, `5 to 10 episodes of each training seed`."""
    each = [len(episodes) for scores in results.scores.values() for episodes in scores.episodes.values()]
    least, most = min(each), max(each)
    count = f"{least} to {most} episodes" if least < most else f"{most} episode{'s' if most != 1 else ''}"
    several = any(len(scores.seeds) > 1 for scores in results.scores.values())
    return count + (" of each training seed" if several else "")


# --- figures over games ----------------------------------------------------------------------------------------------


def summary_table(results: Results, summary: Summary) -> Table:
    """Figures over games: one line per condition and agent. Columns without any figure are left out."""
    header = ["condition", "agent", "IQM", f"P(> {summary.baseline})", "gap", "kept"]
    estimates = [e for line in summary.lines for e in (line.iqm, line.improvement, line.gap, line.retention) if e]
    several = any(e.low is not None for e in estimates)  # else a note says once that there is one seed
    digits = 3 if summary.scales else 2
    lines, words = [], []
    for line in summary.lines:
        name = "all" if line.condition is None else results.name(line.condition)
        kept = _interval(line.retention, 100, 0, several)
        if line.retention is None and line.gap is not None and summary.no_skill.get(summary.kept_of(line.agent)):
            kept = Cell("no skill")
        better = _interval(line.improvement) if several else Cell()  # for one run against one it is 0 or 1
        figures = [_interval(line.iqm, 1, digits, several), better, _interval(line.gap, 1, digits, several), kept]
        if any(cell.text != NOTHING for cell in figures):
            lines.append([Cell(name), Cell(line.agent), *figures])
            words.append(line.exposure)
    shown = [i for i in range(2, len(header)) if any(line[i].text != NOTHING for line in lines)]
    lines = [[*line[:2], *(line[i] for i in shown)] for line in lines]
    games = results.games[0] if len(results.games) == 1 else f"Over {len(results.games)} games"
    title = ", ".join([games, summary.unit, *(["95 % intervals"] if several else []), f"{results.policy} policy"])
    table = Table(title, [*header[:2], *(header[i] for i in shown)], lines, notes=_key(summary, shown))
    return with_exposure(table, words)


def _key(summary: Summary, shown: Sequence[int]) -> list[str]:
    but = f", without games marked {NO_SKILL}" if summary.no_skill else ""
    met = summary.results.exposures(summary.baseline)
    meaning = {
        2: "IQM: interquartile mean of all runs",
        3: f"P(> {summary.baseline}): probability that a run beats a run of {summary.opponents()}"
        + (f" ({met})" if met else ""),
        4: "gap: clean score minus shifted score, same seed",
        5: f"kept: % of the score above random that is kept{but}",
    }
    notes = ["; ".join(meaning[i] for i in shown) + "."] if shown else []
    return [*notes, *kept_notes(summary)] if 5 in shown else notes


def kept_notes(summary: Summary) -> list[str]:
    """For hardened agents: whose clean score is all that can be kept."""
    hardened = [agent for agent in summary.results.agents if split_name(agent)[1]]
    before = [agent for agent in hardened if summary.kept_of(agent) != agent]
    own = [agent for agent in hardened if agent not in before]
    notes = []
    if before:
        notes.append(f"kept, for {'; '.join(before)}: % of what the agent before hardening scored above random, clean.")
    if own:
        absent = "the agent before hardening was not tested here"
        notes.append(f"kept, for {'; '.join(own)}: % of its own clean score above random, because {absent}.")
    return notes


def severity_table(results: Results, summary: Summary) -> Table | None:
    """Mean score at each severity, and the normalised area under the curve."""
    curves = summary.curves
    if not curves:
        return None
    levels = sorted({level for curve in curves for level in curve.levels})
    modes = {curve.mode for curve in curves}
    digits = 3 if summary.scales else 2
    several = any(curve.area.low is not None for curve in curves)
    lines = []
    for curve in curves:
        name = f"{curve.shift} {curve.mode}" if len(modes) > 1 else curve.shift
        scores = {x: Cell(_number(y, digits), y) for x, y in zip(curve.levels, curve.scores, strict=True)}
        area = _interval(curve.area, 1, digits, several)
        lines.append([Cell(name), Cell(curve.agent), *(scores.get(level, Cell()) for level in levels), area])
    header = ["shift", "agent", *("clean" if level == 0 else str(level) for level in levels), "area"]
    title = f"By severity, {summary.unit}, {results.policy} policy"
    note = "area: mean height of the curve from its first level to its last (trapezoids)."
    return with_exposure(Table(title, header, lines, notes=[note]), [curve.exposure for curve in curves])


def _interval(estimate: Estimate | None, factor: float = 1, digits: int = 2, marked: bool = True) -> Cell:
    """`0.31 [0.22,0.40]`, without a space inside, so that a narrow terminal breaks the line before the interval."""
    if estimate is None:
        return Cell()
    value, ends = factor * estimate.value, " (one seed)" if marked else ""
    if estimate.low is not None and estimate.high is not None:
        ends = f" [{_number(factor * estimate.low, digits)},{_number(factor * estimate.high, digits)}]"
    return Cell(_number(value, digits) + ends, value)


def _digits(results: Results, game: str) -> int:
    """Decimals of a game's scores, the same for all of them."""
    largest = max(abs(scores.mean) for (_, _, g), scores in results.scores.items() if g == game)
    return 0 if largest >= 1000 else 1 if largest >= 100 else 2


def _number(x: float, digits: int) -> str:
    text = f"{x:.{digits}f}"
    return text.removeprefix("-") if float(text) == 0 else text  # no "-0.00"
