"""Dots and intervals in rows, drawn as part of the page: names are text that wraps, and nothing shrinks on a phone.

A row has a name, a track with its marks, and what they say in figures and in a word. Positions are shares of the
track's width, so the drawing fits any screen. The same marks are drawn once more by matplotlib for the files.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dsacc.analysis.statistics import Estimate
from dsacc.views.report.drawing import COLOURS, INK, Drawing, finish, new_figure, wrapped

GREY = 6  # the place of grey among the colours
# By verdict: colour, marker as in matplotlib, and whether it is filled. Grey and hollow: nothing is decided.
LOOKS = {"better": ("good", "o", True), "hint: better": ("good", "D", True), "worse": ("bad", "o", True)}
LOOKS |= {"hint: worse": ("bad", "D", True)}
PLAIN = ("quiet", "o", False)
FILE_COLOURS = {"good": "#0a6b4f", "bad": "#a63a00", "quiet": COLOURS[GREY]}
SHAPES = {"o": "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z", "D": "M0-5.6L5.6 0L0 5.6L-5.6 0z"}


@dataclass(frozen=True)
class Mark:
    """A figure on a track. `ink` is a variable of the page's style, `colour` the same in the files."""

    estimate: Estimate
    ink: str
    colour: str
    marker: str
    shape: str
    filled: bool = True


@dataclass(frozen=True)
class Strip:
    """One row. `said` is its figure, `between` its interval (left out on a narrow screen, where the bar shows it),
    `word` its verdict, `below` small text beneath the name."""

    name: str
    marks: Sequence[Mark]
    said: str = ""
    between: str = ""
    word: str = ""
    below: str = ""


def verdict_mark(estimate: Estimate, word: str) -> Mark:
    """The mark of a comparison: its colour and form follow from the word that the rules of the verdict gave."""
    ink, marker, filled = LOOKS.get(word, PLAIN)
    return Mark(estimate, f"--{ink}", FILE_COLOURS[ink], marker, SHAPES[marker], filled)


def strip_chart(
    name: str,
    title: str,
    alt: str,
    strips: Sequence[Strip],
    bounds: tuple[float, float],
    lines: Mapping[float, str],
    *,
    label: str,
    legend: Sequence[Any] = (),
    note: str = "",
) -> Drawing:
    """The rows above one axis. `lines` are values with a vertical line, and what is written at it."""
    from markupsafe import escape

    rows = []
    for strip in strips:
        word = f' <span class="badge {strip.word.split(" ")[-1]}">{escape(strip.word)}</span>' if strip.word else ""
        below = f" <small>{escape(strip.below)}</small>" if strip.below else ""
        figures = f'<span class="in-figures">{_figures(strip)}{word}</span>' if strip.said or word else ""
        rows.append(f'<span class="who">{escape(strip.name)}{below}</span>{track(strip.marks, bounds, lines)}{figures}')
    kind = "strips" if any(strip.word for strip in strips) else "strips brief"
    body = "".join(f'<div class="strip">{row}</div>' for row in rows)
    ends = {bounds[0]: f"{bounds[0]:g}", bounds[1]: f"{bounds[1]:g}"} | dict(lines)
    ticks = "".join(
        f'<i class="{_side(x, bounds)}" style="left:{_share(x, bounds)}%">{escape(text)}</i>'
        for x, text in ends.items()
    )
    axis = f'<div class="strip axis"><span></span><span class="ticks">{ticks}</span></div>'
    drawn = _file(name, title, alt, strips, bounds, lines, label, legend, note)
    return replace(drawn, inline=f'<div class="{kind}">{body}{axis}<p class="axis-label">{escape(label)}</p></div>')


def _figures(strip: Strip) -> str:
    from markupsafe import escape

    between = f' <span class="between">{escape(strip.between)}</span>' if strip.between else ""
    return f"<span>{escape(strip.said)}{between}</span>"


def track(marks: Sequence[Mark], bounds: tuple[float, float], lines: Mapping[float, str]) -> str:
    """The marks on their line, as a drawing whose horizontal positions are shares of its width."""
    parts = [f'<line class="rest" x1="{_share(x, bounds)}%" x2="{_share(x, bounds)}%" y1="0" y2="18"/>' for x in lines]
    for mark in marks:
        e, ink = mark.estimate, f"var({mark.ink})"
        if e.low is not None and e.high is not None:
            ends = f'x1="{_share(e.low, bounds)}%" x2="{_share(e.high, bounds)}%"'
            parts.append(f'<line {ends} y1="9" y2="9" stroke="{ink}" stroke-width="2.5"/>')
        fill = ink if mark.filled else "var(--paper)"
        path = f'<path d="{mark.shape}" fill="{fill}" stroke="{ink}" stroke-width="1.5"/>'
        parts.append(f'<svg class="mark" x="{_share(e.value, bounds)}%" y="9">{path}</svg>')
    return f'<svg class="track" height="18" aria-hidden="true" focusable="false">{"".join(parts)}</svg>'


def _share(x: float, bounds: tuple[float, float]) -> str:
    low, high = bounds
    return f"{100 * min(max((x - low) / (high - low), 0), 1):.1f}"


def _side(x: float, bounds: tuple[float, float]) -> str:
    """Words at the ends of the axis must not hang over it."""
    share = (x - bounds[0]) / (bounds[1] - bounds[0])
    return "begin" if share < 0.12 else "end" if share > 0.88 else "middle"


def _file(
    name: str,
    title: str,
    alt: str,
    strips: Sequence[Strip],
    bounds: tuple[float, float],
    lines: Mapping[float, str],
    label: str,
    legend: Sequence[Any],
    note: str,
) -> Drawing:
    names = [wrapped(strip.name) for strip in strips]
    letters = max(len(line) for text in names for line in text.split("\n"))
    heights = [0.21 + 0.14 * text.count("\n") for text in names]
    figure, axis = new_figure(height=0.75 + sum(heights), width=5.2, left=min(0.25 + 0.085 * letters, 2.3))
    places = [-sum(heights[:i]) - heights[i] / 2 for i in range(len(heights))]
    for y, strip in zip(places, strips, strict=True):
        for mark in strip.marks:
            e = mark.estimate
            if e.low is not None and e.high is not None:
                axis.plot([e.low, e.high], [y, y], color=mark.colour, linewidth=1.6, solid_capstyle="butt")
            face = mark.colour if mark.filled else "white"
            look = {"marker": mark.marker, "markersize": 5, "markerfacecolor": face, "linestyle": "none"}
            axis.plot([e.value], [y], color=mark.colour, **look)
    axis.set_yticks(places, names)
    axis.set_ylim(-sum(heights), 0)
    axis.grid(axis="y", visible=False)
    span = bounds[1] - bounds[0]
    axis.set_xlim(bounds[0] - 0.02 * span, bounds[1] + 0.02 * span)
    for x in lines:
        axis.axvline(x, color=INK, linewidth=0.8, zorder=0)
    said = ", ".join(text if text[:1].isdigit() else f"{x:g}: {text}" for x, text in lines.items())
    axis.set_xlabel(f"{label} ({said})" if said else label)
    return finish(figure, name, title, alt, legend, note)
