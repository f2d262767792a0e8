"""A picture of games under shifts, like the paper's: one row per game, one column per shift, with the agent's view."""

import io
from collections import deque
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dsacc.envs import Env, make_env
from dsacc.envs.filters import FILTERS, filtered_picture
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
) -> Path:
    """Draw `envs` (rows) under `shifts` at `severities` (columns) into a PNG file, with the clean picture first.

    A cell shows the screen in colour and, below it, the picture that the network sees, if that is a different one. With
    `modes` there is one row per mode, and each cell shows four successive frames. All cells show the same moment of the
    same game, after `steps` random steps. `picture_filter` shows what an agent with that setting sees.
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
                raise ConfigError(f"{name} gives its agent no pictures of uint8; {needs}")
    frames, rows = STRIP if modes else 1, []
    for name in envs:
        clean = _play(make_env(name), seed, steps, frames, picture_filter)
        for how in MODES if modes else (mode,):
            shifted = (Shift(make_env(name), kind, severity, how, seed) for kind, severity in columns)
            cells = [clean, *(_play(env, seed, steps, frames, picture_filter) for env in shifted)]
            rows.append((f"{name}, {how}" if modes else name, cells))
    several = len(severities) > 1 or list(severities) != ["paper"]
    titles = ["clean", *(f"{kind.replace('_', ' ')}{f', {level}' if several else ''}" for kind, level in columns)]
    write_atomically(out, _draw(rows, titles, frames))
    return out


def _play(env: Env, seed: int, steps: int, frames: int, picture_filter: str = "none") -> _Cell:
    """The last `frames` frames of `steps` random steps. The seed fixes the game and the actions."""
    on_screen = isinstance(env.unwrapped, HasScreen)
    space: Any = env.observation_space
    key = picture_part(space)  # of the picture in a Dict
    layout = Layout(tuple((space if key is None else space[key]).shape or ()))
    colour: deque[Array] = deque(maxlen=frames)
    agent: deque[Array] = deque(maxlen=frames)

    def look(observation: Any) -> None:
        newest = layout.split(observation if key is None else observation[key])[-1]
        shape = (*newest.shape[:2], 3)
        agent.append(np.broadcast_to(filtered_picture(newest, picture_filter), shape))
        screen: Any = env.render() if on_screen else np.broadcast_to(newest, shape)
        colour.append(screen)

    env.action_space.seed(seed)
    look(env.reset(seed=seed)[0])
    for _ in range(max(steps, frames - 1)):
        observation, _, terminated, truncated, _ = env.step(env.action_space.sample())
        if terminated or truncated:
            observation, _ = env.reset()
        look(observation)
    env.close()
    return _Cell(list(colour), list(agent) if on_screen or picture_filter != "none" else [])


def _draw(rows: list[tuple[str, list[_Cell]]], titles: list[str], frames: int) -> bytes:
    """Copy the pictures pixel by pixel, enlarged by whole factors; matplotlib draws only the text."""
    from matplotlib.figure import Figure

    target = WIDE if frames == 1 and len(titles) <= FEW else NARROW
    cells = [[_paste(cell, target) for cell in row] for _, row in rows]
    width = max(cell.shape[1] for row in cells for cell in row)
    heights = [max(cell.shape[0] for cell in row) for row in cells]
    total = (sum(heights) + GAP * len(rows) + 2 * LINE, MARGIN + (width + GAP) * len(titles))
    canvas = np.full((*total, 3), 255, np.uint8)
    figure = Figure(figsize=(total[1] / DPI, total[0] / DPI), dpi=DPI)

    def write(text: str, x: float, y: float, size: float, **how: Any) -> None:
        figure.text(x / total[1], 1 - y / total[0], text, fontsize=size, va="center", **how)

    size = min(15, width / max(map(len, titles)))  # points; a letter is about as many pixels wide
    for j, title in enumerate(titles):
        write(title, MARGIN + j * (width + GAP) + width / 2, LINE / 2, size, ha="center")
    y = LINE
    for (label, _), row, height in zip(rows, cells, heights, strict=True):
        write(label, MARGIN / 2, y + height / 2, 15, ha="center", rotation=90)
        for j, cell in enumerate(row):
            x = MARGIN + j * (width + GAP) + (width - cell.shape[1]) // 2
            canvas[y : y + cell.shape[0], x : x + cell.shape[1]] = cell
        y += height + GAP
    below = any(cell.agent for _, row in rows for cell in row)
    what = "above: the screen; below: what the agent sees" if below else "what the agent sees"
    write(what + (f", {frames} successive frames" if frames > 1 else ""), MARGIN, y + LINE / 2 - GAP / 2, 11, ha="left")
    figure.figimage(canvas)
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=DPI)
    return file.getvalue()


def _paste(cell: _Cell, target: int) -> Array:
    """The frames of a cell side by side on white, with the agent's frames below. Each is enlarged by the largest whole
    factor that keeps it within `target` pixels of width."""
    strips = []
    for pictures in (cell.colour, cell.agent):
        if pictures:
            factor = max(target // pictures[0].shape[1], 1)
            large = [picture.repeat(factor, 0).repeat(factor, 1) for picture in pictures]
            bar = np.full((large[0].shape[0], SEAM, 3), 255, np.uint8)
            strips.append(np.hstack([part for picture in large for part in (picture, bar)][:-1]))
    width = max(strip.shape[1] for strip in strips)
    out = np.full((sum(len(strip) + SEAM for strip in strips) - SEAM, width, 3), 255, np.uint8)
    y = 0
    for strip in strips:
        x = (width - strip.shape[1]) // 2
        out[y : y + len(strip), x : x + strip.shape[1]] = strip
        y += len(strip) + SEAM
    return out
