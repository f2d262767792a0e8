"""Names of agents and shifts: in which order tables show them, and how people read them.

Our agents are `dsac` and `dsac-` with letters for its constraints. No agent is listed here one by one, so that an agent
with a new constraint needs no change. An agent that was hardened is named after its teacher, the agent before
hardening: `dsac-m, hardened`, or `dsac-m, hardened (near)` where something else than the default was used.
"""

import re
from collections.abc import Iterable

PAPER_SHIFTS = ("id", "snow", "rain", "fog")  # the paper's four conditions; id is the clean screen
_OWN = r"dsac(-[a-z]+)?"
_STUDENT = r"(?!blind )(.+?)(, hardened(?: \(.*\))?)"  # a blind player sees nothing, whatever it was hardened with


def in_agent_order(agents: Iterable[str]) -> list[str]:
    """Each agent once: ours first, shorter names before longer ones, then the others as they come. A hardened agent
    comes right after its teacher.

    >>> in_agent_order(["random", "dsac-mv", "dsac-v", "dsac-m", "dsac", "random"])
    ['dsac', 'dsac-m', 'dsac-v', 'dsac-mv', 'random']
    >>> in_agent_order(["dsac-m, hardened", "dsac-v", "dsac-m"])
    ['dsac-m', 'dsac-m, hardened', 'dsac-v']
    """
    families: dict[str, set[str]] = {}  # teachers in the order in which they come, each with all that is named after it
    for agent in agents:
        families.setdefault(split_name(agent)[0], set()).add(agent)
    own = sorted((x for x in families if re.fullmatch(_OWN, x)), key=lambda x: (len(x), x))
    ordered = own + [x for x in families if x not in own]
    return [agent for first in ordered for agent in sorted(families[first])]


def in_shift_order(shifts: Iterable[str]) -> list[str]:
    """Each shift once: the clean screen, the paper's three, then the others as they come."""
    unique = list(dict.fromkeys(shifts))
    return [s for s in PAPER_SHIFTS if s in unique] + [s for s in unique if s not in PAPER_SHIFTS]


def split_name(agent: str) -> tuple[str, str]:
    """The name of the agent before hardening, and what is added to it. Nothing is added where it was not hardened.

    >>> split_name("dsac-m, hardened (near)"), split_name("dsac-m, odd")
    (('dsac-m', ', hardened (near)'), ('dsac-m, odd', ''))
    """
    found = re.fullmatch(_STUDENT, agent)
    return (found[1], found[2]) if found else (agent, "")


def with_label(agent: str, label: str) -> str:
    """The name of a variant. A hardened variant still ends with how it was hardened, so that its teacher can be found.

    >>> with_label("dsac-m", "odd"), with_label("dsac-m, hardened", "odd")
    ('dsac-m, odd', 'dsac-m, odd, hardened')
    """
    first, added = split_name(agent)
    return f"{first}, {label}{added}" if label else agent


def display_name(agent: str) -> str:
    """`DSAC-M`, `DSAC-M, no noise`, `DSAC-M, hardened`. Names that are not ours stay as they are."""
    first, comma, rest = agent.partition(",")
    return (first.upper() if re.fullmatch(_OWN, first) else first) + comma + rest


def with_display_names(text: str) -> str:
    """A sentence with our agents written as in the paper."""
    return re.sub(rf"\b{_OWN}\b", lambda name: name[0].upper(), text)
