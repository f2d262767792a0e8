"""A study as plain data: what is in a folder, read once. What is missing or odd is set aside, and said.

A folder may come from anyone and from a run that was killed: nothing in it is trusted to be whole, of the right type or
printable, and no name in it is followed out of the folder.
"""

import dataclasses
import json
import warnings
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dsacc.analysis.references import game_name
from dsacc.errors import RunError
from dsacc.experiments.status import Standing, read_standings
from dsacc.play.store import read_rows
from dsacc.system.files import read_json
from dsacc.system.text import printable
from dsacc.views.report.files import Row, as_dict, is_whole, read_numbers, sound_rows, total_seconds

NOT_SETTINGS = ("env", "seed", "constraint", "log_every", "checkpoint_every")  # do not make an agent another one
VIDEOS = (".mp4", ".webm", ".gif")
_SHIFTS = ("id", "snow", "rain", "fog")
_AGENTS = ("dsac", "dsac-m", "dsac-v", "dsac-mv")


@dataclass(frozen=True)
class RunData:
    """One run, as far as its files tell."""

    name: str
    path: Path
    game: str
    agent: str  # as the page shows it: a variant is an agent of its own
    seed: int | None
    state: str  # see dsacc.experiments.status
    step: int
    steps: int | None  # asked for
    error: str | None
    config: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)  # and device, threads
    metrics: list[dict[str, float]] = field(default_factory=list)  # numbers alone, by rising step
    seconds: float | None = None  # of training
    rows: list[Row] = field(default_factory=list)  # tests of the trained agent
    checks: list[Row] = field(default_factory=list)  # all tests whose step is known, those on the way among them
    source: str = ""  # what makes the environment where that is not its name: module:Id-v0


@dataclass(frozen=True)
class Study:
    """Everything that a page is made of."""

    folder: Path
    name: str
    runs: list[RunData]
    rows: list[Row]  # of all finished runs, and of players that have none, such as random
    notes: list[str]  # what was set aside
    videos: list[Path]
    planned: bool = False  # there is a plan.json

    @property
    def agents(self) -> list[str]:
        found = dict.fromkeys([*(r.agent for r in self.runs), *(str(row["agent"]) for row in self.rows)])
        return sorted(found, key=lambda a: _AGENTS.index(a) if a in _AGENTS else len(_AGENTS))

    @property
    def games(self) -> list[str]:
        return sorted({r.game for r in self.runs} | {game_name(str(row["env"])) for row in self.rows})

    @property
    def checked(self) -> list[tuple[str, str, str]]:
        """Game, condition and policy of tests that were made at several steps of a run."""
        found: dict[tuple[str, str, str], None] = {}
        for run in self.runs:
            steps: dict[tuple[str, str, str], set[int]] = {}
            for row in run.checks:
                steps.setdefault((run.game, condition_of(row), row["policy"]), set()).add(row["step"])
            found |= dict.fromkeys(key for key, seen in steps.items() if len(seen) > 1)
        return sorted(found, key=lambda key: (key[0], key[1] != "clean", key[1], key[2]))

    @property
    def missing(self) -> list[RunData]:
        """Runs that are in no table."""
        return [run for run in self.runs if not run.rows]


def in_order(shifts: Iterable[str]) -> list[str]:
    """Each once: the clean screen, the paper's, then others as they come."""
    return sorted(dict.fromkeys(shifts), key=lambda shift: _SHIFTS.index(shift) if shift in _SHIFTS else len(_SHIFTS))


def condition_of(row: Row) -> str:
    """`clean`, `snow paper independent`: what a test was shown, in words."""
    if row["shift"] == "id":
        return "clean"
    return " ".join(str(row[key]) for key in ("shift", "severity", "mode", "where") if row.get(key) is not None)


def read_study(folder: Path) -> Study:
    """Of an experiment, a demo, a folder of runs, or one run."""
    folder = Path(folder)
    notes: list[str] = []
    plan = _plan(folder, notes)
    standings, root = _standings(folder, bool(plan), notes)
    planned = {entry["name"]: entry for entry in plan.get("runs", [])}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        runs = [_run(s, root / s.run if root else folder, planned.get(s.run, {}), notes) for s in standings]
        others = sound_rows(read_rows(folder / "evaluations"), notes) if root is not None else []
    notes += [printable(w.message) for w in caught]
    runs = _told_apart(runs) if not plan else runs
    rows = [row for run in runs for row in run.rows] + others
    if not rows:
        rows = _collected(folder, notes)
    videos = sorted(p for p in (folder / "videos").glob("*") if p.suffix.lower() in VIDEOS and p.is_file())
    name = printable(plan.get("name") or folder.resolve().name)
    return Study(folder, name, runs, rows, list(dict.fromkeys(notes)), videos, bool(plan))


def _plan(folder: Path, notes: list[str]) -> dict[str, Any]:
    """plan.json as far as it can be used; its runs are dicts with a name that stays in the folder."""
    path = folder / "plan.json"
    if not path.is_file():
        return {}
    try:
        plan = read_json(path)
        runs = [r for r in plan["runs"] if isinstance(r, dict) and isinstance(r.get("name"), str)]
    except (RunError, KeyError, TypeError) as error:
        notes.append(f"plan.json cannot be used, so runs that were planned and never began are not known: {error}")
        return {}
    return {**plan, "runs": [r for r in runs if Path(r["name"]).name == r["name"]]}


def _standings(folder: Path, planned: bool, notes: list[str]) -> tuple[list[Standing], Path | None]:
    """How the runs stand, and the folder that they are in; None for a run by itself."""
    if not planned and (folder / "plan.json").is_file() and (folder / "runs").is_dir():
        folder = folder / "runs"
        return read_standings(folder), folder
    try:
        found = read_standings(folder)
    except RunError:
        if (folder / "results.json").is_file():
            notes.append("There are results and no runs: nothing is known of training.")
            return [], folder
        raise
    if planned:
        return [s for s in found if Path(s.run).name == s.run], folder / "runs"
    if (folder / "config.json").is_file() or (folder / "status.json").is_file():
        return found, None
    return found, folder / "runs" if (folder / "runs").is_dir() else folder


def _run(standing: Standing, path: Path, planned: dict[str, Any], notes: list[str]) -> RunData:
    name = printable(standing.run)
    content: dict[str, Any] = {}
    if path.is_dir():
        try:
            content = read_json(path / "config.json")
        except RunError as error:
            notes.append(f"{name}: {error}")
    config, runtime, versions = (as_dict(content.get(key)) for key in ("config", "runtime", "versions"))
    agent = printable(content.get("agent") or planned.get("agent") or "unknown agent", 80)
    label = printable(planned.get("label") or "", 80)
    env = printable(config.get("env") or planned.get("env") or "unknown game", 80)
    seed = config.get("seed", planned.get("seed"))
    title = f"{agent}, {label}" if label else agent
    found = [{**row, "agent": title, "run": name} for row in sound_rows(read_rows(path / "evaluations"), notes)]
    tested = [row for row in found if standing.steps is None or row["step"] == standing.steps]
    if not tested and any((path / "evaluations").glob("*.json")):
        notes.append(f"{name} was tested, but not when it was trained to its end: those tests are in no table.")
    metrics, damaged = read_numbers(path / "metrics.jsonl")
    if damaged:
        notes.append(f"{name}: {damaged} damaged lines of metrics.jsonl were left out.")
    return RunData(
        name=name,
        path=path,
        game=game_name(env),
        agent=title,
        seed=seed if is_whole(seed) else None,
        state=standing.state,
        step=standing.step,
        steps=standing.steps,
        error=printable(standing.error) if standing.error else None,
        config=config,
        versions={printable(k): printable(v, 80) for k, v in {**versions, **runtime}.items()},
        metrics=metrics,
        seconds=total_seconds(read_numbers(path / "timing.jsonl")[0]),
        rows=tested,
        checks=[row for row in found if row["step"] is not None],
        source=printable(planned.get("source") or "", 80),
    )


def _told_apart(runs: list[RunData]) -> list[RunData]:
    """Without a plan there are no labels: runs of one agent in one game with other settings are named by these, so
    that nobody averages them."""
    differing: dict[str, list[str]] = {}
    for agent in {run.agent for run in runs}:
        for game in {run.game for run in runs}:
            configs = [r.config for r in runs if (r.agent, r.game) == (agent, game) and r.config]
            names = dict.fromkeys(name for c in configs for name in c if name not in NOT_SETTINGS)
            found = [n for n in names if len({repr(c.get(n)) for c in configs}) > 1]
            differing[agent] = list(dict.fromkeys([*differing.get(agent, []), *found]))

    def named(run: RunData) -> RunData:
        words = [run.agent, *(printable(f"{n} {run.config.get(n)}", 60) for n in differing[run.agent])]
        title = ", ".join(words)
        return dataclasses.replace(run, agent=title, rows=[{**row, "agent": title} for row in run.rows])

    return [named(run) for run in runs]


def _collected(folder: Path, notes: list[str]) -> list[Row]:
    """results.json, for a folder whose runs are elsewhere."""
    with suppress(OSError, ValueError, RecursionError):
        content = json.loads((folder / "results.json").read_text(encoding="utf-8"))
        rows = sound_rows([r for r in content if isinstance(r, dict)] if isinstance(content, list) else [], notes)
        last = {(r["env"], r["agent"], r.get("variant"), r["train_seed"]): r["step"] or 0 for r in rows}
        for r in rows:
            key = (r["env"], r["agent"], r.get("variant"), r["train_seed"])
            last[key] = max(last[key], r["step"] or 0)
        final = [r for r in rows if (r["step"] or 0) == last[r["env"], r["agent"], r.get("variant"), r["train_seed"]]]
        return [{**r, "agent": f"{r['agent']}, {r['variant']}" if r.get("variant") else r["agent"]} for r in final]
    return []
