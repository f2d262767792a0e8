"""Vectors of environments, as Gymnasium and Stable-Baselines3 have them, answered with the line that does the same."""

from typing import Any

import gymnasium as gym

from dsacc.envs import EnvSource, copies
from dsacc.errors import EnvError

Env = gym.Env[Any, Any]


def one_env(source: EnvSource) -> Env:
    """The environment itself, or one of its name or from its function."""
    refuse_vector(source)
    return source if isinstance(source, gym.Env) else copies(source, 1)[0]


def refuse_vector(source: Any) -> None:
    """Raise an EnvError for a vector of environments. Here an agent makes and steps several itself: `envs=4`."""
    count = getattr(source, "num_envs", None)
    if not isinstance(count, int) or isinstance(source, gym.Env | type):
        return
    name = _plain_name(source)
    several = f", envs={count}" if count > 1 else ""
    line = f'DSAC("{name}"{several})' if name else f"DSAC(make{several}), where make() returns one environment"
    raise EnvError(f"{type(source).__name__} is a vector of {count} environment(s); here that is {line}")


def _plain_name(vector: Any) -> str | None:
    """The id that all of them were made by, if nothing is wrapped around it that the id does not say."""
    if hasattr(vector, "venv") or isinstance(vector, gym.vector.VectorWrapper):
        return None
    try:
        spec: Any = vector.spec if isinstance(vector, gym.vector.VectorEnv) else vector.get_attr("spec")[0]
        wrappers = {wrapper.name for wrapper in spec.additional_wrappers}
        return str(spec.id) if wrappers <= {"Monitor"} else None  # Monitor only counts, as we do ourselves
    except (AttributeError, IndexError, TypeError):
        return None
