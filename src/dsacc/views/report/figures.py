"""The figures about results: improvement, scores, cost of shifts, severity, and profiles."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dsacc.analysis.names import display_name
from dsacc.analysis.results import Results
from dsacc.analysis.statistics import Estimate
from dsacc.analysis.summary import Summary
from dsacc.system.text import readable
from dsacc.views.report.drawing import INK, NAME, Drawing, Style, finish, new_figure, wrapped
from dsacc.views.report.strips import Mark, Strip, strip_chart, track, verdict_mark
from dsacc.views.report.verdict import Claim
from dsacc.views.report.verdict import said as said_name

Styles = Mapping[str, Style]
FEW = 6  # agents: up to here bands and shades can be told apart


def improvement_figure(name: str, title: str, claims: Sequence[tuple[str, Claim]], note: str = "") -> Drawing | None:
    """P(agent beats the baseline) with its interval, one row per comparison with its name, and the verdict beside it.
    At 0.5 neither is better."""
    strips, words = [], []
    for label, claim in claims:
        e = claim.estimate
        if e is None or e.low is None or e.high is None:
            continue  # for one run against one it is 0 or 1
        said, between = f"{e.value:.2f}", f"({e.low:.2f} to {e.high:.2f})"
        strips.append(Strip(label, [verdict_mark(e, claim.word)], said, between, claim.word, claim.exposure))
        words.append(f"{label}: {said} {between}, {claim.word}")
    if not strips:
        return None
    alt, lines = f"{title}. {'; '.join(words)}.", {0.5: "0.5: no difference"}
    label = "probability of beating it; bars: 95 % intervals"
    return strip_chart(name, title, alt, strips, (0.0, 1.0), lines, label=label, note=note)


def claim_track(claim: Claim) -> str:
    """The same row without words, for a cell of the table of comparisons."""
    return track([verdict_mark(claim.estimate, claim.word)], (0.0, 1.0), {0.5: ""}) if claim.estimate else ""


def score_figure(name: str, title: str, results: Results, summary: Summary, styles: Styles) -> Drawing | None:
    """The score over games under each condition, one mark per agent, with an interval where there is one agent."""
    lines = [line for line in summary.lines if line.condition is not None and line.iqm is not None]
    values = [line.iqm for line in lines if line.iqm is not None]
    if not values:
        return None
    alone = len({line.agent for line in lines}) == 1
    strips = []
    for condition in results.conditions:
        found = [(line.agent, line.iqm) for line in lines if line.condition == condition and line.iqm is not None]
        marks = [_score_mark(e if alone else replace(e, low=None, high=None), styles[a]) for a, e in found]
        said = readable(found[0][1].value) if alone and found else ""
        strips += [Strip(said_name(results, condition), marks, said)] if marks else []
    ends = [x for e in values for x in (e.value, *((e.low, e.high) if alone else ())) if x is not None]
    tops = {known.top_name: 1.0 for known in summary.scales.values()}
    known = {0.0: "random"} | {x: text for text, x in tops.items()} if summary.scales else {}
    low, high = min([*ends, *([0.0] if known else [])]), max(ends)
    marked = {x: text for x, text in known.items() if x <= max(high * 1.3, low)}
    room = 0.06 * max(high - low, 1e-6) if not marked or high > max(marked) else 0.0
    bounds = (
        round(low - (0.06 * (high - low) if low < 0 or not known else 0), 2),
        round(max([high + room, *marked]), 2),
    )
    if bounds[0] >= bounds[1]:
        bounds = (bounds[0] - 1, bounds[1] + 1)
    words = [
        f"{display_name(x.agent)}, {said_name(results, x.condition)}: {_words(x.iqm)}"
        for x in lines
        if x.iqm and x.condition
    ]
    handles = [] if alone else _handles(list(dict.fromkeys(x.agent for x in lines)), styles)
    alt, unit = f"{title}. {'; '.join(words)}.", summary.unit
    note = exposure_note(results)
    return strip_chart(name, title, alt, strips, bounds, marked, label=unit, legend=handles, note=note)


def _score_mark(e: Estimate, look: Style) -> Mark:
    return Mark(e, f"--s{look.spot}", look.colour, look.line["marker"], look.shape)


def _handles(agents: Sequence[str], styles: Styles) -> list[Any]:
    from matplotlib.lines import Line2D

    return [Line2D([], [], **{**styles[a].line, "linestyle": "none"}, label=short_name(a)) for a in agents]


def gap_figure(name: str, title: str, results: Results, summary: Summary, styles: Styles) -> Drawing | None:
    """What each shift costs: clean minus shifted score of the same trained agents."""
    shifted = [c for c in results.conditions if not c.clean]
    names = [said_name(results, c) for c in shifted]
    lines = [line for line in summary.lines if line.condition is not None]
    points = [(shifted.index(x.condition), x.agent, x.gap) for x in lines if x.condition and x.gap]
    if not points:
        return None
    figure, axis, handles, words = _dots(points, names, results.agents, styles)
    axis.axvline(0, color=INK, linewidth=1)
    axis.set_xlabel("clean minus shifted")
    return finish(figure, name, title, f"{title}. {words}.", handles, exposure_note(results))


def severity_figures(prefix: str, summary: Summary, styles: Styles) -> list[Drawing]:
    """Mean score over severity, one figure per shift that was tested at several severities."""
    kinds = list(dict.fromkeys((c.shift, c.mode) for c in summary.curves))
    drawn = []
    for i, (shift, mode) in enumerate(kinds):
        figure, axis = new_figure()
        handles, words, shown = [], [], [c for c in summary.curves if (c.shift, c.mode) == (shift, mode)]
        for curve in shown:
            look = {**styles[curve.agent].line, "linewidth": 1.6, "markersize": 4.5}
            handles += axis.plot(curve.levels, curve.scores, **look, label=short_name(curve.agent))
            first, last = readable(curve.scores[0]), readable(curve.scores[-1])
            words.append(f"{display_name(curve.agent)} from {first} to {last}")
        levels = sorted({level for c in summary.curves for level in c.levels})
        axis.set_xticks(levels, ["clean" if level == 0 else str(level) for level in levels])
        axis.set_xlabel("severity")
        title = f"{shift}, {mode}" if len({m for _, m in kinds}) > 1 else shift
        alt, note = f"Score under {title}: {'; '.join(words)}.", in_note({c.agent: c.exposure for c in shown})
        drawn.append(finish(figure, f"{prefix}-{i}", title, alt, handles, note))
    return drawn


def profile_figures(prefix: str, results: Results, summary: Summary, styles: Styles) -> list[Drawing]:
    """Share of runs above each normalised score, one figure per condition, for agents with three runs or more."""
    if not summary.scales:
        return []
    drawn = []
    for i, condition in enumerate(results.conditions):
        runs = {a: _runs(results, summary, condition, a) for a in results.agents}
        runs = {agent: scores for agent, scores in runs.items() if len(scores) > 2}
        if not runs:
            continue
        top = max(1e-6, *(float(s.max()) for s in runs.values()))
        taus = np.linspace(min(0.0, *(float(s.min()) for s in runs.values())), top * 1.02, 41)
        figure, axis = new_figure()
        handles, words = [], []
        for agent in runs:
            estimates = summary.profile(agent, condition, taus) or []
            look = styles[agent].line
            value = [e.value for e in estimates]
            handles += axis.plot(taus, value, **look, linewidth=1.6, markersize=4, markevery=8, label=short_name(agent))
            if all(e.low is not None for e in estimates) and len(runs) <= FEW:
                low, high = [e.low or 0.0 for e in estimates], [e.high or 0.0 for e in estimates]
                axis.fill_between(taus, low, high, color=look["color"], alpha=0.16, linewidth=0)
            words.append(f"{display_name(agent)}: half of its runs above {float(np.median(runs[agent])):.3g}")
        axis.set_ylim(-0.02, 1.02)
        axis.set_xlabel("normalised score τ (up: share of runs above it)")
        title, note = said_name(results, condition), in_note({a: results.exposure([condition], a) for a in runs})
        alt = f"{title}. {'; '.join(words)}."
        drawn.append(finish(figure, f"{prefix}-{i}", f"Profile, {title}", alt, handles, note))
    return drawn


def exposure_note(results: Results) -> str:
    """What agents met before of each shift, beneath a figure with several."""
    return in_note({agent: results.exposures(agent) for agent in results.agents})


def in_note(words: Mapping[str, str]) -> str:
    """`DSAC-M, hardened: unseen.`, for the agents that have words."""
    return " ".join(f"{display_name(agent)}: {text}." for agent, text in words.items() if text)


def _runs(results: Results, summary: Summary, condition: Any, agent: str) -> Any:
    scores = [summary.normalise(g, results.paired([condition], agent, g))[:, 0] for g in summary.games]
    return np.concatenate([*scores, np.array([])])


def _dots(
    points: Sequence[tuple[int, str, Estimate]], names: Sequence[str], agents: Sequence[str], styles: Styles
) -> tuple[Any, Any, list[Any], str]:
    """Points with intervals, one row per name, with the agents one above the other in it; and the same in words."""
    present = [a for a in agents if any(agent == a for _, agent, _ in points)]
    ticks = [wrapped(name) for name in names]
    left = min(0.2 + 0.08 * max(len(line) for text in ticks for line in text.split("\n")), 2.1)
    figure, axis = new_figure(height=0.6 + len(names) * (0.2 + 0.13 * len(present)), left=left)
    handles: dict[str, Any] = {}
    for row, agent, e in points:
        look = styles[agent]
        y = row + (present.index(agent) - (len(present) - 1) / 2) * 0.7 / max(len(present), 2)
        if e.low is not None and e.high is not None:
            axis.plot([e.low, e.high], [y, y], color=look.colour, linewidth=1.6, solid_capstyle="butt")
        point = {**look.line, "markersize": 5, "linestyle": "none"}
        (handles[agent],) = axis.plot([e.value], [y], **point, label=short_name(agent))
    axis.set_yticks(range(len(names)), ticks)
    axis.set_ylim(len(names) - 0.5, -0.5)
    axis.grid(axis="y", visible=False)
    words = "; ".join(f"{display_name(a)}, {names[i]}: {_words(e)}" for i, a, e in points)
    return figure, axis, [handles[a] for a in present], words


def _words(e: Estimate) -> str:
    return f"{e.value:.2f}" + ("" if e.low is None or e.high is None else f", {e.low:.2f} to {e.high:.2f}")


def short_name(agent: str) -> str:
    return cut(display_name(agent))


def cut(text: str) -> str:
    return text if len(text) <= 2 * NAME else text[: 2 * NAME - 1] + "…"
