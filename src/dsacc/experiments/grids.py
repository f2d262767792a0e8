"""Grids: small TOML files that describe games x agents x variants x seeds.

```toml
envs = ["Breakout", "UpNDown"]
agents = ["dsac", "dsac-m"]
seeds = 3                       # 0, 1, 2; or a list
steps = 100_000
preset = "efficient"            # default: efficient for pictures, else classic
[settings]                      # fields of dsacc.config.Config, for all runs
n_step = 5
[[variants]]                    # each variant repeats the grid with other settings; an empty one changes nothing
[[variants]]
label = "no noise"
agents = ["dsac-m"]             # default: all agents of the grid
settings = { perturbation = "none" }
[tests]
shifts = ["id", "snow"]         # also: severity, mode, episodes, policy, seed, every
```
"""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from dsacc.config import AGENTS, PRESETS, Config, field_type
from dsacc.errors import BadInput, ConfigError
from dsacc.experiments.builtin import builtin_names as builtin_names
from dsacc.experiments.builtin import builtin_text
from dsacc.experiments.facts import EnvFacts, facts_of
from dsacc.experiments.plan import Plan, Run, Tests
from dsacc.shifts import find_kind
from dsacc.system.text import nearest
from dsacc.system.types import MODES, POLICIES

KEYS = ("envs", "agents", "seeds", "steps", "preset", "settings", "variants", "tests")
VARIANT_KEYS = ("label", "agents", "settings")
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
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{where} is not TOML: {error}") from error
    given = {} if overrides is None else overrides.given()
    return _Reader(where, {**content, **given}, given).plan(name)


def _text(source: str | Path) -> tuple[str, str, str]:
    """The grid's text, what messages call it, and the plan's name."""
    path = Path(source)
    if str(source) in builtin_names():
        return builtin_text(str(source)), f"the grid {str(source)!r}", str(source)
    if path.suffix != ".toml":
        hint = _hint(str(source), builtin_names(), ", or give a .toml file")
        raise ConfigError(f"there is no grid {str(source)!r}; {hint}")
    try:
        return path.read_text(encoding="utf-8"), str(path), path.stem
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read ({getattr(error, 'strerror', None) or error})") from error


def _hint(name: str, known: Sequence[str], more: str = "") -> str:
    near = nearest(name, known)
    return f"did you mean {near!r}?" if near else f"choose {', '.join(known)}{more}"


class _Reader:
    """Turns the content of one file into a plan. `given` are the keys that the command line replaced."""

    def __init__(self, where: str, content: Mapping[str, Any], given: Mapping[str, Any]) -> None:
        self.where, self.content, self.given = where, content, given

    def plan(self, name: str) -> Plan:
        content = self.content
        self._known(content, KEYS, "")
        envs, agents = self._texts(content, "envs", "", None), self._texts(content, "agents", "", None)
        self._agents(agents, "agents")
        steps = self._whole(content, "steps", "", None, 1)
        preset = content.get("preset")
        if preset is not None and preset not in PRESETS:
            raise self._wrong("preset", f"must be one of {', '.join(PRESETS)}, not {preset!r}")
        settings = self._settings(content, "settings")
        tests = self._tests(content.get("tests", {}))
        games = [self._facts(env, tests) for env in envs]
        runs: dict[str, Run] = {}
        notes = []
        for variant in self._variants():  # outermost, so that controls, the last of a file, come after all games
            for game in games:
                for agent in [a for a in agents if a in (variant.get("agents") or agents)]:
                    for seed in self._seeds():
                        run = Run(
                            game.name, agent, seed, steps, preset or game.preset,
                            {**settings, **variant.get("settings", {})}, variant.get("label", ""),
                            "" if game.source == game.name else game.source,
                        )  # fmt: skip
                        self._check(run)
                        if (same := runs.setdefault(run.name, run)) is not run:
                            notes.append(f"{_called(run)} has the settings of {_called(same)}; they are run once")
        if not runs:
            raise ConfigError(f"{self.where} has no runs, because no variant is for {', '.join(agents)}")
        return Plan(name, tuple(runs.values()), tests, tuple(notes))

    # --- parts ---

    def _seeds(self) -> list[int]:
        seeds = self.content.get("seeds", 1)
        if isinstance(seeds, int) and not isinstance(seeds, bool) and seeds >= 1:
            return list(range(seeds))
        fine = isinstance(seeds, list) and seeds and all(type(s) is int and s >= 0 for s in seeds)
        if not fine or len(set(seeds)) != len(seeds):
            what = f"must be a number of seeds, or a list of different ones from 0 up, not {seeds!r}"
            raise self._wrong("seeds", what)
        return list(seeds)

    def _variants(self) -> list[dict[str, Any]]:
        variants = self.content.get("variants", [{}])
        if not isinstance(variants, list) or not variants or not all(isinstance(v, dict) for v in variants):
            raise self._wrong("variants", "must be written as [[variants]], once for each variant")
        read = []
        for i, variant in enumerate(variants, start=1):
            if variant:
                at = f"variants[{i}]."
                self._known(variant, VARIANT_KEYS, at)
                if not isinstance(variant.get("label"), str) or not variant["label"].strip():
                    raise self._wrong(f"{at}label", "must be a text that names the variant")
                if "agents" in variant:
                    self._agents(self._texts(variant, "agents", at, None), f"{at}agents")
                variant = {**variant, "settings": self._settings(variant, f"{at}settings")}
            read.append(variant)
        labels = [v.get("label") for v in variants]
        if len(set(labels)) != len(labels):
            raise self._wrong("variants", "has two variants with the same label")
        return read

    def _settings(self, table: Mapping[str, Any], at: str) -> dict[str, Any]:
        settings = table.get("settings", {})
        if not isinstance(settings, dict):
            raise self._wrong(at, f"must be a table of settings, not {settings!r}")
        for name, key in OWN_KEYS.items():
            if name in settings:
                raise self._wrong(f"{at}.{name}", f"is not a setting here; use {key} instead")
        return {k: None if v == "none" and k in _MAY_BE_NONE else v for k, v in settings.items()}

    def _tests(self, table: Any) -> Tests:
        if not isinstance(table, dict):
            raise self._wrong("tests", "must be a table, [tests]")
        self._known(table, TEST_KEYS, "tests.")
        severities = table.get("severity", ["paper"])
        severities = severities if isinstance(severities, list) else [severities]
        if not severities or not all(s == "paper" or (type(s) is int and 1 <= s <= 5) for s in severities):
            what = f"must be 'paper', 1 to 5, or a list of these, not {table['severity']!r}"
            raise self._wrong("tests.severity", what)
        mode = table.get("mode", "independent")
        if mode not in MODES:
            raise self._wrong("tests.mode", f"must be one of {', '.join(MODES)}, not {mode!r}")
        policies = self._texts(table, "policy", "tests.", ["greedy"])
        for policy in policies:
            if policy not in POLICIES:
                raise self._wrong("tests.policy", f"must be one of {', '.join(POLICIES)}, or both, not {policy!r}")
        return Tests(
            shifts=tuple(self._texts(table, "shifts", "tests.", ["id"])),
            severity=tuple(severities),
            mode=mode,
            episodes=self._whole(table, "episodes", "tests.", 10, 1),
            policy=tuple(policies),
            seed=self._whole(table, "seed", "tests.", 0, 0),
            every=self._whole(table, "every", "tests.", 0, 1) or None if "every" in table else None,
        )

    def _facts(self, env: str, tests: Tests) -> EnvFacts:
        try:
            facts = facts_of(env)
        except BadInput as error:
            raise self._wrong("envs", str(error), joint=": ") from error
        except Exception as error:
            raise self._wrong("envs", f"{env} cannot be made ({error!r})", joint=": ") from error
        for shift in [shift for shift in tests.shifts if shift != "id"]:
            try:
                find_kind(shift, "picture" if facts.is_image else "vector")
            except ConfigError as error:
                raise self._wrong("tests.shifts", f"for {env}: {error}", joint=" ") from error
        return facts

    def _check(self, run: Run) -> None:
        try:
            run.config  # noqa: B018 - building it checks the settings
        except ConfigError as error:
            key = "settings" if not run.label else f"settings of variant {run.label!r}"
            raise self._wrong(key, str(error), joint=": ") from error

    # --- checks ---

    def _agents(self, agents: Sequence[str], key: str) -> None:
        for agent in agents:
            if agent not in AGENTS:
                raise self._wrong(key, f"must be one of {', '.join(AGENTS)}, not {agent!r}")

    def _known(self, table: Mapping[str, Any], known: Sequence[str], at: str) -> None:
        for key in table:
            if key not in known:
                raise ConfigError(f"{self.where}: unknown key {at}{key}; {_hint(key, known)}")

    def _value(self, table: Mapping[str, Any], key: str, at: str, default: Any) -> Any:
        if key not in table and default is None:
            raise self._wrong(at + key, "is missing")
        return table.get(key, default)

    def _texts(self, table: Mapping[str, Any], key: str, at: str, default: list[str] | None) -> list[str]:
        """A list of different texts. A single text may stand without the list."""
        values = self._value(table, key, at, default)
        values = [values] if isinstance(values, str) else values
        if not isinstance(values, list) or not values or not all(isinstance(v, str) and v for v in values):
            raise self._wrong(at + key, f"must be a list of texts, not {values!r}")
        if len(set(values)) != len(values):
            raise self._wrong(at + key, "names something twice")
        return values

    def _whole(self, table: Mapping[str, Any], key: str, at: str, default: int | None, low: int) -> int:
        value = self._value(table, key, at, default)
        if isinstance(value, bool) or not isinstance(value, int) or value < low:
            raise self._wrong(at + key, f"must be a whole number of at least {low}, not {value!r}")
        return value

    def _wrong(self, key: str, what: str, joint: str = " ") -> ConfigError:
        where = "--" if key in self.given else f"{self.where}: "
        return ConfigError(f"{where}{key}{joint}{what}")


def _called(run: Run) -> str:
    return f"{run.title} on {run.env}, seed {run.seed}"
