"""A picture of games under shifts, like the paper's: one row per game, one column per shift, with the agent's view."""

import io
from collections import deque
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dsacc.envs import Env, checked, make_env
from dsacc.envs.filters import FILTERS, filtered_picture
from dsacc.envs.pictures import float_pictures
from dsacc.envs.protocol import HasScreen
from dsacc.envs.spaces import picture_part, shows_pictures
from dsacc.errors import ConfigError
from dsacc.shifts import MODES, Shift, as_level, find_kind
from dsacc.shifts.layout import Layout
from dsacc.system.files import write_atomically
from dsacc.system.types import Array

SHIFTS = ("snow", "rain", "fog")
STEPS = 150  # random agent steps before the picture is taken
STRIP = 4  # successive frames per cell where modes are compared, as many as in an agent's stack
WIDE, NARROW = 336, 168  # width of a picture in pixels: 84 x 4 and 84 x 2
FEW = 6  # up to so many columns are drawn wide
GAP, SEAM, MARGIN, LINE = 12, 4, 44, 30  # pixels between cells, within cells, left of them, and per line of text
DPI = 100


@dataclass(frozen=True)
class _Cell:
    colour: list[Array]  # [H, W, 3], oldest first
    agent: list[Array]  # the same frames as the network sees them; empty if it sees the colour picture


def preview(
    envs: Sequence[str],
    out: str | Path,
    *,
    shifts: Sequence[str] = SHIFTS,
    severities: Sequence[str | int] = ("paper",),
    mode: str = "independent",
    modes: bool = False,
    seed: int = 0,
    steps: int = STEPS,
    picture_filter: str = "none",
    plain: str | Path | None = None,
) -> Path:
    """Draw `envs` (rows) under `shifts` at `severities` (columns) into a PNG file, with the clean picture first.

    A cell shows the screen in colour and, below it, the picture that the network sees, if that is a different one. With
    `modes` there is one row per mode, and each cell shows four successive frames. All cells show the same moment of the
    same game, after `steps` random steps. `picture_filter` shows what an agent with that setting sees.
    `plain` is a second PNG file for the pictures alone: without words, with nothing between them.
    """
    out = Path(out)
    if out.suffix.lower() != ".png":
        raise ConfigError(f"the preview is a PNG file; its name must end in .png, unlike {out.name!r}")
    for option, value in (("steps", steps), ("seed", seed)):
        if value < 0:
            raise ConfigError(f"--{option} must be at least 0, not {value}")
    if picture_filter not in ("none", *FILTERS):
        raise ConfigError(f"picture_filter must be one of none, {', '.join(FILTERS)}, not {picture_filter!r}")
    if mode not in MODES:
        raise ConfigError(f"mode must be {', '.join(MODES[:-1])} or {MODES[-1]}, not {mode!r}")
    columns = [(find_kind(shift).name, as_level(severity) or "paper") for shift in shifts for severity in severities]
    for name in envs:
        with closing(make_env(name)) as env:
            if not shows_pictures(env.observation_space):
                needs = "a preview needs an environment that does"
                raise ConfigError(f"{name} gives its agent no pictures; {needs}")
    frames, rows = STRIP if modes else 1, []
    for name in envs:
        clean = _play(make_env(name), seed, steps, frames, picture_filter)
        for how in MODES if modes else (mode,):
            shifted = (Shift(make_env(name), kind, severity, how, seed) for kind, severity in columns)
            seen = [clean, *(_play(env, seed, steps, frames, picture_filter) for env in shifted)]
            rows.append((f"{name}, {how}" if modes else name, seen))
    several = len(severities) > 1 or list(severities) != ["paper"]
    titles = ["clean", *(f"{kind.replace('_', ' ')}{f', {level}' if several else ''}" for kind, level in columns)]
    pasted, width = _cells(rows, len(titles), frames)
    write_atomically(out, _draw(rows, pasted, width, titles, frames))
    if plain is not None:
        write_atomically(Path(plain), _draw_plain(pasted, width))
    return out


def _play(env: Env, seed: int, steps: int, frames: int, picture_filter: str = "none") -> _Cell:
    """The last `frames` frames of `steps` random steps. The seed fixes the game and the actions."""
    on_screen = isinstance(env.unwrapped, HasScreen)
    space: Any = env.observation_space
    key = picture_part(space)  # of the picture in a Dict
    space = space if key is None else space[key]
    layout, floats = Layout(tuple(space.shape or ())), float_pictures(space)
    colour: deque[Array] = deque(maxlen=frames)
    agent: deque[Array] = deque(maxlen=frames)

    def look(observation: Any) -> None:
        shown = observation if key is None else observation[key]
        newest = layout.split(shown if floats is None else floats.to_bytes(shown))[-1]
        shape = (*newest.shape[:2], 3)
        agent.append(np.broadcast_to(filtered_picture(newest, picture_filter), shape))
        screen: Any = checked.render(env) if on_screen else np.broadcast_to(newest, shape)
        colour.append(screen)

    env.action_space.seed(seed)
    look(checked.reset(env, seed)[0])
    for number in range(1, max(steps, frames - 1) + 1):
        observation, _, terminated, truncated, _ = checked.step(env, env.action_space.sample(), number)
        if terminated or truncated:
            observation, _ = checked.reset(env)
        look(observation)
    env.close()
    return _Cell(list(colour), list(agent) if on_screen or picture_filter != "none" else [])


def _cells(rows: list[tuple[str, list[_Cell]]], columns: int, frames: int) -> tuple[list[list[Array]], int]:
    """The pictures of all cells [H, W, 4], enlarged by whole factors, and the width of the widest."""
    target = WIDE if frames == 1 and columns <= FEW else NARROW
    cells = [[_paste(cell, target) for cell in row] for _, row in rows]
    return cells, max(cell.shape[1] for row in cells for cell in row)


def _place(canvas: Array, cells: list[list[Array]], width: int, left: int, top: int) -> None:
    """Copy the pictures pixel by pixel."""
    for row in cells:
        for j, cell in enumerate(row):
            x = left + j * (width + GAP) + (width - cell.shape[1]) // 2
            canvas[top : top + cell.shape[0], x : x + cell.shape[1]] = cell
        top += max(cell.shape[0] for cell in row) + GAP


def _draw_plain(cells: list[list[Array]], width: int) -> bytes:
    import cv2

    height = sum(max(cell.shape[0] for cell in row) + GAP for row in cells) - GAP
    canvas = np.zeros((height, len(cells[0]) * (width + GAP) - GAP, 4), np.uint8)
    _place(canvas, cells, width, 0, 0)
    return cv2.imencode(".png", cv2.cvtColor(canvas, cv2.COLOR_RGBA2BGRA))[1].tobytes()


def _draw(
    rows: list[tuple[str, list[_Cell]]], cells: list[list[Array]], width: int, titles: list[str], frames: int
) -> bytes:
    """The pictures on white; matplotlib draws only the text."""
    from matplotlib.figure import Figure

    heights = [max(cell.shape[0] for cell in row) for row in cells]
    total = (sum(heights) + GAP * len(rows) + 2 * LINE, MARGIN + (width + GAP) * len(titles))
    canvas = np.zeros((*total, 4), np.uint8)
    _place(canvas, cells, width, MARGIN, LINE)
    canvas = np.where(canvas[..., 3:] > 0, canvas[..., :3], np.uint8(255))
    figure = Figure(figsize=(total[1] / DPI, total[0] / DPI), dpi=DPI)

    def write(text: str, x: float, y: float, size: float, **how: Any) -> None:
        figure.text(x / total[1], 1 - y / total[0], text, fontsize=size, va="center", **how)

    size = min(15, width / max(map(len, titles)))  # points; a letter is about as many pixels wide
    for j, title in enumerate(titles):
        write(title, MARGIN + j * (width + GAP) + width / 2, LINE / 2, size, ha="center")
    y = LINE
    for (label, _), height in zip(rows, heights, strict=True):
        write(label, MARGIN / 2, y + height / 2, 15, ha="center", rotation=90)
        y += height + GAP
    below = any(cell.agent for _, row in rows for cell in row)
    what = "above: the screen; below: what the agent sees" if below else "what the agent sees"
    write(what + (f", {frames} successive frames" if frames > 1 else ""), MARGIN, y + LINE / 2 - GAP / 2, 11, ha="left")
    figure.figimage(canvas)
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=DPI)
    return file.getvalue()


def _paste(cell: _Cell, target: int) -> Array:
    """The frames of a cell side by side [H, W, 4], with the agent's frames below and nothing between them. Each is
    enlarged by the largest whole factor that keeps it within `target` pixels of width."""
    strips = []
    for pictures in (cell.colour, cell.agent):
        if pictures:
            factor = max(target // pictures[0].shape[1], 1)
            large = [picture.repeat(factor, 0).repeat(factor, 1) for picture in pictures]
            large = [np.dstack([picture, np.full(picture.shape[:2], 255, np.uint8)]) for picture in large]
            bar = np.zeros((large[0].shape[0], SEAM, 4), np.uint8)
            strips.append(np.hstack([part for picture in large for part in (picture, bar)][:-1]))
    width = max(strip.shape[1] for strip in strips)
    out = np.zeros((sum(len(strip) + SEAM for strip in strips) - SEAM, width, 4), np.uint8)
    y = 0
    for strip in strips:
        x = (width - strip.shape[1]) // 2
        out[y : y + len(strip), x : x + strip.shape[1]] = strip
        y += len(strip) + SEAM
    return out
