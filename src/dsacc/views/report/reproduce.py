"""How to reproduce a study: the exact commands, settings and versions."""

import shlex
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from typing import Any

from dsacc.analysis.names import in_shift_order
from dsacc.config import PRESETS, Config, field_type, make_config
from dsacc.errors import BadInput
from dsacc.experiments.grids import builtin_names, load_plan
from dsacc.system.text import printable
from dsacc.views.report.study import RunData, Study


@dataclass(frozen=True)
class Setting:
    """A field of Config with the value that all runs share, or with one value per group of agents."""

    name: str
    help: str
    values: list[tuple[str, str]]  # whose ("" for all), value


def train_command(run: RunData) -> str | None:
    """`dsacc train` with the nearest preset and everything that differs from it; of a student `dsacc harden`. None
    where settings are missing, or where this version of dsacc does not accept them."""
    if run.update is not None:
        return _harden_command(run)
    known = {f.name for f in fields(Config)}
    try:
        config = Config(**{k: v for k, v in run.config.items() if k in known})
    except (BadInput, TypeError):
        return None
    if not run.config.get("env"):
        return None
    own = {"env": config.env, "constraint": config.constraint, "seed": config.seed}
    near = min(PRESETS, key=lambda preset: len(_differences(make_config(preset, **own), config)))
    words = ["dsacc", "train", run.source or config.env, "--agent", config.agent, "--seed", str(config.seed)]
    words += ["--preset", near, *(["--steps", str(run.steps)] if run.steps else [])]
    for name in _differences(make_config(near, **own), config):
        words += _option(name, getattr(config, name))
    return shlex.join(words)


def _harden_command(run: RunData) -> str | None:
    how = run.hardened
    if not run.teacher or not isinstance(how.get("augment"), list):
        return None
    words = ["dsacc", "harden", f"runs/{run.teacher}", "--augment", *(printable(kind, 60) for kind in how["augment"])]
    for name in ("updates", "states", "rounds", "seed"):
        words += [f"--{name}", printable(how.get(name), 20)]
    seen_through = printable(run.config.get("picture_filter", "none"), 20)
    return shlex.join([*words, "--picture-filter", seen_through, "--out", f"runs/{run.name}"])


def _differences(preset: Config, config: Config) -> list[str]:
    return [f.name for f in fields(Config) if getattr(preset, f.name) != getattr(config, f.name)]


def _option(name: str, value: Any) -> list[str]:
    option = "--" + name.replace("_", "-")
    if isinstance(value, bool):
        return [option if value else option.replace("--", "--no-", 1)]
    return [option, "none" if value is None else repr(value) if isinstance(value, float) else str(value)]


def test_commands(study: Study) -> list[str]:
    """One `dsacc evaluate` for each way in which the agents were tested."""
    kinds: dict[tuple[Any, ...], dict[str, dict[Any, None]]] = {}
    for row in study.rows:
        if row.train_seed is None:
            continue
        how = (row.mode or "independent", len(row.returns), row.eval_seed)
        kind = kinds.setdefault(how, {"shifts": {}, "severity": {}, "policy": {}})
        kind["shifts"][row.shift] = kind["policy"][row.policy] = None
        if row.severity is not None:
            kind["severity"][str(row.severity)] = None
    commands = []
    for (mode, episodes, seed), kind in kinds.items():
        words = ["--shifts", *in_shift_order(kind["shifts"])]
        words += ["--severity", *kind["severity"]] if kind["severity"] else []
        words += ["--mode", mode, "--episodes", str(episodes), "--policy", *kind["policy"], "--seed", str(seed or 0)]
        commands.append("dsacc evaluate runs/* " + shlex.join(words))
    return commands


def grid_command(study: Study) -> str | None:
    """`dsacc experiment NAME`, where the plan is exactly one of those that come with dsacc."""
    if not study.planned or study.name not in builtin_names():
        return None
    with suppress(BadInput):
        there = {(what.name, run.steps) for run in load_plan(study.name).runs for what in run.family}
        if there == {(run.name, run.steps) for run in study.runs}:
            return f"dsacc experiment {study.name}"
    return None


def settings(runs: Sequence[RunData]) -> list[Setting]:
    """Every setting and its value, or which agents have which value where runs differ."""
    found = []
    with_config = [run for run in runs if run.config]
    for f in fields(Config):
        if f.name in ("env", "seed", "constraint") or not any(f.name in run.config for run in with_config):
            continue
        owners: dict[str, dict[str, None]] = {}
        for run in with_config:
            owners.setdefault(_value(f, run.config.get(f.name, f.default)), {})[run.agent] = None
        values = [("" if len(owners) == 1 else "; ".join(agents), value) for value, agents in owners.items()]
        found.append(Setting(f.name, f.metadata["help"], values))
    return found


def _value(f: Any, value: Any) -> str:
    if value is None or isinstance(value, bool):
        return {None: "none", True: "on", False: "off"}[value]
    kind, _ = field_type(f)
    return f"{value:g}" if kind is float and isinstance(value, int | float) else printable(value, 80)


def versions(runs: Sequence[RunData]) -> list[tuple[str, str]]:
    """Name and version, or all versions where runs differ."""
    found: dict[str, dict[str, None]] = {}
    for run in runs:
        for name, version in run.versions.items():
            found.setdefault(name, {})[version] = None
    return [(name, ", ".join(seen)) for name, seen in found.items()]
