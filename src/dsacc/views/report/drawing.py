"""How figures look, and how one becomes an inline drawing, an SVG file and a PNG file.

The files are for papers: white, with title and legend. The inline drawing takes its colours from the page, so that it
works on white and on black. Its title and legend are written by the page. The same figure always gives the same bytes.
"""

import io
import math
import re
import textwrap
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

INK = "#1b1f24"
# Six colours and a grey that also colour-blind people can tell apart, each dark enough on white. style.css has the same
# for dark screens; a test measures both.
COLOURS = ("#0064c8", "#d95f02", "#009e73", "#b76dbd", "#9a3a00", "#512a85", "#696775")
SPOTS = len(COLOURS) - 1  # the last is grey, for all that are not pointed out
POINTED_OUT = 4  # agents with a colour where there are more agents than colours
NAME = 26  # letters of a line of a name on an axis
DASHES: tuple[Any, ...] = ("solid", (0, (5, 1.8)), (0, (6, 1.6, 1.3, 1.6)), (0, (1.4, 1.4)), (0, (9, 2)))
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
# The same markers for the page's legend, around (0, 0).
SHAPES = (
    "M-3.4 0a3.4 3.4 0 1 0 6.8 0a3.4 3.4 0 1 0 -6.8 0z", "M-3.2-3.2h6.4v6.4h-6.4z", "M0-4l3.8 6.8h-7.6z",
    "M0-4.4l4.4 4.4l-4.4 4.4l-4.4-4.4z", "M0 4l3.8-6.8h-7.6z",
    "M-1.4-4h2.8v2.6h2.6v2.8h-2.6v2.6h-2.8v-2.6h-2.6v-2.8h2.6z",
    "M-3.8-2.2l1.6-1.6l2.2 2.2l2.2-2.2l1.6 1.6l-2.2 2.2l2.2 2.2l-1.6 1.6l-2.2-2.2l-2.2 2.2l-1.6-1.6l2.2-2.2z",
)  # fmt: skip
SIZE = (3.9, 2.5)  # inches at 72 dots: fits a third of a wide page, or a phone
MARGINS = {"left": 0.56, "right": 0.12, "bottom": 0.44, "top": 0.08}  # inches around a panel
HEAD, LEGEND, NOTE = 0.26, 0.17, 0.13  # inches for the title, and for one line of the legend or note, in a file
NOTE_LETTERS = 17  # per inch
RC: dict[Any, Any] = {
    **dict.fromkeys(("font.size", "axes.labelsize"), 9.5),
    **dict.fromkeys(
        ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color", "grid.color"), INK
    ),
    **dict.fromkeys(("axes.linewidth", "xtick.major.width", "ytick.major.width", "grid.linewidth"), 0.6),
    **dict.fromkeys(("axes.spines.top", "axes.spines.right", "legend.frameon"), False),
    "svg.fonttype": "none",
    "axes.titlesize": 10,
    "text.parse_math": False,  # a name with a dollar sign is a name
    "axes.grid": True,
    "grid.alpha": 0.14,
    "path.simplify": True,
}


class Style:
    """The colour, dashes and marker of an agent. Up to seven agents, any one of the three is enough to tell it apart.
    Beyond, a few have a colour and the others are grey, with dashes and a marker of their own. For matplotlib these are
    `colour` and `line`, for the page `ink`, `dasharray` and `shape`."""

    def __init__(self, index: int, spot: int | None = None) -> None:
        turn = index + index // len(MARKERS)  # the eighth agent shares its marker with the first, but not its dashes
        dash, marker = DASHES[turn % len(DASHES)], MARKERS[index % len(MARKERS)]
        self.spot = min(index, SPOTS) if spot is None else spot
        self.colour, self.ink = COLOURS[self.spot], f"var(--s{self.spot})"
        self.line = {"color": self.colour, "linestyle": dash, "marker": marker}
        self.dasharray = "none" if dash == "solid" else " ".join(f"{1.6 * x:g}" for x in dash[1])
        self.shape = SHAPES[index % len(SHAPES)]


def styles_of(agents: Sequence[str], first: Sequence[str] = ()) -> dict[str, Style]:
    """How each agent is drawn. Where there are more agents than colours, only those that come `first` have one."""
    if len(agents) <= len(COLOURS):
        return {agent: Style(i) for i, agent in enumerate(agents)}
    chosen = list(dict.fromkeys([*first, *agents]))[:POINTED_OUT]
    return {a: Style(i, chosen.index(a) if a in chosen else SPOTS) for i, a in enumerate(agents)}


def wrapped(text: str) -> str:
    """A name in lines that fit beside an axis."""
    return "\n".join(textwrap.wrap(text, NAME)) or text


@dataclass
class Drawing:
    """A figure of the page. `alt` describes it in words."""

    name: str
    title: str
    alt: str
    inline: str
    svg: bytes = field(repr=False)
    png: bytes = field(repr=False)
    values: dict[str, Any] | None = field(default=None, repr=False)  # what the page's script shows along the figure
    note: str = ""  # beneath the figure


def new_figure(height: float = SIZE[1], width: float = SIZE[0], left: float = MARGINS["left"]) -> tuple[Any, Any]:
    """A figure with one panel, in inches. Margins are fixed: a layout engine would take most of a report's time."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    figure = Figure(figsize=(width, height))
    axis = figure.subplots()
    _place(figure, **{**MARGINS, "left": left})
    for scale in (axis.xaxis, axis.yaxis):
        scale.set_major_locator(MaxNLocator(5))
        scale.set_major_formatter(FuncFormatter(lambda x, _: short_number(x)))
    return figure, axis


def _place(figure: Any, left: float, right: float, bottom: float, top: float) -> None:
    width, height = figure.get_size_inches()
    figure.subplots_adjust(left / width, bottom / height, 1 - right / width, 1 - top / height)


def short_number(x: float) -> str:
    """`0.25`, `500`, `20k`, `1.5M`."""
    for unit, name in ((1e6, "M"), (1e3, "k")):
        if abs(x) >= unit:
            return f"{x / unit:.4g}{name}"
    return f"{x:.4g}" if abs(x) > 1e-9 else "0"


def finish(figure: Any, name: str, title: str, alt: str, legend: Sequence[Any] = (), note: str = "") -> Drawing:
    """Makes the inline drawing, then adds title, legend (handles with labels) and note for the files."""
    import matplotlib

    with warnings.catch_warnings(), matplotlib.rc_context({"svg.hashsalt": name}):
        warnings.simplefilter("ignore")  # letters that the font lacks, but the page has
        inline = _inline(_save(figure, "svg", transparent=True).decode(), name)
        if figure.get_layout_engine() is None:
            _make_room(figure, title, legend, note)
        svg = _save(figure, "svg", facecolor="white")
        png = _save(figure, "png", facecolor="white", dpi=160)
    return Drawing(name, title, f"{alt} {note}".strip(), inline, svg, png, note=note)


def _make_room(figure: Any, title: str, legend: Sequence[Any], note: str) -> None:
    width, height = figure.get_size_inches()
    at = figure.subplotpars
    margins = {"left": at.left * width, "right": (1 - at.right) * width}
    margins |= {"bottom": at.bottom * height, "top": (1 - at.top) * height}
    columns = 1 if max((len(h.get_label()) for h in legend), default=0) > 16 else 3
    said = textwrap.wrap(note, round(NOTE_LETTERS * width))
    last = NOTE * len(said) + 0.06 if said else 0.0
    below = (LEGEND * math.ceil(len(legend) / columns) + 0.08 if legend else 0.0) + last
    figure.set_size_inches(width, height + HEAD + below)
    _place(figure, **{**margins, "bottom": margins["bottom"] + below, "top": margins["top"] + HEAD})
    figure.suptitle(title, fontsize=10.5, y=1 - 0.07 / (height + HEAD + below), va="top")
    if legend:
        place = {"loc": "lower center", "bbox_to_anchor": (0.5, last / (height + HEAD + below))}
        figure.legend(handles=list(legend), ncols=columns, fontsize=8, **(place if said else {"loc": "lower center"}))
    if said:
        figure.text(0.5, 0.05 / (height + HEAD + below), "\n".join(said), ha="center", va="bottom", fontsize=7)


def _save(figure: Any, format: str, **how: Any) -> bytes:
    file = io.BytesIO()
    figure.savefig(file, format=format, metadata={"Date": None} if format == "svg" else None, **how)
    return file.getvalue()


def _inline(svg: str, name: str) -> str:
    """Only the drawing: without prolog, rules for the whole page, or size. Its colours come from the page. Ids are
    unique in the page, and are kept only where something refers to them."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>|<style[^>]*>.*?</style>|<!--.*?-->", "", svg, flags=re.S)
    svg = re.sub(r'<svg [^>]*?viewBox="([^"]*)"[^>]*>', r'<svg viewBox="\1" aria-hidden="true" focusable="false">', svg)
    for i, colour in enumerate(COLOURS):
        svg = svg.replace(colour, f"var(--s{i})")
    for ink in (INK, "#333333", "#000000"):
        svg = svg.replace(ink, "currentColor")
    svg = re.sub(r"font: ([\d.]+px) [^;\"]*", r"font-size: \1", svg)
    svg = re.sub(r"font-family: [^;\"]*;? ?", "", svg)
    # A hundredth of a point is finer than any screen.
    svg = re.sub(r' d="[^"]*"', lambda path: re.sub(r"(\.\d\d)\d+", r"\1", path[0]), svg)
    used = set(re.findall(r'href="#([^"]+)"|url\(#([^)]+)\)', svg))
    ids = {a or b for a, b in used}
    svg = re.sub(r' id="([^"]+)"', lambda m: f' id="{name}-{m[1]}"' if m[1] in ids else "", svg)
    svg = re.sub(r'href="#([^"]+)"', rf'href="#{name}-\1"', svg)
    svg = re.sub(r"url\(#([^)]+)\)", rf"url(#{name}-\1)", svg)
    svg = svg.replace("xlink:href", "href")
    return re.sub(r"\s*\n\s*", "\n", svg).strip()
