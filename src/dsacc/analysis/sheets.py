"""The tables as plain data: what stands in which cell and what is best. How it is written is `formats`' business."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from dsacc.analysis.results import Condition, Results
from dsacc.analysis.statistics import Estimate, overall, relative_gain
from dsacc.analysis.summary import Summary

NO_SKILL = "†"
NOTHING = "-"


@dataclass(frozen=True)
class Entry:
    """The text of a cell; `best` ones are set in bold."""

    text: str
    best: bool = False


@dataclass(frozen=True)
class Sheet:
    """A table with its title above and its notes beneath. Between groups of lines goes a rule."""

    title: str
    header: list[str]
    groups: list[list[list[Entry]]]
    names: int = 2  # how many columns at the left are names
    notes: list[str] = field(default_factory=list)

    def columns(self, start: int, stop: int) -> "Sheet":
        """The names and some of the other columns, without notes and without groups in which nothing is left."""
        chosen = [*range(self.names), *range(start, stop)]
        groups = [[[line[i] for i in chosen] for line in group] for group in self.groups]
        groups = [g for g in groups if any(entry.text != NOTHING for line in g for entry in line[self.names :])]
        return Sheet(self.title, [self.header[i] for i in chosen], groups, self.names)

    def width(self, column: int) -> int:
        texts = [self.header[column], *(line[column].text for group in self.groups for line in group)]
        return max(map(len, texts))


def paper_sheet(results: Results, summary: Summary) -> Sheet:
    """The paper's table: a line for each condition and agent, a column for each game, then the sums over conditions."""
    digits = {game: _digits(results, game) for game in results.games}
    groups = []
    for condition in results.conditions:
        means: dict[tuple[str, str], float] = {}
        texts: dict[tuple[str, str], str] = {}
        for agent in results.agents:
            for game in results.games:
                cell = results.cell(condition, agent, game)
                if cell is None:
                    continue
                means[agent, game] = cell.mean
                texts[agent, game] = _number(cell.mean, digits[game])
                texts[agent, game] += "" if cell.std is None else f" ± {_number(cell.std, digits[game])}"
                if condition.clean and summary.skill(agent, game) is False:
                    texts[agent, game] += NO_SKILL
        groups.append(_group(results.name(condition), results, means, texts))
    groups += [_sums(name, together, results, summary, digits) for name, together in _overall_conditions(results)]
    return Sheet(f"Raw scores, {results.settings}", ["condition", "agent", *results.games], groups)


def _group(
    name: str, results: Results, means: dict[tuple[str, str], float], texts: dict[tuple[str, str], str]
) -> list[list[Entry]]:
    """Lines of the agents that have anything here; the best mean of each game marked where there are two or more."""
    best = {}
    for game in results.games:
        found = [means[agent, game] for agent in results.agents if (agent, game) in means]
        best[game] = max(found) if len(found) > 1 else None
    group: list[list[Entry]] = []
    for agent in results.agents:
        if not any((agent, game) in means for game in results.games):
            continue
        entries = [
            Entry(texts.get((agent, g), NOTHING), best[g] is not None and means.get((agent, g)) == best[g])
            for g in results.games
        ]
        group.append([Entry("" if group else name), Entry(agent), *entries])
    return group


def _overall_conditions(results: Results) -> list[tuple[str, list[Condition]]]:
    """What "Overall" sums: the clean screen and all shifts of the same severity and mode; once for each of these."""
    clean = [c for c in results.conditions if c.clean]
    shifted = [c for c in results.conditions if not c.clean]
    kinds = dict.fromkeys((c.severity, c.mode) for c in shifted)
    found = []
    for severity, mode in kinds:
        together = clean + [c for c in shifted if (c.severity, c.mode) == (severity, mode)]
        name = results.name(Condition("Overall", severity, mode))
        found.append((name, together))
    return [(name, together) for name, together in found if len(together) > 1]


def _sums(
    name: str, conditions: Sequence[Condition], results: Results, summary: Summary, digits: dict[str, int]
) -> list[list[Entry]]:
    sums: dict[tuple[str, str], float] = {}
    for agent in results.agents:
        for game in results.games:
            cells = [results.cell(condition, agent, game) for condition in conditions]
            if all(cells):
                sums[agent, game] = float(overall([cell.mean for cell in cells if cell]))
    texts = {}
    for (agent, game), total in sums.items():
        baseline = sums.get((summary.baseline, game))
        gain = None if agent == summary.baseline or baseline is None else relative_gain(total, baseline)
        texts[agent, game] = _number(total, digits[game]) + ("" if gain is None else f" ({round(100 * gain):+d} %)")
    return _group(name, results, sums, texts)


def paper_notes(results: Results, summary: Summary) -> list[str]:
    """How to read the table above."""
    counts = {len(cell.seeds) for cell in results.cells.values()}
    seeds = "± is the standard deviation between training seeds (n - 1)"
    episodes = "± is the standard deviation between the episodes of the one seed, not between seeds"
    if counts == {1}:
        notes = [f"{episodes}."]
    else:
        notes = [f"{seeds}; with one seed, between its episodes." if 1 in counts else f"{seeds}."]
    if _overall_conditions(results):
        gain = f", and its relative gain over {summary.baseline}" if len(results.agents) > 1 else ""
        notes.append(f"Overall is the sum of the conditions' raw scores, as in the paper{gain}.")
    if summary.no_skill:
        notes.append(f"{NO_SKILL} no skill: the clean score does not beat a random player's.")
    return notes


def summary_sheet(results: Results, summary: Summary) -> Sheet:
    """Figures over games: a line for each condition and agent. Columns without any figure are left out."""
    header = ["condition", "agent", "IQM", f"P(> {summary.baseline})", "gap", "kept"]
    estimates = [e for line in summary.lines for e in (line.iqm, line.improvement, line.gap, line.retention) if e]
    several = any(e.low is not None for e in estimates)  # else a note says once that there is one seed
    groups: dict[Condition | None, list[list[Entry]]] = {}
    for line in summary.lines:
        name = "all" if line.condition is None else results.name(line.condition)
        group = groups.setdefault(line.condition, [])
        kept = _interval(line.retention, 100, 0, several)
        if not kept and line.gap is not None and summary.no_skill.get(line.agent):
            kept = "no skill"
        unit = 3 if summary.scales else 2
        better = _interval(line.improvement) if several else ""  # of one run against one it is 0 or 1
        figures = [_interval(line.iqm, 1, unit, several), better, _interval(line.gap, 1, unit, several), kept]
        if any(figures):
            group.append([Entry("" if group else name), Entry(line.agent), *(Entry(f or NOTHING) for f in figures)])
    filled = [group for group in groups.values() if group]
    shown = [i for i in range(2, len(header)) if any(line[i].text != NOTHING for g in filled for line in g)]
    filled = [[[*line[:2], *(line[i] for i in shown)] for line in group] for group in filled]
    games = results.games[0] if len(results.games) == 1 else f"Over {len(results.games)} games"
    title = ", ".join([games, summary.unit, *(["95 % intervals"] if several else []), f"{results.policy} policy"])
    return Sheet(title, [*header[:2], *(header[i] for i in shown)], filled, notes=_key(summary, shown))


def _key(summary: Summary, shown: Sequence[int]) -> list[str]:
    but = f", without games marked {NO_SKILL}" if summary.no_skill else ""
    meaning = {
        2: "IQM: interquartile mean of all runs",
        3: f"P(> {summary.baseline}): probability that a run beats a run of {summary.baseline}",
        4: "gap: clean score minus shifted, same seed",
        5: f"kept: % of the score above random that is kept{but}",
    }
    return ["; ".join(meaning[i] for i in shown) + "."] if shown else []


def curve_sheet(results: Results, summary: Summary) -> Sheet | None:
    """Mean score at each severity, and the normalised area under the curve."""
    curves = summary.curves
    if not curves:
        return None
    levels = sorted({level for curve in curves for level in curve.levels})
    modes = {curve.mode for curve in curves}
    digits = 3 if summary.scales else 2
    several = any(curve.area.low is not None for curve in curves)
    groups: dict[str, list[list[Entry]]] = {}
    for curve in curves:
        name = f"{curve.shift} {curve.mode}" if len(modes) > 1 else curve.shift
        group = groups.setdefault(name, [])
        scores = dict(zip(curve.levels, (_number(x, digits) for x in curve.scores), strict=True))
        entries = [Entry(scores.get(level, NOTHING)) for level in levels]
        area = Entry(_interval(curve.area, 1, digits, several))
        group.append([Entry("" if group else name), Entry(curve.agent), *entries, area])
    header = ["shift", "agent", *("clean" if level == 0 else str(level) for level in levels), "area"]
    title = f"By severity, {summary.unit}, {results.policy} policy"
    note = "area: mean height of the curve from its first level to its last (trapezoids)."
    return Sheet(title, header, list(groups.values()), notes=[note])


def _interval(estimate: Estimate | None, factor: float = 1, digits: int = 2, marked: bool = True) -> str:
    """`0.31 [0.22,0.40]`, without a space inside, so that a narrow terminal breaks the line before the interval."""
    if estimate is None:
        return ""
    if estimate.low is None or estimate.high is None:
        return _number(factor * estimate.value, digits) + (" (one seed)" if marked else "")
    ends = f"[{_number(factor * estimate.low, digits)},{_number(factor * estimate.high, digits)}]"
    return f"{_number(factor * estimate.value, digits)} {ends}"


def _digits(results: Results, game: str) -> int:
    """Decimals of a game's scores, the same for all of them."""
    largest = max(abs(cell.mean) for (_, _, g), cell in results.cells.items() if g == game)
    return 0 if largest >= 1000 else 1 if largest >= 100 else 2


def _number(x: float, digits: int) -> str:
    text = f"{x:.{digits}f}"
    return text.removeprefix("-") if float(text) == 0 else text  # no "-0.00"
