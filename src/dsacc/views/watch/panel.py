"""One condition of a video: the picture on the left; what the agent sees and would do, Q and lambda on the right."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from dsacc.system.types import Array
from dsacc.views.watch.canvas import BLUE, GREEN, GREY, ORANGE, RAISED, TRACK, WHITE, blank, box, fitted, measure, write
from dsacc.views.watch.readout import Readout

Legend = list[tuple[str, tuple[int, int, int] | None]]  # lines of text, and the colour of the box before each

# All in pixels.
SIDE = 420  # longer side of the picture, at most
INFO = 340  # width of the column on the right
PAD, HEADER, TITLE = 12, 40, 40
LINE = 20  # height of a line of the legend
ROW = (18, 40)  # height of an action's row, smallest and largest
LAMBDA = 52  # height of a multiplier
VIEW = 84  # side of what the agent sees, at most; twice that if the actions leave room
ROOMY = 32  # height of an action's row that must then be left


@dataclass(frozen=True)
class Moment:
    """What a panel shows of one state."""

    picture: Array  # in colour, as shifted
    view: Array | None  # the newest picture that the agent sees, if it is a different one
    readout: Readout
    action: int | None  # the one it takes
    score: float
    step: int
    ending: str = ""  # for example "game over"


class Panel:
    """Draws moments. What stays the same is drawn once. The first moment decides what there is to draw."""

    def __init__(self, title: str, subtitle: str, actions: Sequence[str], first: Moment) -> None:
        self.actions, readout = actions, first.readout
        known = (("policy_A", BLUE), ("surrogate_A", ORANGE))
        self.bars = [(name, colour) for name, colour in known if getattr(readout, name) is not None]
        self.has_q = readout.q_A is not None
        picture = fitted(first.picture, SIDE)
        legend = self._legend(readout, first.view is not None)
        below = LAMBDA * len(readout.lambda_KN)

        def block(view: int) -> int:  # height above the actions, including the heading "Q"
            return max(view, LINE * len(legend)) + LINE

        sides = [0] if first.view is None else [2 * VIEW, VIEW]
        room = [side for side in sides if block(side) + ROOMY * len(actions) + below <= picture.shape[0]]
        self.view_side = (room or sides[-1:])[0]
        above = block(self.view_side)
        self.row = int(np.clip((picture.shape[0] - above - below) / len(actions), *ROW))
        body = max(picture.shape[0], above + self.row * len(actions) + below)
        self.left = PAD + picture.shape[1] + PAD  # of the column
        self.height = HEADER + body + PAD
        self.width = self.left + INFO + PAD
        self.rows_at, self.lambda_at = HEADER + above, HEADER + body - below
        self.name_size = 14 if self.row >= 22 else 12
        self.bar_at = self.left + max(measure(name, self.name_size, True) for name in actions) + 12
        self.bar_width = self.left + INFO - self.bar_at - (66 if self.has_q else 4)
        self.template = self._draw_template(title, subtitle, legend)

    def _legend(self, readout: Readout, seen: bool) -> Legend:
        names = {"policy_A": "actor π" if self.has_q else "policy", "surrogate_A": "critic softmax(Q/α)"}  # noqa: RUF001
        lines: Legend = [(names[name], colour) for name, colour in self.bars]
        if readout.alpha is not None:
            lines.append((f"α {readout.alpha:.3g}", None))  # noqa: RUF001
        lines = lines or [("its policy is not known", None)]
        return [*lines, ("◂ what it sees", None)] if seen else lines

    def _draw_template(self, title: str, subtitle: str, legend: Legend) -> Array:
        out = blank(self.height, self.width)
        write(out, title, PAD, HEADER / 2, 18, bold=True)
        write(out, subtitle, PAD + measure(title, 18, True) + 10, HEADER / 2 + 1, 14, GREY)
        x = self.left + (self.view_side + 12 if self.view_side else 0)
        for i, (text, colour) in enumerate(legend):
            y = HEADER + LINE * i + 10
            if colour is not None:
                box(out, x, y - 5, 10, 10, colour)
            write(out, text, x + 16, y, 12, GREY)
        if self.has_q:
            write(out, "Q", self.left + INFO, self.rows_at - 8, 12, GREY, at=1)
        for i in range(len(self.actions)):
            box(out, self.bar_at, self._row_y(i) + 3, self.bar_width, self.row - 6, TRACK)
        return out

    def _row_y(self, i: int) -> int:
        return self.rows_at + self.row * i

    def draw(self, moment: Moment) -> Array:
        out = self.template.copy()
        picture = fitted(moment.picture, SIDE)
        if moment.ending:
            picture = picture // 3 + blank(*picture.shape[:2]) // 2
            write(picture, moment.ending, picture.shape[1] / 2, picture.shape[0] / 2, 22, bold=True, at=0.5)
        out[HEADER : HEADER + picture.shape[0], PAD : PAD + picture.shape[1]] = picture
        if moment.view is not None:
            view = fitted(moment.view, self.view_side)
            out[HEADER : HEADER + view.shape[0], self.left : self.left + view.shape[1]] = view
        right = self.left + INFO
        write(out, f"step {moment.step:,}", right, HEADER / 2 + 1, 14, GREY, at=1)
        write(out, f"score {_score(moment.score)}", right - 84, HEADER / 2, 18, bold=True, at=1)
        self._draw_actions(out, moment)
        for k, (symbol, values_N) in enumerate(moment.readout.lambda_KN):
            self._draw_lambda(out, self.lambda_at + LAMBDA * k, symbol, values_N)
        return out

    def _draw_actions(self, out: Array, moment: Moment) -> None:
        readout = moment.readout
        thick = (self.row - 6) // max(len(self.bars), 1)
        for i, name in enumerate(self.actions):
            y, chosen = self._row_y(i), i == moment.action
            allowed = readout.allowed_A is None or bool(readout.allowed_A[i])
            ink = WHITE if chosen else GREY if allowed else RAISED
            if chosen:
                box(out, self.left - 4, y, INFO + 8, self.row, RAISED)
                box(out, self.bar_at, y + 3, self.bar_width, self.row - 6, TRACK)
            write(out, name, self.left, y + self.row / 2, self.name_size, ink, bold=chosen)
            for k, (field, colour) in enumerate(self.bars):
                share_A = getattr(readout, field)
                if share_A is not None:
                    box(out, self.bar_at, y + 3 + k * thick, round(self.bar_width * float(share_A[i])), thick, colour)
            if readout.q_A is not None or not allowed:
                text = _number(float(readout.q_A[i])) if allowed and readout.q_A is not None else "not allowed"
                write(out, text, self.left + INFO, y + self.row / 2, self.name_size, ink, at=1)

    def _draw_lambda(self, out: Array, y: int, symbol: str, values_N: Array) -> None:
        """A track from 0 to 1 with one stroke per draw of noise, and a bar for their mean."""
        mean, x, width = float(values_N.mean()), self.left + 4, INFO - 8
        write(out, f"{symbol} {mean:.2f}", self.left, y + 18, 14, bold=True)
        if len(values_N) > 1:
            shares = f"at 0: {(values_N == 0).mean():.0%}   at 1: {(values_N == 1).mean():.0%}"
            shares += f"   of {len(values_N)} draws of noise"
            write(out, shares, self.left + INFO, y + 18, 12, GREY, at=1)
        box(out, x, y + 30, width, 16, TRACK)
        box(out, x, y + 34, round(width * mean), 8, GREEN)
        for value in np.unique(np.round(values_N * (width - 2)).astype(int)):
            box(out, x + value, y + 31, 2, 14, GREY)
        for end in (-2, width):  # the bounds
            box(out, x + end, y + 27, 2, 22, WHITE)


def _score(value: float) -> str:
    return f"{value:,.0f}" if value == round(value) else f"{value:,.1f}"


def _number(value: float) -> str:
    size = abs(value)
    return f"{value:.3f}" if size < 10 else f"{value:.2f}" if size < 100 else f"{value:.4g}"


def arrange(title: str, panels: Sequence[Array]) -> Array:
    """A title and the panels, side by side; three or more go into two rows. Height and width are even."""
    columns = min(len(panels), 2)
    height, width = (max(p.shape[axis] for p in panels) for axis in (0, 1))
    rows = -(-len(panels) // columns)
    total, across = TITLE + rows * height, columns * width
    out = _ground(title, total + total % 2, across + across % 2).copy()
    for i, panel in enumerate(panels):
        y, x = TITLE + (i // columns) * height, (i % columns) * width
        out[y : y + panel.shape[0], x : x + panel.shape[1]] = panel
    return out


@lru_cache(maxsize=4)
def _ground(title: str, height: int, width: int) -> Array:
    out, size = blank(height, width), 18
    while size > 10 and measure(title, size) > width - 2 * PAD:
        size -= 1
    write(out, title, PAD, TITLE / 2 + 2, size, GREY)
    return out
