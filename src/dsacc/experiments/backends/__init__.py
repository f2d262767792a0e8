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


@dataclass(frozen=True)
class Options:
    """What the command line says of backends beyond this machine."""

    address: str | None = None  # of a Ray cluster
    allow_open: bool = False  # a Ray cluster that wants no token
    slurm: tuple[str, ...] = ()  # KEY=VALUE of sbatch
    slurm_minutes: int = 24 * 60  # limit of a Slurm job, after which it is requeued and goes on
    slurm_executor: str = "slurm"  # or "local", submitit's processes on this machine, to try it out
    detach: bool = False  # leave Slurm jobs alone once they are submitted


def find_backend(
    name: str,
    *,
    workers: int | None = None,
    retries: int = 1,
    device: str = "cpu",
    options: Options | None = None,
) -> Backend:
    """A backend by name; what it needs beyond Python is imported only then."""
    if workers is not None and workers < 1:
        raise ConfigError(f"--workers must be at least 1, not {workers}")
    if retries < 0:
        raise ConfigError(f"--retries must be at least 0, not {retries}")
    options = options or Options()
    if name == "local":
        from dsacc.experiments.backends.local import Local

        return Local(workers, retries, device)
    if name == "ray":
        from dsacc.experiments.backends.ray import OnRay

        return OnRay(workers, retries, device, options.address, options.allow_open)
    if name == "slurm":
        from dsacc.experiments.backends.slurm import OnSlurm

        return OnSlurm(retries, device, options)
    raise ConfigError(f"there is no backend {name!r}; there are {', '.join(BACKENDS)}")
