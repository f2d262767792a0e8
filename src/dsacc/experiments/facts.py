"""What must be known of an environment before a run of it starts: its name, what is seen there, the memory it takes."""

from dataclasses import dataclass
from functools import cache

from dsacc.agent.observation import ObservationSpec
from dsacc.config import Config, default_preset
from dsacc.envs import Observations, check_actions, env_name, frame_stack, make_env
from dsacc.replay import memory_needed

PROCESS_BYTES = 500_000_000  # Python, torch, the networks and their optimisers, without the replay


@dataclass(frozen=True)
class Place:
    """An environment as `make_env(source)` makes it."""

    source: str
    name: str  # as config.json has it
    spec: ObservationSpec
    stack: int
    is_image: bool
    actions: int
    test_steps: int | None  # where the environment limits a test game

    @property
    def preset(self) -> str:
        """The one that `dsacc train` takes where none is given."""
        return default_preset(self.is_image)

    def memory(self, config: Config, steps: int) -> int:
        """Bytes of a process that trains `steps` agent steps here."""
        return PROCESS_BYTES + memory_needed(config, self.spec, self.stack, steps)


@cache
def find_place(source: str) -> Place:
    """Look at an environment, once a process; an EnvError says why it is none for us."""
    env = make_env(source)
    try:
        actions, observations = check_actions(env), Observations(env.observation_space)
        limit = getattr(env.unwrapped, "test_steps", None)
        return Place(
            source,
            env_name(env),
            observations.spec,
            frame_stack(env),
            observations.is_image,
            actions,
            limit,
        )
    finally:
        env.close()
