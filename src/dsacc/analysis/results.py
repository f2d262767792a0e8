"""From evaluation rows to scores: which runs, games, conditions and agents there are, and the episodes of each seed."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from dsacc.analysis.exposure import exposure_of, in_words, phrase
from dsacc.analysis.names import in_agent_order, in_shift_order
from dsacc.analysis.references import game_name
from dsacc.analysis.rows import Condition, Row, Seed, as_rows, final_rows
from dsacc.errors import ConfigError
from dsacc.system.types import Array

_Key = tuple[Condition, str, str]  # condition, agent, game


@dataclass(frozen=True)
class _Tests:
    """What the rows of one agent in one game under one condition say, as they are read."""

    runs: dict[Seed, dict[int | None, list[float]]] = field(default_factory=dict)  # by training and evaluation seed
    words: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Scores:
    """The raw scores of one agent in one game under one condition: every episode of every training seed."""

    episodes: dict[Seed, list[float]]
    exposure: str = ""  # what the agent met of the shift before: a word of `exposure`, or several where seeds differ

    @cached_property
    def seeds(self) -> dict[Seed, float]:
        """The mean score of each seed."""
        return {seed: float(np.mean(scores)) for seed, scores in self.episodes.items()}

    @property
    def mean(self) -> float:
        """Mean over seeds of each seed's mean, however many episodes each has."""
        return float(np.mean(list(self.seeds.values())))

    @property
    def std(self) -> float | None:
        """Sample standard deviation (n - 1) between seeds, or between episodes where there is one seed. None for a
        single value."""
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
    scores: dict[tuple[Condition, str, str], Scores]  # by condition, agent, game

    def paired(self, conditions: Sequence[Condition], agent: str, game: str) -> Array:
        """Scores of the seeds that met all of these conditions, [n, C]: row i is one trained agent. n may be 0."""
        return self.matched([(condition, agent) for condition in conditions], game)

    def matched(self, tests: Sequence[tuple[Condition, str]], game: str) -> Array:
        """Scores of the seeds that have all of these tests, each a condition and an agent, [n, T]. n may be 0."""
        found = [self.scores.get((condition, agent, game)) for condition, agent in tests]
        there = [set(scores.seeds) if scores else set() for scores in found]
        shared = sorted(set.intersection(*there), key=_seed_order)
        means = [[scores.seeds[seed] for scores in found if scores] for seed in shared]
        return np.array(means, dtype=float).reshape(len(shared), len(tests))

    def exposure(self, conditions: Sequence[Condition], agent: str) -> str:
        """What an agent met of these shifts before, in any game; empty for an agent that never met an augmentation."""
        found = [self.scores.get((condition, agent, game)) for condition in conditions for game in self.games]
        return in_words(word for scores in found if scores for word in scores.exposure.split(", "))

    def exposures(self, agent: str, conditions: Sequence[Condition] | None = None) -> str:
        """The same for each shift of these conditions, by default of all: `fog trained on; snow and rain unseen`."""
        asked = self.conditions if conditions is None else conditions
        shifts = dict.fromkeys(c.shift for c in asked)
        return phrase({s: self.exposure([c for c in asked if c.shift == s], agent) for s in shifts})

    @property
    def has_exposure(self) -> bool:
        """Whether any agent met augmentations before it was tested."""
        return any(scores.exposure for scores in self.scores.values())

    def name(self, condition: Condition) -> str:
        """`snow`, `snow 3`, `snow 3 falling`: severity and mode only where they differ in these results."""
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


def collect(rows: Iterable[Row | Mapping[str, Any]]) -> tuple[list[Results], list[str]]:
    """Results by policy, and notes: what a reader should know about the rows.

    A run is a game, an agent and a training seed. Where a run was tested at several steps, the latest counts. Episodes
    of several evaluation seeds are put together. Where the same evaluation was made twice, the longer one is kept.
    """
    given = [dataclasses.replace(row, env=game_name(row.env)) for row in as_rows(rows)]
    if not given:
        raise ConfigError("there are no evaluation rows to make a table of")
    final = final_rows(given)
    notes = _notes_on_steps(given, final) + _notes_on_repeats(final) + _notes_on_held_actions(final)
    found: dict[str, dict[_Key, _Tests]] = {}
    for row in final:
        tests = found.setdefault(row.policy, {}).setdefault((row.condition, row.agent, row.env), _Tests())
        evaluations = tests.runs.setdefault(row.train_seed, {})
        evaluations[row.eval_seed] = _merge(evaluations.get(row.eval_seed, []), row, notes)
        tests.words.append(exposure_of(row) or "")
    return [_results(policy, tests) for policy, tests in found.items()], list(dict.fromkeys(notes))


def _results(policy: str, found: Mapping[_Key, _Tests]) -> Results:
    scores = {}
    for key, tests in found.items():
        order = sorted(tests.runs, key=_seed_order)
        episodes = {seed: [x for some in tests.runs[seed].values() for x in some] for seed in order}
        scores[key] = Scores(episodes, in_words(tests.words))
    shifts = in_shift_order(c.shift for c, _, _ in scores)
    conditions = sorted({c for c, _, _ in scores}, key=lambda c: (shifts.index(c.shift), str(c.severity), str(c.mode)))
    agents = in_agent_order(agent for _, agent, _ in scores)
    return Results(policy, conditions, agents, sorted({game for _, _, game in scores}), scores)


def _seed_order(seed: Seed) -> int:
    return -1 if seed is None else seed


def _notes_on_steps(given: Sequence[Row], final: Sequence[Row]) -> list[str]:
    notes = []
    if len(final) < len(given):
        notes.append("Some runs were tested at several steps; the latest of each is shown.")
    trained = {row.step or 0 for row in final if row.train_seed is not None}
    if len(trained) > 1:
        notes.append(f"Not all agents were trained equally long: {min(trained):,} to {max(trained):,} steps.")
    return notes


def _notes_on_repeats(rows: Sequence[Row]) -> list[str]:
    """A game without randomness is the same again for an agent that does not draw its actions. Two episodes count as
    the same where score and length are; nothing is said where all are equally long, as in Catch."""
    fewest: dict[str, tuple[int, int]] = {}  # by game: how many episodes are different, and of how many
    for row in rows:
        count, different = len(row.returns), len(set(zip(row.returns, row.lengths, strict=True)))
        if row.policy == "greedy" and row.condition.clean and len(set(row.lengths)) > 1 and 2 * different <= count:
            fewest[row.env] = min(fewest.get(row.env, (different, count)), (different, count))
    return [
        f"{game}: a greedy agent repeated its episodes ({different} different ones of {count}), so its clean score "
        "rests on few. Test with --policy sampled too."
        for game, (different, count) in sorted(fewest.items())
    ]


def _notes_on_held_actions(rows: Sequence[Row]) -> list[str]:
    """An agent that takes one action whatever it sees has a score all the same: that of the action."""
    held: dict[tuple[str, str, str], dict[str, list[bool]]] = {}
    for row in rows:
        held.setdefault((row.env, row.agent, row.policy), {}).setdefault(row.condition.words, []).append(
            row.held_one_action
        )
    notes = []
    for (game, agent, policy), conditions in sorted(held.items()):
        found = [
            condition + (f" ({sum(runs)} of {len(runs)} runs)" if len(runs) > 1 else "")
            for condition, runs in conditions.items()
            if any(runs)
        ]
        if found:
            notes.append(f"{game}: {agent}, {policy}, took one and the same action at every step: {', '.join(found)}.")
    return notes


def _merge(old: list[float], row: Row, notes: list[str]) -> list[float]:
    """The longer of the same evaluation twice. Of two that disagree, both, and a note."""
    new = [float(x) for x in row.returns]
    short, long = sorted([old, new], key=len)
    if long[: len(short)] == short:
        return long
    notes.append(
        f"{row.agent}, seed {row.train_seed}, in {row.env} has different scores for one evaluation seed, which are "
        "averaged. Are these two runs, or one run that two versions of dsacc tested?"
    )
    return old + new
