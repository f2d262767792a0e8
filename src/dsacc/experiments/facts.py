"""What must be known of an environment before a run of it starts: its name, what an agent sees, the memory needed."""

from contextlib import closing
from dataclasses import dataclass
from functools import cache

import numpy as np

from dsacc.agent.observation import ObservationSpec
from dsacc.config import Config, default_preset
from dsacc.envs import Observations, check_actions, env_name, frame_stack, make_env
from dsacc.envs.protocol import LimitsTests
from dsacc.errors import DsaccError
from dsacc.experiments.plan import Run
from dsacc.replay import memory_needed

PROCESS_BYTES = 500_000_000  # Python, torch, the networks and their optimisers, without the replay


@dataclass(frozen=True)
class EnvFacts:
    """An environment as `make_env(source)` makes it."""

    source: str
    name: str  # as config.json has it
    spec: ObservationSpec
    stack: int
    is_image: bool
    test_steps: int | None  # limit of a test game; None if the environment sets none

    @property
    def state_bytes(self) -> int:
        """Bytes of one state that a student learns from: as it is, and as the network sees it."""
        return 2 * int(np.prod(self.spec.shape))

    @property
    def preset(self) -> str:
        """The preset that `dsacc train` takes if none is named."""
        return default_preset(self.spec.has_pictures)

    def memory(self, config: Config, steps: int) -> int:
        """Bytes of a process that trains `steps` agent steps on it."""
        return PROCESS_BYTES + memory_needed(config, self.spec, self.stack, steps)


@cache
def facts_of(source: str) -> EnvFacts:
    """Make the environment and look at it, once per process. An EnvError says why we cannot use it."""
    with closing(make_env(source)) as env:
        check_actions(env)
        observations = Observations(env.observation_space)
        inner = env.unwrapped
        limit = inner.test_steps if isinstance(inner, LimitsTests) else None
        return EnvFacts(source, env_name(env), observations.spec, frame_stack(env), observations.is_image, limit)


def memory_of(run: Run) -> int:
    """Bytes that the run's process will take at most, its students included: these come after the replay is gone."""
    try:
        facts = facts_of(run.source or run.env)
        states = max((stage.states for stage in run.harden), default=0)
        return max(facts.memory(run.config, run.steps), PROCESS_BYTES + states * facts.state_bytes)
    except DsaccError:  # the run's own process will say why
        return PROCESS_BYTES
