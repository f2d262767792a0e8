"""The agents and encoders that settings name."""

import re
from typing import Literal

from dsacc.errors import ConfigError
from dsacc.system.text import nearest

ConstraintSetting = Literal["mean", "variance", "both"]
AGENTS: dict[str, ConstraintSetting | None] = {"dsac": None, "dsac-m": "mean", "dsac-v": "variance", "dsac-mv": "both"}

ENCODERS = ("auto", "nature", "compact", "small", "cells", "mlp")
OWN_ENCODERS: set[str] = set()  # names that `dsacc.agent.register_encoder` has added
_IN_MODULE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_][\w-]*")


def agent_name(constraint: str | None) -> str:
    """The paper's name of the agent with this constraint."""
    return next(name for name, value in AGENTS.items() if value == constraint)


def check_encoder(name: str) -> None:
    """A module is not imported here: whether it registers the name is found out when the networks are built."""
    if name in ENCODERS or name in OWN_ENCODERS or _IN_MODULE.fullmatch(name):
        return
    near = nearest(name, [*ENCODERS, *OWN_ENCODERS])
    hint = f"did you mean {near!r}?" if near else "one of your own must be registered first (register_encoder)"
    raise ConfigError(f"encoder is one of {', '.join(ENCODERS)}, or your own as MODULE:name, not {name!r}; {hint}")
