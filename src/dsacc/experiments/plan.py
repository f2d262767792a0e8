"""What an experiment consists of: runs, and how each is tested. Plain data, written to OUT/plan.json."""

import dataclasses
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import Any

from dsacc.config import AGENTS, EARLIER, Config, make_config
from dsacc.errors import BadInput, ConfigError, Damaged, RunError
from dsacc.system.files import write_atomically
from dsacc.system.seals import read_sealed, sealed

FORMAT = 1


@dataclass(frozen=True)
class Stage:
    """How students of runs are made once the runs are trained: the arguments of `dsacc.harden`, except its seed, which
    is the run's."""

    augment: tuple[str, ...]
    updates: int
    states: int
    rounds: int
    picture_filter: str | None = None  # of the student; None is the default of `harden`
    label: str = ""  # tells the students of one run apart in tables; does not change the student
    fresh: bool = False  # new weights in place of a copy of the run's; plans from before this key made copies

    @property
    def recipe(self) -> dict[str, Any]:
        """Everything that changes the student, by the names that `harden` has for it."""
        return {name: value for name, value in vars(self).items() if name != "label"}

    @property
    def identity(self) -> dict[str, Any]:
        """The recipe as the student's name is made of it. Copies that were made before keep their names."""
        return {name: value for name, value in self.recipe.items() if name != "fresh" or value}

    @property
    def title(self) -> str:
        """`hardened`, or `hardened (near)`."""
        return f"hardened ({self.label})" if self.label else "hardened"


@dataclass(frozen=True)
class Run:
    """One training run, and the students that are made of it. Its name follows from its settings, as with `dsacc
    train`. Steps, label, source and students do not count there, so that a run can grow and be given another label."""

    env: str  # the environment's own name, as config.json has it
    agent: str
    seed: int
    steps: int  # agent steps
    preset: str
    settings: Mapping[str, Any] = field(default_factory=dict)  # fields of Config over the preset
    label: str = ""  # the variant of the grid
    source: str = ""  # what makes the environment if its name does not: module:Id-v0
    harden: tuple[Stage, ...] = ()  # one student for each

    @cached_property
    def config(self) -> Config:
        """Its settings, laid over the preset and checked."""
        own = {"env": self.env, "constraint": AGENTS[self.agent], "seed": self.seed}
        return make_config(self.preset, **{**self.settings, **own})

    @cached_property
    def name(self) -> str:
        """The name of its folder."""
        return self.config.run_name

    @property
    def modules(self) -> tuple[str, ...]:
        """The names for which its process imports a module of the user's, `MODULE:name`: environment and encoder."""
        names = (self.source or self.env, str(self.settings.get("encoder", "")))
        return tuple(name for name in names if ":" in name)

    @property
    def title(self) -> str:
        """The agent as tables show it: `dsac-m`, or `dsac-m, no noise`."""
        return f"{self.agent}, {self.label}" if self.label else self.agent

    @property
    def students(self) -> tuple["Student", ...]:
        """What is made of it once it is trained."""
        return tuple(Student(self, stage) for stage in self.harden)

    @property
    def family(self) -> "tuple[Run | Student, ...]":
        """The run, then its students: everything that gets a folder and is tested."""
        return (self, *self.students)


@dataclass(frozen=True)
class Student:
    """The hardened agent that one stage makes of a run. It has a folder of its own beside the run's."""

    run: Run
    stage: Stage

    @property
    def name(self) -> str:
        """The name of its folder. It follows from the run, its steps and the recipe: a run that grows gets a new
        student, and the old one stays."""
        text = json.dumps([self.run.steps, self.stage.identity])
        return f"{self.run.name}-hardened-{hashlib.sha256(text.encode()).hexdigest()[:8]}"

    @property
    def agent(self) -> str:
        """The agent as its rows name it: `dsac-m, hardened`."""
        return f"{self.run.agent}, {self.stage.title}"

    @property
    def title(self) -> str:
        """The agent as tables show it, with the run's variant: `dsac-m, no noise, hardened`."""
        return f"{self.run.title}, {self.stage.title}"


@dataclass(frozen=True)
class Tests:
    """How every run is tested at its end and, with `every`, during training. Students are tested at their end."""

    __test__ = False  # pytest takes a class of this name for a test

    shifts: tuple[str, ...] = ("id",)
    severity: tuple[str | int, ...] = ("paper",)
    mode: str = "independent"
    episodes: int = 10  # full episodes per condition
    policy: tuple[str, ...] = ("greedy",)
    seed: int = 0
    every: int | None = None  # agent steps between tests during training; None tests only at the end
    every_shifts: tuple[str, ...] | None = None  # what of `shifts` is tested during training; None is all

    @property
    def conditions(self) -> int:
        """How many rows one test of a run gives."""
        shifted = sum(shift != "id" for shift in self.shifts)
        return (shifted * len(self.severity) + (len(self.shifts) - shifted)) * len(self.policy)

    @property
    def on_the_way(self) -> "Tests":
        """How a run is tested during training."""
        return self if self.every_shifts is None else dataclasses.replace(self, shifts=self.every_shifts)

    @property
    def key(self) -> str:
        """Changes when anything here does. What is not given is left out, so that a new field changes no key."""
        content = {k: v for k, v in dataclasses.asdict(self).items() if k != "every_shifts" or v is not None}
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Plan:
    """A grid written out: each run once, in order."""

    name: str
    runs: tuple[Run, ...]
    tests: Tests = Tests()
    notes: tuple[str, ...] = ()  # sentences for the user, about how the grid was read

    def __getitem__(self, name: str) -> Run:
        if name not in self.names:
            raise RunError(f"the plan {self.name!r} has no run {name!r}")
        return self.runs[self.names.index(name)]

    @property
    def names(self) -> list[str]:
        """The names of the runs' folders, in order."""
        return [run.name for run in self.runs]

    def fitting(self, patterns: Sequence[str]) -> set[str]:
        """The names of the runs whose name, followed by their label, fits one of the patterns (`*` is anything); of all
        runs where there is no pattern. A pattern that fits none is a ConfigError."""
        texts = {run.name: f"{run.name} {run.label}".strip() for run in self.runs}
        found = {pattern: {name for name, text in texts.items() if fnmatchcase(text, pattern)} for pattern in patterns}
        for pattern, names in found.items():
            if not names:
                one = next(iter(texts.values()))
                raise ConfigError(f"--only {pattern!r} fits no run; a run is written like {one!r}, and * is anything")
        return set().union(*found.values()) if found else set(texts)


def write_plan(plan: Plan, out: Path) -> None:
    """Write OUT/plan.json. The names are there for readers; what counts are the settings."""
    content = {
        "format": FORMAT,
        "name": plan.name,
        "tests": dataclasses.asdict(plan.tests),
        "runs": [_written(run) for run in plan.runs],
    }
    write_atomically(out / "plan.json", (json.dumps(sealed(content), indent=1) + "\n").encode())


def _written(run: Run) -> dict[str, Any]:
    content = {"name": run.name, **dataclasses.asdict(run)}
    students = [{"name": student.name, **dataclasses.asdict(student.stage)} for student in run.students]
    return {k: v for k, v in content.items() if k != "harden"} | ({"harden": students} if students else {})


def read_plan(out: Path) -> Plan:
    """The plan of an experiment's folder. A RunError says why it cannot be read."""
    path, content = out / "plan.json", read_plan_content(out)
    try:
        if content["format"] != FORMAT:
            raise RunError(f"{path} has format {content['format']}, and this version of dsacc reads {FORMAT}")
        runs = []
        for entry in content["runs"]:
            name, stages = entry.pop("name"), entry.pop("harden", [])
            run = _as_written(Run(**entry, harden=tuple(_stage(stage) for stage in stages)), name)
            if run is None:
                raise RunError(
                    f"{path} has a run {name} that this version of dsacc would name differently: a preset or a default "
                    "has changed; use the version that wrote it, or choose another --out"
                )
            runs.append(run)
        return Plan(str(content["name"]), tuple(runs), Tests(**_with_tuples(content["tests"])))
    except (KeyError, TypeError, AttributeError) as error:
        raise RunError(f"{path} is not a plan, or is damaged ({error!r}); choose another --out") from error
    except RunError:
        raise
    except BadInput as error:
        raise RunError(f"{path} cannot be used: {error}") from error


def _as_written(run: Run, name: str) -> Run | None:
    """The run with the settings for which it was given its name: where those of its preset have changed since, with the
    preset that keeps the earlier ones. None if no preset does."""
    for preset in (run.preset, *EARLIER.get(run.preset, ())):
        known = dataclasses.replace(run, preset=preset)
        if known.name == name:
            return known
    return None


def read_plan_content(out: Path) -> dict[str, Any]:
    """The JSON object in OUT/plan.json. A RunError says why it cannot be used."""
    try:
        return read_sealed(out / "plan.json")
    except Damaged as error:
        raise Damaged(f"{error}; delete it, and `dsacc experiment` with the same grid writes it again") from error


def _stage(entry: Mapping[str, Any]) -> Stage:
    return Stage(**{k: v for k, v in _with_tuples(entry).items() if k != "name"})


def _with_tuples(content: Mapping[str, Any]) -> dict[str, Any]:
    return {k: tuple(v) if isinstance(v, list) else v for k, v in content.items()}


def why_not_grown(old: Plan, new: Plan) -> str | None:
    """What `new` lacks of `old`, as part of a sentence; None if it has all of it, and perhaps more."""
    there = {run.name: run for run in new.runs}
    missing = [run for run in old.runs if run.name not in there]
    if missing:
        for name in [f.name for f in dataclasses.fields(Run) if f.name not in ("label", "source", "steps", "harden")]:
            before, after = ({json.dumps(getattr(r, name), default=dict) for r in plan.runs} for plan in (old, new))
            if not before <= after:
                return f"{name} {_listed(before)} there, {_listed(after)} here"
        return f"{missing[0].name} is there and not here"
    for run in old.runs:
        if there[run.name].steps < run.steps:
            return f"{run.steps:,} steps of {run.name} there, {there[run.name].steps:,} here"
        if lost := _lost_student(run, there[run.name]):
            return lost
    a, b = old.tests, new.tests
    for name in ("shifts", "severity", "policy"):
        before, after = ({str(x) for x in getattr(tests, name)} for tests in (a, b))
        if not before <= after:
            return f"tests.{name} {_listed(before)} there, {_listed(after)} here"
    for name in ("mode", "seed", "every", "every_shifts"):
        if getattr(a, name) != getattr(b, name):
            return f"tests.{name} {getattr(a, name)} there, {getattr(b, name)} here"
    if b.episodes < a.episodes:
        return f"tests.episodes {a.episodes} there, {b.episodes} here"
    return None


def _lost_student(old: Run, new: Run) -> str | None:
    """A student that `old` has and `new` has not, as part of a sentence."""
    for stage in [stage for stage in old.harden if stage.recipe not in [s.recipe for s in new.harden]]:
        same = next((s for s in new.harden if s.label == stage.label), None)
        if same is None:
            return f"{old.name}, {stage.title} is there and not here"
        for name in stage.recipe | same.recipe:
            before, after = getattr(stage, name), getattr(same, name)
            if before != after:
                return f"harden.{name} {_said(before)} there, {_said(after)} here"
    return None


def _said(value: Any) -> str:
    return " ".join(value) if isinstance(value, tuple) else "not given" if value is None else str(value)


def _listed(values: Any) -> str:
    return " ".join(sorted(v.strip('"') for v in values))
