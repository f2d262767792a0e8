"""From evaluation rows to scores: which runs, games, conditions and agents there are, and each seed's episodes."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from dsacc.analysis.references import game_name
from dsacc.errors import ConfigError
from dsacc.system.types import Array

Row = dict[str, Any]
Seed = int | None  # None for what was not trained by us: a random player, a callable, another library's agent

_FIRST_AGENTS = ("dsac", "dsac-m", "dsac-v", "dsac-mv")
_FIRST_SHIFTS = ("id", "snow", "rain", "fog")


@dataclass(frozen=True)
class Condition:
    """What the agent saw: `id` is the clean screen; else a shift, how strong, and how it moves from frame to frame."""

    shift: str
    severity: int | str | None = None
    mode: str | None = None

    @property
    def clean(self) -> bool:
        """Whether nothing was shifted."""
        return self.shift == "id"


@dataclass(frozen=True)
class Cell:
    """The raw scores of one agent in one game under one condition: every episode of every training seed."""

    episodes: dict[Seed, list[float]]

    @cached_property
    def seeds(self) -> dict[Seed, float]:
        """Each seed's mean score."""
        return {seed: float(np.mean(scores)) for seed, scores in self.episodes.items()}

    @property
    def mean(self) -> float:
        """Mean over seeds of each seed's mean, however many episodes each has."""
        return float(np.mean(list(self.seeds.values())))

    @property
    def std(self) -> float | None:
        """Sample standard deviation (n - 1) between seeds; between episodes where there is one seed; None of one."""
        values = list(self.seeds.values()) if len(self.seeds) > 1 else self.all_episodes
        return float(np.std(values, ddof=1)) if len(values) > 1 else None

    @property
    def all_episodes(self) -> list[float]:
        """The scores of all seeds in one list."""
        return [score for scores in self.episodes.values() for score in scores]


@dataclass(frozen=True)
class Results:
    """All scores of one way to act (greedy or sampled). The names are in the order in which tables show them."""

    policy: str
    conditions: list[Condition]
    agents: list[str]
    games: list[str]
    cells: dict[tuple[Condition, str, str], Cell]  # by condition, agent, game

    def cell(self, condition: Condition, agent: str, game: str) -> Cell | None:
        """The scores of one agent in one game under one condition; None where it was not tested."""
        return self.cells.get((condition, agent, game))

    def paired(self, conditions: Sequence[Condition], agent: str, game: str) -> Array:
        """Scores of the seeds that met all of these conditions, [n, C]: row i is one trained agent. n may be 0."""
        cells = [self.cells.get((condition, agent, game)) for condition in conditions]
        there = [set(cell.seeds) if cell else set() for cell in cells]
        shared = sorted(set.intersection(*there), key=_seed_order)
        scores = [[cell.seeds[seed] for cell in cells if cell] for seed in shared]
        return np.array(scores, dtype=float).reshape(len(shared), len(conditions))

    def name(self, condition: Condition) -> str:
        """`snow`, `snow 3`, `snow 3 falling`: severity and mode as far as they differ in these results."""
        shifted = [c for c in self.conditions if not c.clean]
        parts = [condition.shift]
        if condition.severity is not None and len({c.severity for c in shifted}) > 1:
            parts.append(str(condition.severity))
        if condition.mode is not None and len({c.mode for c in shifted}) > 1:
            parts.append(condition.mode)
        return " ".join(parts)

    @property
    def settings(self) -> str:
        """What all of these results share, for a title."""
        shifted = [c for c in self.conditions if not c.clean]
        severities, modes = {c.severity for c in shifted} - {None}, {c.mode for c in shifted} - {None}
        words = [f"{self.policy} policy"]
        words += [f"severity {next(iter(severities))}"] if len(severities) == 1 else []
        words += [f"mode {next(iter(modes))}"] if len(modes) == 1 else []
        return ", ".join(words)


def collect(rows: Sequence[Row]) -> tuple[list[Results], list[str]]:
    """Results by policy, and sentences about what in the rows a reader should know.

    A run is a game, an agent and a training seed. Where it was tested at several steps, the latest counts. Episodes of
    several evaluation seeds are put together; of the same evaluation twice, the longer one is kept.
    """
    if not rows:
        raise ConfigError("there are no evaluation rows to make a table of")
    notes: list[str] = []
    rows = _latest([{**row, "env": game_name(str(row["env"]))} for row in rows], notes)
    found: dict[str, dict[tuple[Condition, str, str], dict[Seed, dict[Any, list[float]]]]] = {}
    for row in rows:
        cells = found.setdefault(str(row["policy"]), {})
        runs = cells.setdefault((_condition(row), str(row["agent"]), row["env"]), {})
        evaluations = runs.setdefault(row["train_seed"], {})
        returns = [float(x) for x in row["returns"]]
        evaluations[row["eval_seed"]] = _merge(evaluations.get(row["eval_seed"], []), returns, row, notes)
    return [_results(policy, cells) for policy, cells in found.items()], list(dict.fromkeys(notes))


def _results(policy: str, found: dict[tuple[Condition, str, str], dict[Seed, dict[Any, list[float]]]]) -> Results:
    cells = {}
    for key, runs in found.items():
        order = sorted(runs, key=_seed_order)
        cells[key] = Cell({seed: [x for some in runs[seed].values() for x in some] for seed in order})
    shifts = _known_first((c.shift for c, _, _ in cells), _FIRST_SHIFTS)
    conditions = sorted({c for c, _, _ in cells}, key=lambda c: (shifts.index(c.shift), str(c.severity), str(c.mode)))
    agents = _known_first((agent for _, agent, _ in cells), _FIRST_AGENTS)
    return Results(policy, conditions, agents, sorted({game for _, _, game in cells}), cells)


def _known_first(names: Iterable[str], first: Sequence[str]) -> list[str]:
    """Each name once: the known ones in their order, then the others as they come."""
    unique = list(dict.fromkeys(names))
    return [name for name in first if name in unique] + [name for name in unique if name not in first]


def _condition(row: Row) -> Condition:
    if row["shift"] == "id":
        return Condition("id")
    severity = row["severity"]
    severity = int(severity) if str(severity).isdigit() else severity
    mode = f"{row['mode']} on the {row['where']}" if row.get("where") else row["mode"]
    return Condition(str(row["shift"]), severity, mode)


def _seed_order(seed: Seed) -> int:
    return -1 if seed is None else seed


def _latest(rows: list[Row], notes: list[str]) -> list[Row]:
    """The rows of each run's latest step."""
    steps: dict[tuple[Any, ...], set[int]] = defaultdict(set)
    for row in rows:
        steps[row["env"], row["agent"], row["train_seed"]].add(row["step"] or 0)
    last = {run: max(seen) for run, seen in steps.items()}
    if any(len(seen) > 1 for seen in steps.values()):
        notes.append("Some runs were tested at several steps; the latest of each is shown.")
    trained = {step for (_, _, seed), step in last.items() if seed is not None}
    if len(trained) > 1:
        notes.append(f"Not all agents were trained equally long: {min(trained):,} to {max(trained):,} steps.")
    return [row for row in rows if (row["step"] or 0) == last[row["env"], row["agent"], row["train_seed"]]]


def _merge(old: list[float], new: list[float], row: Row, notes: list[str]) -> list[float]:
    """The same evaluation twice: the longer one. Two that disagree: both, and a note."""
    short, long = sorted([old, new], key=len)
    if long[: len(short)] == short:
        return long
    notes.append(
        f"{row['agent']}, seed {row['train_seed']}, in {row['env']} has different scores for one evaluation seed; "
        "they are averaged. Are these two runs, or one that two versions of dsacc tested?"
    )
    return old + new
