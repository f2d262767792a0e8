"""Figures of training: curves over steps, with values that can be read along them, and what λ does at the end."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dsacc.agent.constraints import ALL
from dsacc.analysis.exposure import exposure_of, in_words
from dsacc.analysis.names import display_name
from dsacc.analysis.references import scale
from dsacc.system.text import readable
from dsacc.views.report.drawing import COLOURS, INK, Drawing, finish, new_figure, wrapped
from dsacc.views.report.figures import FEW, Styles, in_note, short_name
from dsacc.views.report.series import LearningCurve, at_the_end, check_curves, curves
from dsacc.views.report.study import Study

STRETCHES = 100  # of a thin line: two points per stretch are more than the width of a figure shows
READ = 100  # steps at which the values of a figure can be read in the page; the CSV file has all steps
SHARES = {
    "lambda": "{}, mean over states",
    "lower": "Share of states with {} at 0",
    "upper": "Share of states with {} at 1",
}
QUANTITIES = {"lambda": "lambda", "lower": "lambda_at_lower", "upper": "lambda_at_upper"}  # by the name of the figure


def _of_multipliers(*figures: str) -> list[tuple[str, str, tuple[str, ...]]]:
    return [
        (f"{figure}{'' if c.order == 1 else c.order}", SHARES[figure].format(c.title), c.keys(QUANTITIES[figure]))
        for figure in figures
        for c in ALL
    ]


DIAGNOSTICS: list[tuple[str, str, tuple[str, ...]]] = [
    ("error", "Expected-value error |E_φ[Q] - μ_θ|", ("expected_error",)),
    *_of_multipliers("lambda"),
    ("entropy", "Entropy of the policy", ("entropy",)),
    ("q", "Q, mean over states and actions", ("q_mean",)),
    *_of_multipliers("lower", "upper"),
]


def learning_figures(study: Study, styles: Styles, slugs: Mapping[str, str]) -> dict[str, Drawing]:
    """Return of training games, one figure per game, with the scores of random and human players where they fit."""
    drawn = {}
    for game, slug in slugs.items():
        if found := curves(study.runs, study.agents, game, "return"):
            known, top = scale(game), max(float(c.mean.max()) for c in found)
            marks = {} if known is None else {"random": known.random}
            marks |= {known.top_name: known.top} if known is not None and known.top <= 1.3 * top else {}
            drawn[game] = training_figure(f"learning-{slug}", game, found, styles, marks)
    return drawn


def check_figures(study: Study, styles: Styles, slugs: Mapping[str, str]) -> dict[str, list[Drawing]]:
    """Scores of tests during training, by game. For the clean screen, the return of training games is drawn as well."""
    drawn: dict[str, list[Drawing]] = {}
    for i, (game, condition, policy) in enumerate(study.checked):
        found = check_curves(study.runs, study.agents, game, condition, policy)
        under = curves(study.runs, [c.agent for c in found], game, "return") if condition == "clean" else []
        title = f"{game}, tests with {policy} actions" + ("" if condition == "clean" else f", {condition}")
        note = in_note({c.agent: in_words(_met(c, condition)) for c in found})
        figure = training_figure(f"tests-{slugs[game]}-{i}", title, found, styles, under=under, note=note)
        drawn.setdefault(game, []).append(figure)
    return drawn


def _met(curve: LearningCurve, condition: str) -> list[str]:
    """What the agent of a curve met of the condition's shift before, as the rows of its runs say."""
    rows = [row for seed in curve.seeds for row in seed.run.checks if row.condition.words == condition]
    return [word for row in rows if (word := exposure_of(row))]


def diagnostic_figures(study: Study, styles: Styles, slugs: Mapping[str, str]) -> list[tuple[str, list[Drawing]]]:
    """The paper's diagnostic curves and λ at its bounds, game by game."""
    diagnostics = []
    for game, slug in slugs.items():
        drawn = []
        for key, title, keys in DIAGNOSTICS:
            if found := curves(study.runs, study.agents, game, *keys):
                # λ is drawn from 0 to 1, its bounds: closer in, a flat line would look like a change.
                bounds = (-0.02, 1.02) if key.startswith(tuple(QUANTITIES)) else None
                drawn.append(training_figure(f"{key}-{slug}", title, found, styles, bounds=bounds))
        ends = {
            display_name(agent) + ("" if c.order == 1 else f" {c.symbol}"): [
                at_the_end(study.runs, agent, game, *c.keys(quantity)) for quantity in QUANTITIES.values()
            ]
            for agent in study.agents
            for c in ALL
        }
        means = {a: [float(np.mean(x)) for x in xs] for a, xs in ends.items() if all(xs)}
        if means:
            drawn.append(multiplier_figure(f"multiplier-{slug}", "λ in the last tenth of training", means))
        diagnostics += [(game, drawn)] if drawn else []
    return diagnostics


def training_figure(
    name: str,
    title: str,
    curves: Sequence[LearningCurve],
    styles: Styles,
    marks: Mapping[str, float] | None = None,
    under: Sequence[LearningCurve] = (),
    bounds: tuple[float, float] | None = None,
    note: str = "",
) -> Drawing:
    """Mean over seeds of the moving averages, shaded by the standard deviation between them. Thin: each seed, raw.
    `under` are curves to compare with: only their means, dotted. `bounds` are those of the vertical axis, by default
    those of the data."""
    figure, axis = new_figure()
    if bounds is not None:
        axis.set_ylim(*bounds)
    for curve in under:
        dots = {"color": styles[curve.agent].colour, "linewidth": 1, "linestyle": (0, (1, 1.6))}
        axis.plot(*_thinned(curve.steps, curve.mean), **dots)
    for curve in curves:
        colour = styles[curve.agent].colour
        for seed in curve.seeds:
            axis.plot(*_thinned(seed.steps, seed.raw), color=colour, linewidth=0.5, alpha=0.45)
        if (curve.count > 1).any() and len(curves) <= FEW:
            some = _some(len(curve.steps), STRETCHES)
            low, high = (curve.mean - curve.std)[some], (curve.mean + curve.std)[some]
            axis.fill_between(curve.steps[some], low, high, color=colour, alpha=0.16, linewidth=0)
    handles = []
    for curve in curves:
        steps, mean = _thinned(curve.steps, curve.mean)
        look = {"linewidth": 1.6, "markersize": 4, "markevery": max(math.ceil(len(steps) / 5), 1)}
        handles += axis.plot(steps, mean, **styles[curve.agent].line, **look, label=short_name(curve.agent))
    for text, value in (marks or {}).items():  # random at the right, where agents are above it; the other at the left
        axis.axhline(value, color=INK, linewidth=0.8, linestyle=(0, (1, 2)))
        place, side = (0.99, "right") if text == "random" else (0.01, "left")
        axis.annotate(text, (place, value), xycoords=("axes fraction", "data"), ha=side, va="bottom", fontsize=8)
    axis.set_xlabel("agent steps")
    ends = "; ".join(f"{display_name(c.agent)} {readable(float(c.mean[-1]))}" for c in curves)
    values = _values(axis, curves, styles)
    drawing = finish(figure, name, title, f"{title} over training. At the end: {ends}.", handles, note)
    drawing.values = values
    return drawing


def _thinned(steps: Any, raw: Any) -> tuple[Any, Any]:
    """No more points than can be seen: both ends of a long line, and the lowest and highest point of each stretch."""
    if len(steps) <= 2 * STRETCHES:
        return steps, raw
    kept = {0, len(steps) - 1}
    for part in np.array_split(np.arange(len(steps)), STRETCHES):
        kept |= {int(part[raw[part].argmin()]), int(part[raw[part].argmax()])}
    return steps[sorted(kept)], raw[sorted(kept)]


def _some(count: int, most: int) -> Any:
    """At most `most` places in a list of `count`, evenly spread, with the first and the last."""
    return np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(int))


def _values(axis: Any, curves: Sequence[LearningCurve], styles: Styles) -> dict[str, Any]:
    """The values at each step: the mean that is drawn and the raw value of each seed, None where it logged none. There
    are at most `READ` steps, all of them logged. `box` is the panel: left, top, width and height as shares of the
    figure."""
    steps = np.unique(np.concatenate([c.steps for c in curves]))
    steps = steps[_some(len(steps), READ)]
    at = axis.get_position()
    return {
        "box": [round(x, 4) for x in (at.x0, 1 - at.y1, at.width, at.height)],
        "x": [float(f"{x:.7g}") for x in axis.get_xlim()],
        "y": [float(f"{x:.5g}") for x in axis.get_ylim()],
        "steps": [int(step) for step in steps],
        "lines": [
            {
                "name": short_name(c.agent),
                "ink": styles[c.agent].spot,
                "mean": _at(steps, c.steps, c.mean),
                "raw": [_at(steps, s.steps, s.raw) for s in c.seeds],
            }
            for c in curves
        ],
    }


def _at(steps: Any, own: Any, values: Any) -> list[float | None]:
    known = dict(zip(own.tolist(), values.tolist(), strict=True))
    return [None if (x := known.get(step)) is None else float(f"{x:.4g}") for step in steps.tolist()]


def multiplier_figure(name: str, title: str, ends: Mapping[str, Sequence[float]]) -> Drawing:
    """What λ does at the end of training, one bar per agent: the shares of states with λ at 0, between and at 1, and a
    diamond at its mean. `ends` has λ and the two shares."""
    names = [wrapped(display_name(agent)) for agent in ends]
    lines = [text.split("\n") for text in names]
    left = min(0.2 + 0.085 * max(len(line) for some in lines for line in some), 2.3)
    figure, axis = new_figure(height=0.6 + (0.12 + 0.15 * max(map(len, lines))) * len(names), left=left)
    handles = []
    kinds = (("at 0", COLOURS[0], "////"), ("between", COLOURS[6], ""), ("at 1", COLOURS[1], "\\\\\\\\"))
    for i, (label, colour, hatch) in enumerate(kinds):
        shares = [(low, max(1 - low - high, 0.0), high) for _, low, high in ends.values()]
        before, width = [sum(s[:i]) for s in shares], [s[i] for s in shares]
        look = {"facecolor": f"{colour}", "alpha": 0.45, "hatch": hatch, "edgecolor": INK, "linewidth": 0.5}
        handles.append(axis.barh(range(len(names)), width, 0.62, before, label=label, **look))
    means = [lam for lam, _, _ in ends.values()]
    look = {"color": INK, "marker": "D", "markersize": 6, "linestyle": "none", "markeredgecolor": "white"}
    handles += axis.plot(means, range(len(names)), **look, label="mean λ")
    axis.set_yticks(range(len(names)), names)
    axis.set_ylim(len(names) - 0.5, -0.5)
    axis.set_xlim(-0.02, 1.02)
    axis.grid(axis="y", visible=False)
    axis.set_xlabel("share of states; ◆ mean λ")
    words = "; ".join(
        f"{display_name(a)}: λ {lam:.2f}, at 0 in {100 * low:.0f} %, at 1 in {100 * high:.0f} % of states"
        for a, (lam, low, high) in ends.items()
    )
    return finish(figure, name, title, f"{title}. {words}.", handles)
