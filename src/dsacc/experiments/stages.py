"""The part `harden` of a grid: which students are made of which runs.

```toml
[[harden]]                      # or [harden], if there is one
agents = ["dsac-m"]             # default: all agents of the grid
augment = "generic"             # or "near", or a list of augmentations and shifts
updates = 20_000
states = 20_000
rounds = 2
picture_filter = "high-pass"    # default: detail; with fresh = false that of the run
fresh = false                   # begin as a copy of the run's agent; default: new weights
label = "long"                  # in tables: "dsac-m, hardened (long)"
```
"""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from dsacc.config import AGENTS, Config, choices
from dsacc.errors import ConfigError
from dsacc.experiments.checks import Checks
from dsacc.experiments.plan import Stage
from dsacc.hardening.work import Recipe

NUMBERS = ("updates", "states", "rounds")
KEYS = ("label", "agents", "augment", *NUMBERS, "picture_filter", "fresh")
FILTERS = choices(next(f for f in fields(Config) if f.name == "picture_filter")) or ()

Stages = list[tuple[Stage, tuple[str, ...]]]  # each with the agents that it is for


def read_stages(checks: Checks, tables: Any, blind: Sequence[str]) -> Stages:
    """The stages of a grid. `blind` are its environments without pictures, in which nothing can be hardened."""
    several = not isinstance(tables, dict)
    tables = tables if several else [tables]
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise checks.wrong("harden", "must be written as [harden], or as [[harden]] once for each student")
    if tables and blind:
        raise checks.wrong("harden", f"needs pictures, and {blind[0]} shows none")
    stages = [_stage(checks, table, f"harden[{i}]" if several else "harden") for i, table in enumerate(tables, start=1)]
    for agent in AGENTS:
        own = stages_of(agent, stages)
        if len({stage.title for stage in own}) < len(own):
            raise checks.wrong(
                "harden", f"makes two students of {agent} with the same name; give them different labels"
            )
        if any(stage.recipe in [other.recipe for other in own[:i]] for i, stage in enumerate(own)):
            raise checks.wrong("harden", f"makes the same student of {agent} twice")
    return stages


def stages_of(agent: str, stages: Stages) -> tuple[Stage, ...]:
    """Those that are for an agent."""
    return tuple(stage for stage, agents in stages if agent in agents)


def _stage(checks: Checks, table: Mapping[str, Any], key: str) -> tuple[Stage, tuple[str, ...]]:
    at = f"{key}."
    checks.known(table, KEYS, at)
    agents = checks.texts(table, "agents", at, list(AGENTS))
    checks.agents(agents, f"{at}agents")
    augment = tuple(checks.texts(table, "augment", at, list(Recipe.augment)))
    try:
        recipe = Recipe(augment, **{name: table[name] for name in NUMBERS if name in table})
    except ConfigError as error:
        raise checks.wrong(key, str(error), joint=": ") from error
    seen_through = table.get("picture_filter")
    if seen_through is not None and seen_through not in FILTERS:
        raise checks.wrong(f"{at}picture_filter", f"must be one of {', '.join(FILTERS)}, not {seen_through!r}")
    fresh = table.get("fresh", True)
    if not isinstance(fresh, bool):
        raise checks.wrong(f"{at}fresh", f"must be true or false, not {fresh!r}")
    label = table.get("label", "" if augment == Recipe.augment else " ".join(augment))
    if not isinstance(label, str) or ("label" in table and not label.strip()) or any(c in "()" for c in label):
        raise checks.wrong(f"{at}label", f"must be a text without brackets, not {label!r}")
    numbers = {name: getattr(recipe, name) for name in NUMBERS}
    return Stage(augment, **numbers, picture_filter=seen_through, label=label, fresh=fresh), tuple(agents)
