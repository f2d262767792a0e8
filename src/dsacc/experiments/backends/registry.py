"""Every backend by name. A new one is one line here; its class is imported when it is asked for."""

import argparse
from importlib import import_module
from typing import Any, NamedTuple

from dsacc.errors import ConfigError
from dsacc.experiments.backends.base import Backend


class Option:
    """An option of `dsacc experiment` that only one backend has: a keyword of its class, a flag, argparse's words."""

    def __init__(self, keyword: str, flag: str, **argparse_words: Any) -> None:
        self.keyword, self.flag, self.argparse_words = keyword, flag, argparse_words


class Entry(NamedTuple):
    home: str  # module:class
    options: tuple[Option, ...] = ()


_RAY = (
    Option("address", "--address", help="HOST:PORT of a cluster, auto or local (default: RAY_ADDRESS, else local)"),
    Option("allow_open", "--allow-open-cluster", action="store_true", help="use a cluster that asks for no token"),
)
_LIMIT = "time limit of a job, after which it is queued again and continues (default: 1440)"
_DETACH = "submit the jobs and leave; the same command collects their results"
_SBATCH = "option of sbatch, such as partition=gpu"
_SLURM = (
    Option("sbatch", "--slurm", action="append", default=[], metavar="KEY=VALUE", help=_SBATCH),
    Option("minutes", "--slurm-time", type=int, default=1440, metavar="MINUTES", help=_LIMIT),
    Option("detach", "--detach", action="store_true", help=_DETACH),
    Option("executor", "--slurm-executor", choices=["slurm", "local"], default="slurm", help=argparse.SUPPRESS),
)
BACKENDS = {
    "local": Entry("dsacc.experiments.backends.local:Local"),
    "ray": Entry("dsacc.experiments.backends.ray:OnRay", _RAY),
    "slurm": Entry("dsacc.experiments.backends.slurm:OnSlurm", _SLURM),
}


def find_backend(name: str, *, workers: int | None = None, device: str = "cpu", **options: Any) -> Backend:
    """A backend by name. `options` are the keywords of its own options in `BACKENDS`."""
    if name not in BACKENDS:
        raise ConfigError(f"there is no backend {name!r}; choose {', '.join(BACKENDS)}")
    module, _, kind = BACKENDS[name].home.partition(":")
    backend: Backend = getattr(import_module(module), kind)(workers=workers, device=device, **options)
    return backend
