"""The first screen: the answer in one sentence, one figure that shows it, and one line on how sure it is.

Every word comes from the claims that the tables show (`verdict`). The sentence is about all conditions together where
there are several, and says so. What holds for one condition at a time is in a second line.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dsacc.analysis.names import display_name, split_name
from dsacc.analysis.references import paper_table
from dsacc.analysis.results import Results
from dsacc.analysis.statistics import Estimate
from dsacc.analysis.summary import ENOUGH_SEEDS, Summary
from dsacc.system.text import listed
from dsacc.views.report.drawing import Drawing
from dsacc.views.report.figures import Styles, exposure_note, improvement_figure, score_figure
from dsacc.views.report.verdict import TEXTS, WORDS, Claim, conditions_of, kept, odds, seed_counts

TITLE = "DSAC-C: Robust Discrete Soft-Actor Critic for Distribution Shift Scenarios"
AUTHORS = "Dexter Neo and Tsuhan Chen"
NAMED = 2  # agents that a sentence names; more are counted
ROWS = 13  # of the figure: what fits on a screen
SHARES = 4  # conditions that a sentence goes through one by one
Claims = Mapping[str, Sequence[Claim]]
PHRASES = {  # for one or several agents, in the order in which a sentence says them
    "better": "{} better",
    "hint: better": "a hint that {} better",
    "not decided": "not decided for {}",
    "hint: worse": "a hint that {} worse",
    "worse": "{} worse",
    "one seed": "one seed, so no verdict, for {}",
    "no skill": "no skill to compare for {}",
    "no data": "nothing to compare for {}",
}


@dataclass(frozen=True)
class Answer:
    sentence: str
    detail: str  # what holds for one condition at a time; may be empty
    sure: str
    figure: Drawing | None
    legend: bool  # whether the figure's marks need the page's legend


def answer(results: Results, summary: Summary, made: Claims, styles: Styles, key: str) -> Answer:
    """The first screen of one way of acting."""
    compared = any(c.estimate and c.estimate.low is not None for claims in made.values() for c in claims)
    sure = how_sure(seed_counts(results), compared)
    if compared:
        against = summary.opponents(display_name)
        rows, title = _rows(made, against)
        figure = improvement_figure(f"improvement-{key}", title, rows, exposure_note(results))
        return Answer(sentence(made, against), detail(made), sure, figure, legend=False)
    title = "Score under each condition" if len(results.conditions) > 1 else "Score"
    figure = score_figure(f"answer-{key}", title, results, summary, styles)
    first, *others = [*kept(results, summary), *_without_verdict(results, summary, made)]
    return Answer(first, " ".join(others[:1]), sure, figure, legend=len(results.agents) > 1)


def overall(claims: Sequence[Claim]) -> Claim:
    """The claim over all conditions together; where there is one condition, the claim about that."""
    return next((c for c in claims if c.condition == WORDS[None]), claims[-1])


def sentence(made: Claims, against: str) -> str:
    """`No agent is shown to be better than DSAC, over all conditions together: not decided for all 13 agents.` With one
    agent to compare it also has the probability."""
    claims = {agent: overall(found) for agent, found in made.items()}
    together = ", over all conditions together" if any(len(found) > 1 for found in made.values()) else ""
    if len(claims) == 1:
        ((agent, claim),) = claims.items()
        x, y, e = display_name(agent), display_name(claim.against), claim.estimate
        leads = {"not decided": f"Not decided whether {x} is better or worse than {y}"}
        leads |= {side: f"{x} is {side} than {y}" for side in ("better", "worse")}
        leads |= {f"hint: {side}": f"A hint that {x} is {side} than {y}" for side in ("better", "worse")}
        if e is None or claim.word not in leads:
            return claim.sentence
        return f"{leads[claim.word]}{together}: {odds(x, y, e, claim.games)}."
    groups: dict[str, list[str]] = {}
    for agent, claim in claims.items():
        groups.setdefault(claim.word, []).append(agent)
    parts = [_phrase(word, groups[word], len(claims)) for word in PHRASES if word in groups]
    shown = "better" in groups or "hint: better" in groups
    lead = f"Against {against}" if shown else f"No agent is shown to be better than {against}"
    return f"{lead}{together}: {'; '.join(parts)}."


def _phrase(word: str, agents: Sequence[str], of: int) -> str:
    few = len(agents) <= NAMED
    many = f"all {of} agents" if len(agents) == of else f"{len(agents)} of {of} agents"
    names = listed([display_name(agent) for agent in agents]) if few else many
    if PHRASES[word].endswith("{}"):
        return PHRASES[word].format(names)
    return PHRASES[word].format(f"{names} {'is' if len(agents) == 1 else 'are'}")


def detail(made: Claims) -> str:
    """What holds for one condition at a time, where there are several: for one agent which verdict where, for more how
    often each verdict was reached."""
    single = [c for found in made.values() for c in found if c.condition != WORDS[None]]
    if len(single) == len(made):
        return ""
    parts = []
    for word in TEXTS:
        found = [c for c in single if c.word == word]
        if found and len(made) == 1:
            parts.append(f"{TEXTS[word]} ({conditions_of(found)})")
        elif found:
            where = list(dict.fromkeys(c.condition for c in found))
            named = f" ({listed(where)})" if word != "not decided" and len(where) <= SHARES else ""
            parts.append(f"“{word}” in {len(found)}{named}")
    if len(made) == 1:
        return f"One condition at a time: {'; '.join(parts)}."
    return f"One agent and one condition at a time, {len(single)} comparisons: {', '.join(parts)}."


def how_sure(counts: Sequence[int], intervals: bool) -> str:
    """How many seeds there are, and what that is worth. The only place of the page that says it of one seed."""
    fewest, most = min(counts, default=1), max(counts, default=1)
    if most == 1:
        return "One seed each, so there is no interval, and another seed may give a very different score."
    seeds = f"{fewest} seeds each" if fewest == most else f"{fewest} to {most} seeds each"
    if not intervals:
        return f"{seeds}."
    if fewest >= ENOUGH_SEEDS:
        return f"{seeds}; bars are 95 % intervals over seeds of the same games."
    narrow = f"With fewer than {ENOUGH_SEEDS} they are too narrow, so a difference counts only as a hint."
    return f"{seeds}; bars are 95 % intervals over seeds. {narrow}"


def _rows(made: Claims, baseline: str) -> tuple[list[tuple[str, Claim]], str]:
    """The rows of the figure, and its title. Few comparisons are shown one by one. Of many agents, each has one row for
    all conditions together, the highest first."""
    every = [claim for found in made.values() for claim in found]
    if len(made) == 1:
        (agent,) = made
        if len(every) <= ROWS:
            return [(c.condition, c) for c in every], f"Does a run of {display_name(agent)} beat a run of {baseline}?"
    elif len(made) <= 3 and len(every) <= ROWS:
        return [(f"{display_name(c.agent)}, {c.condition}", c) for c in every], f"Does a run beat a run of {baseline}?"
    chosen = [overall(found) for found in made.values()]
    chosen.sort(key=lambda c: -c.estimate.value if c.estimate else 0.0)
    if len(chosen) > ROWS:  # those with a verdict first, in the same order
        some = sorted(chosen, key=lambda c: c.word == "not decided")[:ROWS]
        chosen = [c for c in chosen if c in some]
    several = any(len(found) > 1 for found in made.values())
    where = " All conditions together" if several else ""
    return [(display_name(c.agent), c) for c in chosen], f"Does a run beat a run of {baseline}?{where}"


def _without_verdict(results: Results, summary: Summary, made: Claims) -> list[str]:
    """What can be said where nothing can be compared with an interval: who scored higher how often, or what one agent
    keeps of its score."""
    baseline = summary.opponents(display_name)
    if not made:
        return [*_shares(results, summary), f"There is one agent, {baseline}, and nothing to compare it with."]
    claims = [overall(found) for found in made.values()]
    counted = [c for c in claims if c.word == "one seed" and c.pairs and c.estimate]
    if not counted:
        return [c.sentence for c in claims[:1]]
    if len(counted) == 1 or len({c.pairs for c in counted}) > 1:
        return [counted[0].sentence]
    of = f"{counted[0].pairs} tests" if counted[0].pairs > 1 else "one test"
    if len(counted) <= NAMED + 1:
        (first, wins), *others = [(display_name(c.agent), _wins(c)) for c in counted]
        told = [f"{first} scored higher than {baseline} in {wins}", *(f"{x} in {n}" for x, n in others)]
        return [f"Of {of}, {'; '.join(told)}."]  # names have commas in them
    more = sum(c.estimate is not None and c.estimate.value > 0.5 for c in counted)
    return [f"{more} of {len(counted)} agents scored higher than {baseline} in more than half of {of}."]


def _wins(claim: Claim) -> str:
    wins = round(2 * (claim.estimate or Estimate(0.0, None, None, 1)).value * claim.pairs) / 2
    return f"{wins:g}" + ("" if wins == int(wins) else " (a tie counts half)")


def _shares(results: Results, summary: Summary) -> list[str]:
    """`DSAC-M keeps 20 % of its clean score above random in snow and 27 % in rain.`"""
    kept_in = [
        f"{100 * line.retention.value:.0f} % in {results.name(line.condition)}"
        for line in summary.lines
        if line.condition and not line.condition.clean and line.retention
    ]
    if not 0 < len(kept_in) <= SHARES:
        return []
    return [f"{display_name(summary.baseline)} keeps, of its clean score above random: {listed(kept_in)}."]


def repeats(agents: Sequence[str], games: Sequence[str]) -> str:
    """Which part of the paper is repeated; empty for a study without its agents."""
    theirs = {game for game, _, _ in paper_table()}
    teachers = dict.fromkeys(split_name(agent)[0].partition(",")[0] for agent in agents)
    own = [display_name(a) for a in teachers if a in {agent for _, _, agent in paper_table()}]
    if not own:
        return ""
    same = [game for game in games if game in theirs]
    if not same:
        return (
            f"{listed(own)} {'is' if len(own) == 1 else 'are'} from this paper; the games here are not among its games:"
        )
    return f"Repeats, in {len(same)} of its {len(theirs)} games, the test that this paper makes of {listed(own)}:"
