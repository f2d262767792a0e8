"""The settings of one run, checked on construction, with the hash that is the run's id."""

import hashlib
import json
from dataclasses import dataclass, fields

from dsacc.config.fields import Fields
from dsacc.config.names import agent_name
from dsacc.config.options import checked
from dsacc.config.rules import check


@dataclass(frozen=True)
class Config(Fields):
    """The settings of one run. Defaults are the preset `classic`."""

    def __post_init__(self) -> None:
        for f in fields(self):
            object.__setattr__(self, f.name, checked(f, getattr(self, f.name)))
        check(self)

    @property
    def agent(self) -> str:
        """The paper's name of the agent: `dsac`, `dsac-m`, `dsac-v` or `dsac-mv`."""
        return agent_name(self.constraint)

    @property
    def most_steps(self) -> int:
        """The largest n that a minibatch of the run may need, in agent steps."""
        return max(self.n_step, self.n_step_final or 1)

    @property
    def run_id(self) -> str:
        """Sixteen hex digits of the settings' content: the same settings have the same id on any machine.

        Settings at their default are left out, so that a new setting changes no id.
        """
        content = {f.name: getattr(self, f.name) for f in fields(self) if getattr(self, f.name) != f.default}
        text = json.dumps(content, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def run_name(self) -> str:
        """`Breakout-dsac-m-s0-1a2b3c4d`: the name of the run's folder where nobody chose another."""
        return f"{self.env.replace('/', '-')}-{self.agent}-s{self.seed}-{self.run_id[:8]}"
