"""What the data show and what they do not show, in words. These are the rules, all of them in this file:

| what there is | what is said |
| --- | --- |
| no game that both played | no data |
| neither is shown to beat a random player on the clean screen, in any game | no skill |
| one seed in some game | one seed: how often it won, and no interval |
| the 95 % interval of P(X > Y) contains 0.5 | not decided |
| it lies above (below) 0.5, fewer than ten seeds | a hint that X is better (worse): such intervals are too narrow |
| it lies above (below) 0.5, ten seeds or more | X is better (worse) |

`judge` alone decides the word. Sentences, tables and figures take it from the claim, so that none of them says more or
less than another. What a hardened agent met of a shift before (unseen, near, trained on) is in every sentence about it
under that shift.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from dsacc.analysis.exposure import grouped
from dsacc.analysis.names import display_name
from dsacc.analysis.results import Results
from dsacc.analysis.rows import Condition
from dsacc.analysis.statistics import Estimate
from dsacc.analysis.summary import ENOUGH_SEEDS, Line, Summary, interval_note
from dsacc.system.text import listed

PAPER_STEPS = 1_000_000
MANY = 10  # comparisons: from here on the page warns of luck
FEW = 4  # shares that a sentence names one by one
WORDS = {"id": "clean", None: "all together"}
TEXTS = {  # every verdict, and how a sentence about several conditions says it
    "better": "better",
    "worse": "worse",
    "hint: better": "a hint that it is better",
    "hint: worse": "a hint that it is worse",
    "not decided": "not decided",
    "one seed": "one seed, so no verdict",
    "no skill": "no skill to compare",
    "no data": "nothing to compare",
}


@dataclass(frozen=True)
class Claim:
    """One comparison: its verdict in a word, and in a sentence."""

    condition: str
    agent: str
    against: str  # the agent that it is compared with
    word: str  # one of TEXTS
    sentence: str
    estimate: Estimate | None
    exposure: str = ""  # what the agent met of the shift before
    games: int = 0  # that both played
    pairs: int = 0  # tests with one run against one run; 0 where some game has several runs


def judge(
    agent: str, against: str, condition: str, estimate: Estimate | None, games: int, skill: bool, pairs: int = 0
) -> Claim:
    """The rules above, for one agent under one condition. `skill` is False only where neither of the two has any.
    `pairs` is the number of tests in which one run stood against one run; 0 where some game has several runs."""
    word, sentence = _judged(display_name(agent), display_name(against), estimate, games, skill, pairs)
    return Claim(condition, agent, against, word, sentence, estimate, games=games, pairs=pairs)


def _judged(x: str, y: str, estimate: Estimate | None, games: int, skill: bool, pairs: int) -> tuple[str, str]:
    if estimate is None:
        return "no data", f"{x} and {y} have no game in common here."
    if not skill:
        words = (
            f"Neither {x} nor {y} is shown to beat a random player on the clean screen: there is no skill to compare."
        )
        return "no skill", words
    low, high = estimate.low, estimate.high
    if low is None or high is None:
        return "one seed", _won(estimate.value, games, pairs, x, y)
    figures = odds(x, y, estimate, games)
    if low <= 0.5 <= high:
        words = f"Not decided: {figures}. That contains 0.5: neither a difference nor its absence is shown."
        return "not decided", words
    side = "better" if low > 0.5 else "worse"
    if estimate.seeds < ENOUGH_SEEDS:
        words = f"A hint that {x} is {side}: {figures}. {estimate.seeds} seeds are too few to settle it."
        return f"hint: {side}", words
    return side, f"{x} is {side}: {figures}."


def odds(x: str, y: str, e: Estimate, games: int) -> str:
    """`a run of DSAC-M beats a run of DSAC with probability 0.63 (0.41 to 0.82), over 3 games`."""
    interval = "" if e.low is None or e.high is None else f" ({e.low:.2f} to {e.high:.2f})"
    among = "in one game" if games == 1 else f"over {games} games"
    return f"a run of {x} beats a run of {y} with probability {e.value:.2f}{interval}, {among}"


def _won(p: float, games: int, pairs: int, x: str, y: str) -> str:
    """What happened where there is no interval. Wins can be counted where one run stood against one run."""
    if not pairs:
        return f"Without an interval, since some game has one seed: {odds(x, y, Estimate(p, None, None, 1), games)}."
    how = {0.0: "lower than", 0.5: "as high as", 1.0: "higher than"}.get(p)
    if pairs == 1 and how:
        return f"The run of {x} scored {how} the run of {y}."
    wins, of = round(2 * p * pairs) / 2, "games" if pairs == games else "tests"
    ties = "" if wins == int(wins) else " (a tie counts half)"
    return f"{x} scored higher than {y} in {wins:g} of {pairs} {of}{ties}."


def claims(results: Results, summary: Summary) -> dict[str, list[Claim]]:
    """For each agent except the baseline: one claim per condition, and one over all of them where there are several.
    `Summary.against` says what it is compared with."""
    asked = [*results.conditions, *([None] if len(results.conditions) > 1 else [])]
    found: dict[str, list[Claim]] = {}
    for agent in results.agents:
        if agent == summary.baseline:
            continue
        for condition in asked:
            name = WORDS[None] if condition is None else said(results, condition)
            met = results.conditions if condition is None else [condition]
            lines = [line for line in summary.lines if (line.condition, line.agent) == (condition, agent)]
            estimate = lines[0].improvement if lines else None
            two = (agent, summary.against(agent))
            both = [g for g in results.games if all(len(results.paired(met, a, g)) for a in two)]
            skill = [summary.skill(a, g) is not False for a in two for g in both]
            single = all(len(results.paired(met, a, g)) == 1 for a in two for g in both)
            pairs = len(both) * len(met) if single else 0
            claim = judge(*two, name, estimate, len(both), any(skill) or not both, pairs)
            known = [f"For {display_name(a)}: {words}." for a in two if (words := results.exposures(a, met))]
            sentence = " ".join([claim.sentence, *known])
            claim = replace(claim, sentence=sentence, exposure=results.exposure(met, agent))
            found.setdefault(agent, []).append(claim)
    return found


def said(results: Results, condition: Condition) -> str:
    return WORDS["id"] if condition.clean else results.name(condition)


def headline(agent: str, made: Sequence[Claim]) -> str:
    """One sentence about an agent: which verdict under which conditions, and over all of them together."""
    groups: dict[str, list[Claim]] = {}
    for claim in made:
        groups.setdefault(claim.word, []).append(claim)
    parts = [f"{TEXTS[word]} ({conditions_of(groups[word])})" for word in TEXTS if word in groups]
    return f"{display_name(agent)} against {display_name(made[0].against)}: {'; '.join(parts)}."


def conditions_of(claims: Sequence[Claim]) -> str:
    """`clean and snow`, or with what the agent met before `clean; trained on: fog; unseen: snow and rain`."""
    groups = grouped((claim.exposure, claim.condition) for claim in claims if claim.condition != WORDS[None])
    texts = [f"{word}: {listed(names)}" if word else listed(names) for word, names in groups]
    return "; ".join([*texts, *(claim.condition for claim in claims if claim.condition == WORDS[None])])


def kept(results: Results, summary: Summary) -> list[str]:
    """One sentence per agent that met augmentations before: what it keeps of its score under which shifts, and what it
    had met of these. Where no share is known, only the latter."""
    sentences = []
    for agent in [agent for agent in results.agents if results.exposures(agent)]:
        owner, name = summary.kept_of(agent), display_name(agent)
        lines = [x for x in summary.lines if x.agent == agent and x.condition and x.retention]
        parts = [_shares(results, some, word) for word, some in grouped((line.exposure, line) for line in lines)]
        of = f"what {display_name(owner)} scored above random before hardening"
        of = "its own clean score above random" if owner == agent else of
        said = f"{name} keeps, of {of}: {'; '.join(parts)}" if parts else f"{name}: {results.exposures(agent)}"
        sentences.append(f"{said}.")
    return sentences


def _shares(results: Results, lines: Sequence[Line], word: str) -> str:
    """`93 % in snow and 90 % in rain (unseen)`; of many the lowest and the highest."""
    shares = []
    for line in lines:
        if line.condition is not None and line.retention is not None:
            where = "clean" if line.condition.clean else f"in {results.name(line.condition)}"
            shares.append((line.retention.value, f"{100 * line.retention.value:.0f} % {where}"))
    texts = [text for _, text in shares]
    text = listed(texts) if len(texts) <= FEW else f"from {min(shares)[1]} to {max(shares)[1]}"
    return f"{text} ({word})" if word else text


def headlines(made: Mapping[str, Sequence[Claim]]) -> list[str]:
    """One sentence per agent. Three or more agents that are not decided anywhere, against the same agent, share one
    sentence, after the others."""
    groups: dict[str, list[str]] = {}
    for agent, cs in made.items():
        if {c.word for c in cs} == {"not decided"}:
            groups.setdefault(cs[0].against, []).append(agent)
    undecided = {against: agents for against, agents in groups.items() if len(agents) >= 3}
    together = {agent for agents in undecided.values() for agent in agents}
    lines = [headline(agent, cs) for agent, cs in made.items() if agent not in together]
    where = "under any condition, nor over all of them together"
    for against, agents in undecided.items():
        lines.append(f"Not decided {where}, against {display_name(against)}: {'; '.join(map(display_name, agents))}.")
    return lines


def by_luck(made: Mapping[str, Sequence[Claim]]) -> list[str]:
    """Among many comparisons some look decided where there is no difference: one in twenty, at 95 %."""
    count = sum(c.estimate is not None and c.estimate.low is not None for cs in made.values() for c in cs)
    if count < MANY:
        return []
    return [
        f"{count} comparisons are made here. If no agent differed from another, about one in twenty would look decided "
        "by luck alone, and more with intervals that are too narrow."
    ]


def limits(results: Results, summary: Summary, steps: Sequence[int], paper: bool) -> list[str]:
    """What these data cannot show. `steps` are the lengths of training; `paper`: the paper's figures are shown too."""
    fewest = min(seed_counts(results), default=0)
    notes = []
    if fewest > 1 and (note := interval_note(fewest, len(results.games))):
        notes.append(note)
    if fewest > 1:
        notes.append("An interval is about other seeds of the same games, not about other games or other weather.")
    for agent, games in summary.no_skill.items():
        where = "any of its games" if len(games) == len(results.games) > 1 else listed(games)
        without = "there is no skill that a shift could take."
        notes.append(f"{display_name(agent)} is not shown to beat a random player in {where}, clean: {without}")
    for agent in results.agents:
        met = [c for c in results.conditions if "trained on" in results.exposure([c], agent)]
        if met:
            where = listed(list(dict.fromkeys(c.shift for c in met)))
            about = "its scores there say nothing about shifts that it has not met"
            notes.append(f"{display_name(agent)} was trained on {where}: {about}.")
    if paper and steps and max(steps) != PAPER_STEPS:
        notes.append(
            f"The paper's agents were trained for {PAPER_STEPS:,} steps, these for {max(steps):,}. The figures are "
            "shown side by side, and neither confirms nor refutes the other."
        )
    return notes


def seed_counts(results: Results) -> list[int]:
    """The number of training seeds of each agent in each game, for agents with known seeds."""
    return [len(scores.seeds) for scores in results.scores.values() if None not in scores.seeds]


def disagreements(by_policy: dict[str, dict[str, list[Claim]]]) -> list[str]:
    """Where greedy and sampled actions lead to different verdicts, which a reader of only one of them must know."""
    if len(by_policy) < 2:
        return []
    notes = []
    (one, first), *others = by_policy.items()
    for other, second in others:
        words = {(c.agent, c.condition): c.word for made in second.values() for c in made}
        for c in [c for made in first.values() for c in made]:
            there = words.get((c.agent, c.condition), c.word)
            if there != c.word:
                about = f"{display_name(c.agent)}, {c.condition}" + (f" ({c.exposure})" if c.exposure else "")
                notes.append(f"{about}: “{c.word}” with {one} actions, “{there}” with {other} actions.")
    return notes
