"""The page: one file with everything in it, and figures and tables as files beside it."""

import base64
import hashlib
import os
import tempfile
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any
from urllib.parse import quote

from dsacc import __version__
from dsacc.analysis.names import display_name
from dsacc.analysis.results import collect
from dsacc.analysis.summary import Summary
from dsacc.errors import ConfigError
from dsacc.system.files import write_atomically
from dsacc.system.text import duration, listed
from dsacc.system.trust import trusting
from dsacc.views.report import exports, figures, progress, reproduce, tables, verdict
from dsacc.views.report.answer import AUTHORS, TITLE, repeats
from dsacc.views.report.attachments import Attachments
from dsacc.views.report.drawing import RC, styles_of
from dsacc.views.report.figures import claim_track
from dsacc.views.report.films import films
from dsacc.views.report.gallery import Clip, clip_drawing, clip_of, weather
from dsacc.views.report.series import window_of
from dsacc.views.report.study import RunData, Study, read_study
from dsacc.views.report.view import make_view, pointed_out


def write_report(
    folder: str | Path, out: str | Path | None = None, clip: Clip = clip_of, *, alone: bool = False, trust: bool = False
) -> Path:
    """Write the page of `folder` to `out` (default: report.html in it), and its figures and tables into a folder beside
    it.

    `alone` writes only the page, without links to other files or to videos, so that it can be sent or published.
    `clip` draws the paper's clip figure of a run folder (default: `dsacc.views.insight.clip`). `trust` allows the
    folder to choose code: modules that its environments and encoders name are imported, to draw pictures. Without it, a
    game with such a name has none.
    """
    with trusting(trust):
        return _write(Path(folder), None if out is None else Path(out), clip, alone)


def _write(folder: Path, out: Path | None, clip: Clip, alone: bool) -> Path:
    import matplotlib

    out = out or folder / "report.html"
    if out.suffix.lower() not in (".html", ".htm") or out.is_dir():
        raise ConfigError(f"the report is an HTML file, so its name must end in .html; {out.name!r} does not")
    study = read_study(folder)
    if alone:
        with tempfile.TemporaryDirectory() as nowhere, matplotlib.rc_context(RC):
            content = _content(study, out, Attachments(Path(nowhere)), clip)
        write_atomically(out, _fill({**content, "files": "", "videos": [], "films": []}).encode())
        return out
    attachments = Attachments(out.with_name(f"{out.stem}_files"))
    with matplotlib.rc_context(RC):
        content = _content(study, out, attachments, clip)
    for drawing in content["drawings"]:
        attachments.write(f"figures/{drawing.name}.svg", drawing.svg)
        attachments.write(f"figures/{drawing.name}.png", drawing.png)
    write_atomically(out, _fill(content).encode())
    attachments.settle()
    return out


def _content(study: Study, out: Path, attachments: Attachments, clip: Clip) -> dict[str, Any]:
    notes = list(study.notes)
    found, said = collect(study.rows) if study.rows else ([], [])
    found.sort(key=lambda results: results.policy != "greedy")
    pairs = [(results, Summary(results)) for results in found]
    made = [verdict.claims(*pair) for pair in pairs]
    first = pointed_out(pairs[0][1].baseline, made[0]) if pairs else []
    styles = styles_of(study.agents, first)
    views = [make_view(i, *pair, made[i], study, styles) for i, pair in enumerate(pairs)]
    scores, multiplier = tables.all_scores(pairs) if pairs else None, tables.multiplier_table(study)
    claims = [(view.policy, claim) for view in views for made in view.claims.values() for claim in made]
    kept = {"verdict": exports.verdict_table(claims), "multiplier": multiplier, "runs": exports.run_table(study)}
    exports.write_tables(attachments, study, kept | ({"scores": scores} if scores else {}), pairs)
    slugs = _slugs(study.games)
    learning = progress.learning_figures(study, styles, slugs)
    checks = progress.check_figures(study, styles, slugs)
    diagnostics = progress.diagnostic_figures(study, styles, slugs)
    conditions = list(dict.fromkeys(c for results in found for c in results.conditions))
    pictures = weather(slugs, conditions, attachments.path / "figures", notes, study.folder)
    for picture in pictures:
        attachments.adopt(f"figures/{picture.name}.png")
    clipped = clip_drawing(study, clip, notes)
    drawn = [*learning.values(), *(d for some in checks.values() for d in some)]
    drawn += [d for _, some in diagnostics for d in some]
    drawn += [d for view in views for d in view.drawings]
    return {
        "study": study,
        "version": __version__,
        "files": quote(attachments.path.name),
        "views": views,
        "disagreements": verdict.disagreements({view.policy: view.claims for view in views}),
        "styles": styles,
        "begun": {r.agent for r in study.runs if r.metrics} | {row.agent for row in study.rows},
        "scores": tables.beneath_names(scores) if scores else None,
        "learning": learning,
        "checks": checks,
        "diagnostics": diagnostics,
        "multiplier": multiplier,
        "bars": any(d.name.startswith("multiplier-") for _, some in diagnostics for d in some),
        "few": figures.FEW,
        "window": window_of(study.runs),
        "clip": clipped,
        "pictures": pictures,
        "videos": [(v.stem, v.suffix.lower(), _link(v, out)) for v in study.videos],
        "films": [] if study.videos else films(study),
        "facts": _facts(study),
        "paper": (repeats(study.agents, study.games), TITLE, AUTHORS),
        "runs": [_run_line(run) for run in study.runs],
        "settings": reproduce.settings(study.runs),
        "versions": reproduce.versions(study.runs),
        "commands": _commands(study),
        "notes": [*said, *notes],
        "shown": display_name,
        "drawings": [*drawn, *([clipped[0]] if clipped else [])],
    }


def _facts(study: Study) -> list[tuple[str, str]]:
    """The study in a few figures."""
    finished = sum(bool(run.rows) for run in study.runs)
    steps = sorted({run.steps for run in study.runs if run.steps})
    seeds = len({run.seed for run in study.runs if run.seed is not None})
    seconds = [run.seconds for run in study.runs if run.seconds is not None]
    facts = [
        ("games" if len(study.games) > 1 else "game", _few(study.games)),
        ("agents" if len(study.agents) > 1 else "agent", _few([display_name(a) for a in study.agents])),
        ("seeds", str(seeds) if study.runs else ""),
        ("runs tested", f"{finished} of {len(study.runs)}" if study.runs else ""),
        ("agent steps", " to ".join(f"{s:,}" for s in dict.fromkeys([steps[0], steps[-1]])) if steps else ""),
        ("training time, all runs", duration(sum(seconds)) if seconds else ""),
    ]
    return [(name, value) for name, value in facts if value]


def _few(names: Sequence[str]) -> str:
    """The names where there are at most three, else their number."""
    return listed(names) if 0 < len(names) <= 3 else str(len(names))


def _run_line(run: RunData) -> dict[str, Any]:
    done, asked = (run.step, run.steps) if run.update is None else (run.update, run.updates)
    speed = done / run.seconds if run.seconds and done else None
    unit = "" if run.update is None else " updates"
    return {
        "run": run,
        "progress": f"{done:,}" + (f" of {asked:,}" if asked and asked != done else "") + unit,
        "hours": "" if run.seconds is None else duration(run.seconds),
        "speed": "" if speed is None else f"{speed:,.0f}",
        "missing": not run.rows,
        "command": reproduce.train_command(run),
    }


def _commands(study: Study) -> list[str]:
    grid = reproduce.grid_command(study)
    trained = [command for run in study.runs if (command := reproduce.train_command(run))]
    return [grid] if grid else [*dict.fromkeys(trained), *reproduce.test_commands(study)]


def _slugs(games: Sequence[str]) -> dict[str, str]:
    """A name for files and ids per game, all of them different."""
    slugs = {game: "".join(c if c.isascii() and c.isalnum() else "-" for c in game)[:50] for game in games}
    twice = {slug for slug in slugs.values() if list(slugs.values()).count(slug) > 1}
    return {game: f"{slug}-{i}" if slug in twice else slug for i, (game, slug) in enumerate(slugs.items())}


def _link(path: Path, out: Path) -> str:
    """A relative link from the page to a file, so that both can be moved together."""
    return quote(os.path.relpath(path.resolve(), out.resolve().parent).replace(os.sep, "/"))


def _fill(content: dict[str, Any]) -> str:
    """The template with all text escaped. Style and script are our own, and no other script may run."""
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    folder = resources.files("dsacc.views.report") / "templates"
    style, script = ((folder / name).read_text(encoding="utf-8") for name in ("style.css", "page.js"))
    seal = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.policies["json.dumps_kwargs"] = {"sort_keys": True, "separators": (",", ":")}
    environment.globals["drawn"] = lambda drawing: Markup(drawing.inline)
    environment.globals["track"] = lambda claim: Markup(claim_track(claim))
    template = environment.from_string((folder / "page.html").read_text(encoding="utf-8"))
    return template.render(**content, style=Markup(style), script=Markup(script), seal=seal)
