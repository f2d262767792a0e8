"""Where runs are executed. A backend starts `dsacc.experiments.task` for every name and tells how each ended."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from dsacc.errors import ConfigError
from dsacc.experiments.plan import Plan

BACKENDS = ("local", "ray", "slurm")


@dataclass(frozen=True)
class Outcome:
    """How a run ended, after its last attempt."""

    name: str
    ok: bool
    error: str | None
    seconds: float  # of wall-clock, all attempts
    attempts: int
    node: str  # host:pid, or what the backend calls it


class Backend(Protocol):
    """Executes tasks. A run that fails does not stop the others: it is tried again, then told."""

    def execute(self, plan: Plan, out: Path, names: Sequence[str], told: Callable[[Outcome], None]) -> None:
        """Perform the named runs of `plan`, which is in OUT/plan.json, and tell of each once. Where a signal comes
        (`Stopped`, `KeyboardInterrupt`), tasks are asked to save and the exception goes on."""


def find_backend(name: str, *, workers: int | None = None, retries: int = 1, device: str = "cpu") -> Backend:
    """A backend by name; what it needs beyond Python is imported only then."""
    if name == "local":
        from dsacc.experiments.backends.local import Local

        return Local(workers, retries, device)
    raise ConfigError(f"the backend {name!r} is not there yet; use local")
