"""Videos of a study, made as by `dsacc watch`: each agent in each game, under the conditions of its tests."""

import shlex
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dsacc.analysis.names import in_shift_order
from dsacc.errors import DsaccError, RunError
from dsacc.system.trust import may_import
from dsacc.views.report.study import RunData, Study
from dsacc.views.watch import watch
from dsacc.views.watch.film import has_ffmpeg

MOST = 4  # conditions of one video, side by side
STEPS = 300  # agent steps of a game that are shown


@dataclass(frozen=True)
class Film:
    """A video that can be made: one trained agent under up to four conditions."""

    run: RunData
    shifts: tuple[str, ...]
    severity: str
    mode: str
    name: str  # of its file, without the ending

    @property
    def command(self) -> str:
        words = ["dsacc", "watch", f"runs/{self.run.name}", "--shifts", *self.shifts, "--severity", self.severity]
        words += ["--mode", self.mode]
        return shlex.join([*words, "--max-steps", str(STEPS), "--out", f"videos/{self.name}.mp4"])


def films(study: Study) -> list[Film]:
    """One per game and agent, of its first tested run; more where there are more than four conditions."""
    found: dict[tuple[str, str], list[Film]] = {}
    for run in sorted(study.runs, key=lambda run: -1 if run.seed is None else run.seed):
        if not run.rows or (run.game, run.agent) in found or not may_import(str(run.config.get("env"))):
            continue  # the command would be refused
        shifts = in_shift_order(row.shift for row in run.rows)
        levels = list(dict.fromkeys(str(row.severity) for row in run.rows if row.severity is not None))
        level = "paper" if "paper" in levels or not levels else levels[len(levels) // 2]
        mode = next((row.mode for row in run.rows if row.mode is not None), "independent")
        parts = [tuple(shifts[i : i + MOST]) for i in range(0, len(shifts), MOST)]
        ends = [f"-{i + 1}" if len(parts) > 1 else "" for i in range(len(parts))]
        stem = "".join(c if c.isascii() and c.isalnum() else "-" for c in f"{run.game}-{run.agent}")[:80]
        found[run.game, run.agent] = [
            Film(run, part, level, mode, f"{stem}-s{run.seed}{end}") for part, end in zip(parts, ends, strict=True)
        ]
    order = {agent: i for i, agent in enumerate(study.agents)}
    return [film for key in sorted(found, key=lambda key: (key[0], order[key[1]])) for film in found[key]]


def shoot(study: Study, say: Callable[[str], None], camera: Callable[..., Any] = watch) -> None:
    """Make the videos that are not there yet. Where one cannot be made, say why and make the others."""
    folder = study.folder / "videos"
    for film in films(study):
        if any(path.stem == film.name for path in study.videos):
            continue
        out = folder / f"{film.name}{'.mp4' if has_ffmpeg() else '.gif'}"
        say(f"video: {out.name}")
        try:
            if folder.is_symlink():
                raise RunError(f"{folder} is a link, and links are not followed")
            folder.mkdir(exist_ok=True)
            how = {"shifts": list(film.shifts), "severity": film.severity, "mode": film.mode, "max_steps": STEPS}
            camera(film.run.path, out=out, **how)
        except (DsaccError, ValueError, OSError) as error:
            say(f"no video of {film.run.name}: {error}")
