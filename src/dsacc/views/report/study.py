"""A study: everything in a folder that a page needs, read once. What is missing or damaged is left out and noted.

A folder may come from anyone, or from a run that was killed. Nothing in it is trusted to be complete, of the right type
or printable, and no name in it is followed out of the folder.
"""

import dataclasses
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dsacc.agent.constraints import with_current_keys
from dsacc.analysis.names import in_agent_order, split_name, with_label
from dsacc.analysis.references import game_name
from dsacc.analysis.rows import Row, final_rows, is_whole
from dsacc.analysis.variants import Contender, made_with, told_apart
from dsacc.config import Config
from dsacc.envs.record import is_record
from dsacc.errors import Damaged, RunError, Unchecked
from dsacc.experiments.status import Standing, read_standings
from dsacc.play.store import read_row_file, read_rows
from dsacc.system.seals import read_sealed
from dsacc.system.text import printable
from dsacc.views.report.logs import read_logs, total_seconds

VIDEOS = (".mp4", ".webm", ".gif")

_DEFAULTS = {f.name: f.default for f in dataclasses.fields(Config)}  # of settings that came after a run


@dataclass(frozen=True)
class RunData:
    """One run, as far as its files tell about it."""

    name: str
    path: Path
    game: str
    agent: str  # as the page names it: a variant counts as an agent of its own
    seed: int | None
    state: str  # see dsacc.experiments.status
    step: int
    steps: int | None  # asked for
    error: str | None
    config: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)  # and device, threads
    metrics: list[dict[str, float]] = field(default_factory=list)  # only numbers, by rising step
    seconds: float | None = None  # of training
    rows: list[Row] = field(default_factory=list)  # tests of the trained agent
    checks: list[Row] = field(default_factory=list)  # all tests whose step is known, also those during training
    source: str = ""  # module:Id-v0, where a module must be imported to make the environment
    hardened: dict[str, Any] = field(default_factory=dict)  # how it was made, where it is a student
    environment: dict[str, Any] = field(default_factory=dict)  # a record of dsacc.envs.record
    teacher: str = ""  # the run that it is a student of, where a plan says so
    update: int | None = None  # of a student
    updates: int | None = None  # asked for


@dataclass(frozen=True)
class Study:
    """Everything that goes into a page."""

    folder: Path
    name: str
    runs: list[RunData]
    rows: list[Row]  # of all finished runs, and of players without a run, such as random
    notes: list[str]  # what was left out
    videos: list[Path]
    planned: bool = False  # there is a plan.json

    @property
    def agents(self) -> list[str]:
        return in_agent_order([*(r.agent for r in self.runs), *(row.agent for row in self.rows)])

    @property
    def games(self) -> list[str]:
        return sorted({r.game for r in self.runs} | {game_name(row.env) for row in self.rows})

    @property
    def checked(self) -> list[tuple[str, str, str]]:
        """Game, condition and policy of the tests that a run was given at several steps."""
        found: dict[tuple[str, str, str], None] = {}
        for run in self.runs:
            steps: dict[tuple[str, str, str], set[int]] = {}
            for row in run.checks:
                steps.setdefault((run.game, row.condition.words, row.policy), set()).add(row.step or 0)
            found |= dict.fromkeys(key for key, seen in steps.items() if len(seen) > 1)
        return sorted(found, key=lambda key: (key[0], key[1] != "clean", key[1], key[2]))

    @property
    def missing(self) -> list[RunData]:
        """Runs that are in no table."""
        return [run for run in self.runs if not run.rows]


def read_study(folder: Path) -> Study:
    """Read the folder of an experiment, of a demo, of several runs, or of one run."""
    folder = Path(folder)
    notes: list[str] = []
    plan = _plan(folder, notes)
    standings, root = _standings(folder, bool(plan), notes)
    planned = {entry["name"]: entry for entry in plan.get("runs", [])}
    unsure: list[str] = []  # runs whose logs carry no checksum
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        entries = [planned.get(s.teacher or s.run, {}) for s in standings]  # a student has its teacher's
        paths = [root / s.run if root else folder for s in standings]
        runs = [_run(s, path, entry, notes, unsure) for s, path, entry in zip(standings, paths, entries, strict=True)]
        others = _printable(read_rows(folder / "evaluations")) if root is not None else []
        rows = [row for run in runs for row in run.rows] + others or _collected(folder)
    notes += [printable(w.message) for w in caught if not isinstance(w.message, Unchecked)]
    notes += _unchecked(folder, sum(w.message.count for w in caught if isinstance(w.message, Unchecked)), unsure)
    runs = _told_apart(runs) if not plan else runs
    rows = [row for run in runs for row in run.rows] + others or rows
    videos = sorted(p for p in (folder / "videos").glob("*") if p.suffix.lower() in VIDEOS and p.is_file())
    name = printable(plan.get("name") or folder.resolve().name)
    return Study(folder, name, runs, rows, list(dict.fromkeys(notes)), videos, bool(plan))


def _plan(folder: Path, notes: list[str]) -> dict[str, Any]:
    """The parts of plan.json that can be used. Its runs are dicts with a name that stays inside the folder."""
    path = folder / "plan.json"
    if not path.is_file():
        return {}
    try:
        plan = read_sealed(path)
        runs = [r for r in plan["runs"] if isinstance(r, dict) and isinstance(r.get("name"), str)]
    except (RunError, KeyError, TypeError) as error:
        notes.append(f"plan.json cannot be used, so runs that were planned and never started are not shown: {error}")
        return {}
    return {**plan, "runs": [r for r in runs if Path(r["name"]).name == r["name"]]}


def _standings(folder: Path, planned: bool, notes: list[str]) -> tuple[list[Standing], Path | None]:
    """How the runs stand, and the folder that they are in, which is None for a run by itself."""
    if not planned and (folder / "plan.json").is_file() and (folder / "runs").is_dir():
        folder = folder / "runs"
        return read_standings(folder), folder
    try:
        found = read_standings(folder)
    except RunError:
        if (folder / "results.json").is_file():
            notes.append("There are results but no runs: nothing is known about the training.")
            return [], folder
        raise
    if planned:
        return [s for s in found if Path(s.run).name == s.run], folder / "runs"
    if (folder / "config.json").is_file() or (folder / "status.json").is_file():
        return found, None
    return found, folder / "runs" if (folder / "runs").is_dir() else folder


def _unchecked(folder: Path, rows: int, logs: list[str]) -> list[str]:
    """What is shown without having been checked. Rows are also told to whoever made the page."""
    if rows:
        warnings.warn(Unchecked(rows, folder), stacklevel=3)
    notes = [f"{Unchecked.sentence(rows)}."] if rows else []
    if logs:
        runs = "1 run was" if len(logs) == 1 else f"{len(logs):,} runs were"
        notes.append(f"The metrics of {runs} written before dsacc kept their sha256, and are shown unchecked.")
    return notes


def _run(standing: Standing, path: Path, planned: dict[str, Any], notes: list[str], unsure: list[str]) -> RunData:
    name = printable(standing.run)
    content: dict[str, Any] = {}
    if path.is_dir():
        try:
            content = read_sealed(path / "config.json")
        except RunError as error:
            notes.append(f"{name}: {error}")
    config, runtime, versions = (_as_dict(content.get(key)) for key in ("config", "runtime", "versions"))
    notes += [f"{name} warned: {printable(sentence)}." for sentence in standing.warnings]
    agent = printable(content.get("agent") or planned.get("agent") or "unknown agent", 80)
    label = printable(planned.get("label") or "", 80)
    env = printable(config.get("env") or planned.get("env") or "unknown game", 80)
    seed = config.get("seed", planned.get("seed"))
    rows = _printable(read_rows(path / "evaluations"))
    title = _title(with_label(agent, label), rows)
    found = _named(title, rows)
    tested = final_rows(found, standing.steps)
    if not tested and any((path / "evaluations").glob("*.json")):
        notes.append(f"{name} was tested, but not at the end of its training: those tests are in no table.")
    metrics, timing = read_logs(path, name, notes, unsure)
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
        metrics=[with_current_keys(config.get("constraint"), row) for row in metrics],
        seconds=total_seconds(timing),
        rows=tested,
        checks=[row for row in found if row.step is not None and row.agent == title],
        source=printable(planned.get("source") or "", 80),
        hardened=_as_dict(content.get("hardened")),
        environment=content["environment"] if is_record(content.get("environment")) else {},
        teacher=printable(standing.teacher or ""),
        update=standing.update,
        updates=standing.updates,
    )


def _title(agent: str, rows: list[Row]) -> str:
    """The name of a run's agent. Where all its tests are those of one hardened agent, that is what the run holds."""
    added = {split_name(row.agent)[1] for row in rows}
    return agent + (added.pop() if len(added) == 1 and not split_name(agent)[1] else "")


def _named(title: str, rows: list[Row]) -> list[Row]:
    """The rows of a run under its name. Where a folder has tests of its agent before and after hardening, they stay
    apart."""
    first = split_name(title)[0]
    return [dataclasses.replace(row, agent=first + split_name(row.agent)[1]) for row in rows]


def _told_apart(runs: list[RunData]) -> list[RunData]:
    """Without a plan there are no labels. Runs of one agent in one game with different settings get these settings as a
    part of their name, so that they are not averaged."""

    def named(run: RunData, title: str) -> RunData:
        return dataclasses.replace(run, agent=title, rows=_named(title, run.rows), checks=_named(title, run.checks))

    def tested(run: RunData) -> Contender:
        steps = None if run.hardened else run.steps  # of a student, these are updates, which are in its recipe
        settings = made_with({**_DEFAULTS, **run.config}, run.environment, steps) if run.config else {}
        return Contender(run.agent, run.game, settings, run.hardened)

    titles = told_apart([tested(run) for run in runs])
    return [named(run, title) for run, title in zip(runs, titles, strict=True)]


def _collected(folder: Path) -> list[Row]:
    """The rows of results.json, for a folder whose runs are elsewhere."""
    path = folder / "results.json"
    found = read_row_file(path)
    if found.problems:
        what = "the same `dsacc experiment` writes it again; or delete it, to go on without it"
        raise Damaged(printable(f"{path} is damaged: {found.problems[0]}; {what}"))
    if found.unchecked:
        warnings.warn(Unchecked(found.unchecked, path), stacklevel=2)
    rows = final_rows(_printable(found.rows))
    return [dataclasses.replace(row, agent=with_label(row.agent, row.variant or "")) for row in rows]


def _printable(rows: list[Row]) -> list[Row]:
    """The rows with texts that can be shown."""

    def clean(row: Row) -> Row:
        texts: dict[str, Any] = {k: printable(v, 80) for k, v in vars(row).items() if isinstance(v, str)}
        return dataclasses.replace(row, **texts)

    return [clean(row) for row in rows]


def _as_dict(value: Any) -> dict[str, Any]:
    return {printable(k, 60): v for k, v in value.items()} if isinstance(value, dict) else {}
