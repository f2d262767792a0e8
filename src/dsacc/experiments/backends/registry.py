"""Every backend by name. A new one is a line here; its class is imported when it is asked for."""

import argparse
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from dsacc.errors import ConfigError
from dsacc.experiments.backends.base import Backend


@dataclass(frozen=True)
class Entry:
    """Where a backend is, and the options that it alone has."""

    home: str  # module:class
    options: Mapping[str, tuple[str, dict[str, Any]]] = field(default_factory=dict)
    # keyword of the class -> flag of `dsacc experiment`, and how argparse adds it


BACKENDS: dict[str, Entry] = {
    "local": Entry("dsacc.experiments.backends.local:Local"),
    "ray": Entry(
        "dsacc.experiments.backends.ray:OnRay",
        {
            "address": ("--address", {"help": "HOST:PORT of a cluster, auto or local (default: RAY_ADDRESS or local)"}),
            "allow_open": (
                "--allow-open-cluster",
                {"action": "store_true", "help": "use a cluster that asks for no token"},
            ),
        },
    ),
    "slurm": Entry(
        "dsacc.experiments.backends.slurm:OnSlurm",
        {
            "sbatch": (
                "--slurm",
                {
                    "action": "append",
                    "default": [],
                    "metavar": "KEY=VALUE",
                    "help": "option of sbatch, such as partition=gpu",
                },
            ),
            "minutes": (
                "--slurm-time",
                {
                    "type": int,
                    "default": 1440,
                    "metavar": "MINUTES",
                    "help": "time limit of a job, after which it is queued again and continues (default: 1440)",
                },
            ),
            "detach": (
                "--detach",
                {"action": "store_true", "help": "submit the jobs and leave; the same command collects their results"},
            ),
            "executor": (
                "--slurm-executor",
                {"choices": ["slurm", "local"], "default": "slurm", "help": argparse.SUPPRESS},
            ),
        },
    ),
}


def find_backend(name: str, *, workers: int | None = None, device: str = "cpu", **options: Any) -> Backend:
    """A backend by name, with the options of its entry in `BACKENDS`."""
    if name not in BACKENDS:
        raise ConfigError(f"there is no backend {name!r}; choose {', '.join(BACKENDS)}")
    module, _, kind = BACKENDS[name].home.partition(":")
    backend: Backend = getattr(import_module(module), kind)(workers=workers, device=device, **options)
    return backend
