"""Pictures that are made for the page: the games in their weather, and the paper's clip figure of a real state."""

import base64
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dsacc.agent.constraints import ALL
from dsacc.analysis.rows import Condition
from dsacc.shifts import names as drawable
from dsacc.system.trust import require
from dsacc.views.insight.clip import clip_figure_data, draw_clip
from dsacc.views.preview import preview
from dsacc.views.report.drawing import Drawing, finish
from dsacc.views.report.study import Study

WIDTH = 1_000  # pixels of a picture in the page; the file beside it has the full size
Clip = Callable[[Path], tuple[Any, str]]  # from a run folder to a matplotlib figure and a sentence about it
TRIES, STATES = 3, 100  # how many runs are tried for the clip figure, and how many states of each are looked at


@dataclass(frozen=True)
class Picture:
    """A picture inside the page."""

    name: str
    game: str
    columns: tuple[str, ...]  # what is written above the picture
    alt: str
    source: str  # data:
    width: int
    height: int


def weather(
    names: Mapping[str, str], conditions: Sequence[Condition], folder: Path, notes: list[str], study: Path
) -> list[Picture]:
    """Each game (with its name for files), clean and under the shifts. A game that cannot be drawn here gets a note.
    `study` is the folder that names the games."""
    shifts = [s for s in dict.fromkeys(c.shift for c in conditions if not c.clean) if s in drawable()]
    levels = list(dict.fromkeys(c.severity for c in conditions if c.severity is not None))
    chosen = ["paper"] if "paper" in levels or not levels else [levels[len(levels) // 2]]
    found = []
    for game, slug in names.items() if shifts else ():
        path = folder / f"weather-{slug}.png"
        try:
            require(game, "environment", str(study), "--import {module}", "first import {module}")
            with tempfile.TemporaryDirectory() as folder_of_one:
                plain = Path(folder_of_one) / "plain.png"
                preview([game], path, shifts=shifts, severities=chosen, plain=plain)
                found.append(_embed(plain, path.stem, game, ("clean", *(s.replace("_", " ") for s in shifts))))
        except Exception as error:  # a game that is not installed, no pictures, anything an environment may raise
            notes.append(f"No picture of {game}: {error}")
    return found


def _embed(path: Path, name: str, game: str, columns: tuple[str, ...]) -> Picture:
    """The picture without words, on a transparent ground, so that it fits a light and a dark page."""
    import cv2

    pixels = cv2.imread(str(path), cv2.IMREAD_UNCHANGED)
    if pixels is None:
        raise ValueError("the picture cannot be read back")
    if pixels.shape[1] > WIDTH:
        height = round(pixels.shape[0] * WIDTH / pixels.shape[1])
        pixels = cv2.resize(pixels, (WIDTH, height), interpolation=cv2.INTER_AREA)
    done, data = cv2.imencode(".webp", pixels, [cv2.IMWRITE_WEBP_QUALITY, 80])
    if not done:
        raise ValueError("the picture cannot be compressed")
    text = base64.b64encode(data.tobytes()).decode()
    alt = f"{game}, from left to right: {', '.join(columns)}"
    return Picture(name, game, columns, alt, f"data:image/webp;base64,{text}", pixels.shape[1], pixels.shape[0])


def clip_of(run: Path) -> tuple[Any, str]:
    """The clip figure of a run folder, and a sentence about what it shows."""
    data = clip_figure_data(run, steps=STATES)
    return draw_clip(data), data.sentence


def clip_drawing(study: Study, clip: Clip, notes: list[str]) -> tuple[Drawing, str] | None:
    """From the first finished run with one constraint that has such a state to show, in the order of constraints."""
    wanted = [r for c in ALL for r in study.runs if r.config.get("constraint") == c.name]
    why = ""
    for run in [r for r in wanted if r.state == "finished"][:TRIES]:
        try:
            figure, sentence = clip(run.path)
            title = f"With and without the clip of λ: {run.game}, seed {run.seed}"
            return finish(figure, "clip", title, sentence), f"{sentence} From {run.name}."
        except Exception as error:  # a run without its agent, a game that is not installed
            why = f"No clip figure of {run.name}: {error}"
    notes += [why] if why else []
    return None
