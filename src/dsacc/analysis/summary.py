"""From results to figures over games, with their intervals and with notes on what they cannot show."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from dsacc.analysis import statistics as st
from dsacc.analysis.names import split_name
from dsacc.analysis.references import Scale, scale
from dsacc.analysis.results import Results
from dsacc.analysis.rows import Condition
from dsacc.analysis.statistics import Estimate
from dsacc.errors import ConfigError
from dsacc.system.types import Array

# How often a 95 % interval of the IQM contains the true value, by number of seeds: for one game, and for nine games the
# lowest and highest of three scenarios. From `make bench-coverage`.
_COVERAGE = {
    2: (0.49, 0.62, 0.80),
    3: (0.74, 0.72, 0.88),
    4: (0.88, 0.83, 0.90),
    5: (0.90, 0.83, 0.91),
    7: (0.91, 0.85, 0.93),
}
ENOUGH_SEEDS = 10  # per game: from here on an interval is taken at its word


def interval_note(seeds: int, games: int = 9) -> str | None:
    """The sentence that belongs beside a 95 % interval from this many seeds per game; None from ten seeds on."""
    if seeds < 2:
        return "One seed: no interval is defined, and another seed may give a very different score."
    if seeds >= ENOUGH_SEEDS:
        return None
    one, least, most = _COVERAGE[max(n for n in _COVERAGE if n <= seeds)]
    share = f"one game it contained the true value in about {100 * one:.0f}"
    if games > 1:
        share = f"nine games it contained the true value in {100 * least:.0f} to {100 * most:.0f}"
    return f"{seeds} seeds make a 95 % interval too narrow: in simulations of {share} % of cases."


@dataclass(frozen=True)
class Line:
    """One agent under one condition, or over all conditions (None). A figure that is not defined is None."""

    condition: Condition | None
    agent: str
    iqm: Estimate | None = None
    improvement: Estimate | None = None  # probability of improvement over what it is compared with, `Summary.against`
    gap: Estimate | None = None  # clean - shifted
    retention: Estimate | None = None
    exposure: str = ""  # what the agent met of the shift before


@dataclass(frozen=True)
class SeverityCurve:
    """The mean score of an agent at each severity of one shift, and the area under this curve. Level 0 is the clean
    screen."""

    shift: str
    mode: str | None
    agent: str
    levels: list[int]
    scores: list[float]
    area: Estimate
    exposure: str = ""  # what the agent met of the shift before


class Summary:
    """Figures over the games of one set of results. Each interval has its own generator from `seed`, so that no figure
    depends on which others are asked for."""

    def __init__(self, results: Results, baseline: str | None = None, seed: int = 0) -> None:
        if baseline is not None and baseline not in results.agents:
            known = ", ".join(results.agents)
            raise ConfigError(f"there is no agent {baseline!r} to compare with; the agents are {known}")
        self.results, self.seed = results, seed
        self.baseline = baseline or ("dsac" if "dsac" in results.agents else results.agents[0])
        found = {game: scale(game) for game in results.games}
        self.scales: dict[str, Scale] = {game: known for game, known in found.items() if known is not None}
        self.clean = next((c for c in results.conditions if c.clean), None)

    @property
    def games(self) -> list[str]:
        """The games that figures over games are about: those with a scale. A single game without a scale counts raw."""
        return list(self.scales) or (self.results.games if len(self.results.games) == 1 else [])

    @property
    def unit(self) -> str:
        """The unit of the figures over games, for a title."""
        tops = {known.top_name for known in self.scales.values()}
        if tops == {"human"}:
            return "human-normalised scores (random 0, human 1)"
        return f"normalised scores (random 0, {' or '.join(sorted(tops))} 1)" if tops else "raw scores"

    def normalise(self, game: str, scores: Array) -> Array:
        """(x - random) / (top - random) on the scale of the game. Without a scale, the scores as they are."""
        known = self.scales.get(game)
        return scores if known is None else np.asarray(st.normalised(scores, known.random, known.top))

    def skill(self, agent: str, game: str) -> bool | None:
        """Whether the agent's clean score beats random (see `beats_random`); None where that is not known."""
        return self._skill.get((agent, game))

    @cached_property
    def _skill(self) -> dict[tuple[str, str], bool]:
        found = {}
        for (condition, agent, game), scores in self.results.scores.items():
            if condition.clean and game in self.scales:
                values = list(scores.seeds.values()) if len(scores.seeds) > 1 else scores.all_episodes
                found[agent, game] = st.beats_random(values, self.scales[game].random, self._rng())
        return found

    @cached_property
    def no_skill(self) -> dict[str, list[str]]:
        """By agent, the games in which it had no skill that a shift could take."""
        found = {a: [g for g in self.results.games if self.skill(a, g) is False] for a in self.results.agents}
        return {agent: games for agent, games in found.items() if games}

    @cached_property
    def lines(self) -> list[Line]:
        """One line per condition and agent, then one per agent over all conditions."""
        lines = [self._line(condition, agent) for condition in self.results.conditions for agent in self.results.agents]
        if len(self.results.conditions) > 1:
            pooled = [(agent, self.improvement(agent, self.results.conditions)) for agent in self.results.agents]
            lines += [
                Line(None, agent, improvement=found, exposure=self.results.exposure(self.results.conditions, agent))
                for agent, found in pooled
                if found is not None
            ]
        return lines

    def _line(self, condition: Condition, agent: str) -> Line:
        clean = None if condition.clean else self.clean
        return Line(
            condition,
            agent,
            iqm=self._over_games(st.interquartile_mean, [(condition, agent)]),
            improvement=self.improvement(agent, [condition]),
            gap=self._over_games(_columns(st.gap), [(clean, agent), (condition, agent)]) if clean else None,
            retention=self.retention(agent, condition),
            exposure=self.results.exposure([condition], agent),
        )

    def against(self, agent: str) -> str:
        """The agent that this one is compared with: the baseline, and for a hardened agent the baseline hardened in the
        same way, if both have played a game. What hardening gives is no difference between agents."""
        (teacher, how), first = split_name(agent), self.baseline
        if not how or first in (teacher, agent) or split_name(first)[1]:
            return first
        played = {(a, game) for _, a, game in self.results.scores}
        return first + how if any({(agent, g), (first + how, g)} <= played for g in self.results.games) else first

    def opponents(self, name: Callable[[str], str] = str) -> str:
        """What agents are compared with, in words: `dsac`, or `dsac (other hardened agents: dsac, hardened)`."""
        found = dict.fromkeys(self.against(agent) for agent in self.results.agents)
        alike = [name(agent) for agent in found if agent != self.baseline]
        return name(self.baseline) + (f" (other hardened agents: {'; '.join(alike)})" if alike else "")

    def improvement(self, agent: str, conditions: Sequence[Condition]) -> Estimate | None:
        """Probability of improvement over what it is compared with, over all games that both played under all these
        conditions."""
        if agent == self.baseline:
            return None
        two = (agent, self.against(agent))
        found = [[self.results.paired(conditions, a, g) for a in two] for g in self.results.games]
        both = [(x, y) for x, y in found if len(x) and len(y)]
        xs, ys = ([pair[i] for pair in both] for i in (0, 1))
        return st.probability_of_improvement(xs, ys, self._rng()) if both else None

    def retention(self, agent: str, condition: Condition, games: Sequence[str] | None = None) -> Estimate | None:
        """Share of the score above random that is kept, over the games with skill.

        For a hardened agent it is a share of what the agent before hardening had on the clean screen, where that was
        tested too (see `kept_of`). Then the clean screen has a share as well: what hardening itself left.
        """
        owner = self.kept_of(agent)
        if self.clean is None or (condition.clean and owner == agent):
            return None
        skilled = [game for game in games or self.games if self.skill(owner, game)]
        return self._over_games(_columns(st.retention), [(self.clean, owner), (condition, agent)], skilled)

    def kept_of(self, agent: str) -> str:
        """The agent whose clean score counts as all that can be kept. It is the agent before hardening where both have
        a seed of the same game, and otherwise the agent itself."""
        teacher, found, clean = split_name(agent)[0], self.results, self.clean
        own = [(condition, game) for condition, a, game in found.scores if a == agent]
        both = clean is not None and any(len(found.matched([(clean, teacher), (c, agent)], g)) for c, g in own)
        return teacher if both else agent

    def profile(self, agent: str, condition: Condition, taus: Any) -> list[Estimate] | None:
        """Share of runs with a normalised score above each tau."""
        scores = [self.normalise(g, self.results.paired([condition], agent, g))[:, 0] for g in self.games]
        scores = [x for x in scores if len(x)]
        return st.performance_profile(scores, taus, self._rng()) if scores else None

    @cached_property
    def curves(self) -> list[SeverityCurve]:
        """Curves over severity, for each shift that was tested at two or more levels."""
        kinds = dict.fromkeys((c.shift, c.mode) for c in self.results.conditions if isinstance(c.severity, int))
        found = [self._curve(*kind, agent) for kind in kinds for agent in self.results.agents]
        return [curve for curve in found if curve is not None]

    def _curve(self, shift: str, mode: str | None, agent: str) -> SeverityCurve | None:
        levels = {c.severity: c for c in self.results.conditions if (c.shift, c.mode) == (shift, mode)}
        asked = {level: levels[level] for level in sorted(n for n in levels if isinstance(n, int))}
        if self.clean is not None:
            asked = {0: self.clean, **asked}
        runs = [self.normalise(g, self.results.paired(list(asked.values()), agent, g)) for g in self.games]
        runs = [x for x in runs if len(x)]  # [n, L] per game
        if len(asked) < 2 + (self.clean is not None) or not runs:
            return None
        scores = np.mean([x.mean(axis=0) for x in runs], axis=0)
        area = st.mean([st.curve_area(list(asked), x) for x in runs], self._rng())
        met = self.results.exposure(list(asked.values()), agent)
        return SeverityCurve(shift, mode, agent, list(asked), [float(x) for x in scores], area, met)

    @property
    def notes(self) -> list[str]:
        """What a reader of the figures must know."""
        notes = []
        without = [game for game in self.results.games if game not in self.scales]
        if without and self.scales:
            notes.append(f"Without reference scores, and so in no normalised figure: {', '.join(without)}.")
        elif without and len(without) > 1:
            notes.append("No game has reference scores: several games have no common scale, and there is no IQM.")
        estimates = [e for line in self.lines for e in (line.iqm, line.improvement) if e is not None]
        several = [e.seeds for e in estimates if e.seeds > 1]
        notes += [interval_note(1) or ""] if any(e.seeds == 1 for e in estimates) else []
        few = interval_note(min(several), len(self.results.games)) if several else None
        notes += [few] if few else []
        found = self.results
        if len(found.scores) < len(found.conditions) * len(found.agents) * len(found.games):
            own = "figures over games are about its own tests"
            notes.append(f"Not every agent was tested in every game and condition: {own}.")
        return notes

    def _over_games(
        self,
        figure: Callable[[list[Array], np.random.Generator], Estimate],
        tests: Sequence[tuple[Condition, str]],
        games: Sequence[str] | None = None,
    ) -> Estimate | None:
        """A figure of the normalised scores of the seeds that have all these tests, each a condition and an agent."""
        asked = self.games if games is None else games
        scores = [self.normalise(game, self.results.matched(tests, game)) for game in asked]
        scores = [x[:, 0] if len(tests) == 1 else x for x in scores if len(x)]
        return figure(scores, self._rng()) if scores else None

    def _rng(self) -> np.random.Generator:
        return np.random.default_rng(self.seed)


def _columns(
    figure: Callable[[list[Array], list[Array], np.random.Generator], Estimate],
) -> Callable[[list[Array], np.random.Generator], Estimate]:
    """Turns a figure of two lists into one of pairs, [n, 2] per game."""
    return lambda pairs, rng: figure([x[:, 0] for x in pairs], [x[:, 1] for x in pairs], rng)
