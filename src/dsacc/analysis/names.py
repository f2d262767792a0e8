"""Names of agents and shifts: in which order tables show them, and how people read them.

Our agents are `dsac` and `dsac-` with letters for its constraints. No agent is listed here one by one, so that an agent
with a new constraint needs no change.
"""

import re
from collections.abc import Iterable

PAPER_SHIFTS = ("id", "snow", "rain", "fog")  # the paper's four conditions; id is the clean screen
_OWN = r"dsac(-[a-z]+)?"


def in_agent_order(agents: Iterable[str]) -> list[str]:
    """Each agent once: ours first, shorter names before longer ones, then the others as they come.

    >>> in_agent_order(["random", "dsac-mv", "dsac-v", "dsac-m", "dsac", "random"])
    ['dsac', 'dsac-m', 'dsac-v', 'dsac-mv', 'random']
    """
    unique = list(dict.fromkeys(agents))
    own = [agent for agent in unique if re.fullmatch(_OWN, agent)]
    return sorted(own, key=lambda agent: (len(agent), agent)) + [agent for agent in unique if agent not in own]


def in_shift_order(shifts: Iterable[str]) -> list[str]:
    """Each shift once: the clean screen, the paper's three, then the others as they come."""
    unique = list(dict.fromkeys(shifts))
    return [s for s in PAPER_SHIFTS if s in unique] + [s for s in unique if s not in PAPER_SHIFTS]


def display_name(agent: str) -> str:
    """`DSAC-M`, `DSAC-M, no noise`. Names that are not ours stay as they are."""
    first, comma, rest = agent.partition(",")
    return (first.upper() if re.fullmatch(_OWN, first) else first) + comma + rest


def with_display_names(text: str) -> str:
    """A sentence with our agents written as in the paper."""
    return re.sub(rf"\b{_OWN}\b", lambda name: name[0].upper(), text)
