"""Grids: small TOML files that describe games x agents x variants x seeds.

```toml
envs = ["Breakout", "UpNDown"]
agents = ["dsac", "dsac-m"]
seeds = 3                       # 0, 1, 2; or a list
steps = 100_000
preset = "efficient"            # default: efficient for pictures, else classic
order = "seeds"                 # default: variants, one after the other; seeds: everything with the first seed first
[settings]                      # fields of dsacc.config.Config, for all runs
n_step = 5
[[variants]]                    # each variant repeats the grid with other settings; an empty one changes nothing
[[variants]]
label = "no noise"
agents = ["dsac-m"]             # default: all agents of the grid
settings = { perturbation = "none" }
settings_by_env = { Breakout = { gamma = 0.98 }, UpNDown = {} }  # over them, for each of envs
harden = false                  # no students of this variant; default: as [harden] says
[harden]                        # makes a student of each run with dsacc.harden; [[harden]] makes several
augment = "generic"             # also: updates, states, rounds, picture_filter, fresh, agents, label
[tests]
shifts = ["id", "snow"]         # also: severity, mode, episodes, policy, seed, every, every_shifts
```
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from dsacc.config import PRESETS, Config, field_type
from dsacc.errors import BadInput, ConfigError, RunError
from dsacc.experiments.builtin import builtin_names as builtin_names
from dsacc.experiments.builtin import builtin_text
from dsacc.experiments.checks import Checks, hint
from dsacc.experiments.facts import EnvFacts, facts_of
from dsacc.experiments.plan import Plan, Run, Tests
from dsacc.experiments.stages import read_stages, stages_of
from dsacc.shifts import find_kind
from dsacc.system.files import read_file
from dsacc.system.plain import MAX_GRID, NotPlain, parse_toml
from dsacc.system.text import listed
from dsacc.system.types import MODES, POLICIES

KEYS = ("envs", "agents", "seeds", "steps", "preset", "order", "settings", "variants", "harden", "tests")
ORDERS = ("variants", "seeds")
VARIANT_KEYS = ("label", "agents", "settings", "settings_by_env", "harden")
TEST_KEYS = tuple(f.name for f in fields(Tests))
_MAY_BE_NONE = {f.name for f in fields(Config) if field_type(f)[1]}  # written "none": TOML has no null
OWN_KEYS = {"env": "envs", "constraint": "agents", "seed": "seeds"}  # fields of Config -> the grid's own keys


@dataclass(frozen=True)
class Overrides:
    """What the command line gives in place of the file's own values."""

    envs: Sequence[str] | None = None
    agents: Sequence[str] | None = None
    seeds: int | None = None
    steps: int | None = None
    preset: str | None = None

    def given(self) -> dict[str, Any]:
        """What was given, by the grid's keys."""
        return {k: list(v) if isinstance(v, tuple) else v for k, v in vars(self).items() if v is not None}


def load_plan(source: str | Path, overrides: Overrides | None = None) -> Plan:
    """A plan from a built-in grid, by name, or a TOML file. A mistake is one sentence with the file and the key."""
    text, where, name = _text(source)
    try:
        content = parse_toml(text)
    except NotPlain as error:
        raise ConfigError(f"{where} is not TOML: {error}") from error
    given = {} if overrides is None else overrides.given()
    return _Reader(where, {**content, **given}, given).plan(name)


def _text(source: str | Path) -> tuple[str | bytes, str, str]:
    """The grid's text, what messages call it, and the plan's name."""
    path = Path(source)
    if str(source) in builtin_names():
        return builtin_text(str(source)), f"the grid {str(source)!r}", str(source)
    if path.suffix != ".toml":
        known = hint(str(source), builtin_names(), ", or give a .toml file")
        raise ConfigError(f"there is no grid {str(source)!r}; {known}")
    try:
        return read_file(path, MAX_GRID, links=True), str(path), path.stem
    except RunError as error:
        raise ConfigError(str(error)) from error


class _Reader(Checks):
    """Turns the content of one file into a plan."""

    def __init__(self, where: str, content: Mapping[str, Any], given: Mapping[str, Any]) -> None:
        super().__init__(where, given)
        self.content = content

    def plan(self, name: str) -> Plan:
        content = self.content
        self.known(content, KEYS, "")
        envs, agents = self.texts(content, "envs", "", None), self.texts(content, "agents", "", None)
        self.agents(agents, "agents")
        steps = self.whole(content, "steps", "", None, 1)
        preset = content.get("preset")
        if preset is not None and preset not in PRESETS:
            raise self.wrong("preset", f"must be one of {', '.join(PRESETS)}, not {preset!r}")
        order = content.get("order", ORDERS[0])
        if order not in ORDERS:
            raise self.wrong("order", f"must be one of {', '.join(ORDERS)}, not {order!r}")
        settings = self._settings(content, "settings")
        tests = self._tests(content.get("tests", {}))
        games = [self._facts(env, tests) for env in envs]
        stages = read_stages(self, content.get("harden", []), [game.name for game in games if not game.is_image])
        runs: dict[str, Run] = {}
        notes = []
        for variant in self._variants(envs):  # outermost, so that controls, the last of a file, come after all games
            for game in games:
                for agent in [a for a in agents if a in (variant.get("agents") or agents)]:
                    for seed in self._seeds():
                        run = Run(
                            game.name, agent, seed, steps, preset or game.preset,
                            {**settings, **variant["settings"], **variant["by_env"].get(game.source, {})},
                            variant.get("label", ""),
                            "" if game.source == game.name else game.source,
                            stages_of(agent, stages) if variant.get("harden", True) else (),
                        )  # fmt: skip
                        self._check(run)
                        if (same := runs.setdefault(run.name, run)) is not run:
                            notes.append(f"{_called(run)} has the settings of {_called(same)}; they are run once")
        if not runs:
            raise ConfigError(f"{self.where} has no runs, because no variant is for {', '.join(agents)}")
        if stages and not any(run.harden for run in runs.values()):
            any_variant = any(variant.get("harden", True) for variant in self._variants(envs))
            why = f"harden is not for {listed(agents)}" if any_variant else "every variant has harden = false"
            notes.append(f"no run is hardened, because {why}")
        ordered, seeds = list(runs.values()), self._seeds()
        if order == "seeds":
            ordered.sort(key=lambda run: seeds.index(run.seed))  # stable: within a seed the order stays
        return Plan(name, tuple(ordered), tests, tuple(notes))

    # --- parts ---

    def _seeds(self) -> list[int]:
        seeds = self.content.get("seeds", 1)
        if isinstance(seeds, int) and not isinstance(seeds, bool) and seeds >= 1:
            return list(range(seeds))
        fine = isinstance(seeds, list) and seeds and all(type(s) is int and s >= 0 for s in seeds)
        if not fine or len(set(seeds)) != len(seeds):
            what = f"must be a number of seeds, or a list of different ones from 0 up, not {seeds!r}"
            raise self.wrong("seeds", what)
        return list(seeds)

    def _variants(self, envs: Sequence[str]) -> list[dict[str, Any]]:
        """The variants with their settings, and `by_env` for those of single environments."""
        variants = self.content.get("variants", [{}])
        if not isinstance(variants, list) or not variants or not all(isinstance(v, dict) for v in variants):
            raise self.wrong("variants", "must be written as [[variants]], once for each variant")
        read = []
        for i, variant in enumerate(variants, start=1):
            at = f"variants[{i}]."
            if variant:
                self.known(variant, VARIANT_KEYS, at)
                if not isinstance(variant.get("label"), str) or not variant["label"].strip():
                    raise self.wrong(f"{at}label", "must be a text that names the variant")
                if "agents" in variant:
                    self.agents(self.texts(variant, "agents", at, None), f"{at}agents")
                if not isinstance(variant.get("harden", True), bool):
                    raise self.wrong(f"{at}harden", f"must be true or false, not {variant['harden']!r}")
            own = {"settings": self._settings(variant, f"{at}settings"), "by_env": self._by_env(variant, at, envs)}
            read.append({**variant, **own})
        labels = [v.get("label") for v in variants]
        if len(set(labels)) != len(labels):
            raise self.wrong("variants", "has two variants with the same label")
        return read

    def _by_env(self, variant: Mapping[str, Any], at: str, envs: Sequence[str]) -> dict[str, dict[str, Any]]:
        """Settings for each environment of the grid, where a variant has them. Those for others are left alone: the
        command line may have chosen fewer."""
        if "settings_by_env" not in variant:
            return {}
        key, table = f"{at}settings_by_env", variant["settings_by_env"]
        if not isinstance(table, dict):
            raise self.wrong(key, f"must be a table with the settings for each of envs, not {table!r}")
        if missing := [env for env in envs if env not in table]:
            raise self.wrong(key, f"has no settings for {missing[0]}")
        return {env: self._settings({"settings": table[env]}, f"{key}.{env}") for env in envs}

    def _settings(self, table: Mapping[str, Any], at: str) -> dict[str, Any]:
        settings = table.get("settings", {})
        if not isinstance(settings, dict):
            raise self.wrong(at, f"must be a table of settings, not {settings!r}")
        for name, key in OWN_KEYS.items():
            if name in settings:
                raise self.wrong(f"{at}.{name}", f"is not a setting here; use {key} instead")
        return {k: None if v == "none" and k in _MAY_BE_NONE else v for k, v in settings.items()}

    def _tests(self, table: Any) -> Tests:
        if not isinstance(table, dict):
            raise self.wrong("tests", "must be a table, [tests]")
        self.known(table, TEST_KEYS, "tests.")
        severities = table.get("severity", ["paper"])
        severities = severities if isinstance(severities, list) else [severities]
        if not severities or not all(s == "paper" or (type(s) is int and 1 <= s <= 5) for s in severities):
            what = f"must be 'paper', 1 to 5, or a list of these, not {table['severity']!r}"
            raise self.wrong("tests.severity", what)
        mode = table.get("mode", "independent")
        if mode not in MODES:
            raise self.wrong("tests.mode", f"must be one of {', '.join(MODES)}, not {mode!r}")
        policies = self.texts(table, "policy", "tests.", ["greedy"])
        for policy in policies:
            if policy not in POLICIES:
                raise self.wrong("tests.policy", f"must be one of {', '.join(POLICIES)}, or both, not {policy!r}")
        shifts = self.texts(table, "shifts", "tests.", ["id"])
        on_the_way = self.texts(table, "every_shifts", "tests.", shifts)
        if "every_shifts" in table and "every" not in table:
            raise self.wrong("tests.every_shifts", "is for tests during training; give tests.every too")
        if other := [shift for shift in on_the_way if shift not in shifts]:
            raise self.wrong(
                "tests.every_shifts", f"must be some of tests.shifts, and {listed(other)} is not among them"
            )
        return Tests(
            shifts=tuple(shifts),
            severity=tuple(severities),
            mode=mode,
            episodes=self.whole(table, "episodes", "tests.", 10, 1),
            policy=tuple(policies),
            seed=self.whole(table, "seed", "tests.", 0, 0),
            every=self.whole(table, "every", "tests.", 0, 1) or None if "every" in table else None,
            every_shifts=tuple(on_the_way) if "every_shifts" in table else None,
        )

    def _facts(self, env: str, tests: Tests) -> EnvFacts:
        try:
            facts = facts_of(env)
        except BadInput as error:
            raise self.wrong("envs", str(error), joint=": ") from error
        except Exception as error:
            raise self.wrong("envs", f"{env} cannot be made ({error!r})", joint=": ") from error
        for shift in [shift for shift in tests.shifts if shift != "id"]:
            try:
                find_kind(shift, "picture" if facts.is_image else "vector")
            except ConfigError as error:
                raise self.wrong("tests.shifts", f"for {env}: {error}", joint=" ") from error
        return facts

    def _check(self, run: Run) -> None:
        try:
            run.config  # noqa: B018 - building it checks the settings
        except ConfigError as error:
            key = "settings" if not run.label else f"settings of variant {run.label!r}"
            raise self.wrong(key, str(error), joint=": ") from error


def _called(run: Run) -> str:
    return f"{run.title} on {run.env}, seed {run.seed}"
