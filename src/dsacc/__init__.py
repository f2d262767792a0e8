"""Train discrete-action agents that keep working when what they see changes, and measure how well any agent does."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

import gymnasium

if TYPE_CHECKING:
    from dsacc.dsac import DSAC
    from dsacc.envs import make_env
    from dsacc.hardening import harden
    from dsacc.play import evaluate
    from dsacc.shifts import Shift

__version__ = "0.1.0"
__all__ = ["DSAC", "Shift", "evaluate", "harden", "make_env"]

if "dsacc/Catch-v0" not in gymnasium.registry:
    gymnasium.register("dsacc/Catch-v0", entry_point="dsacc.envs.catch:Catch", max_episode_steps=10_000)
for _name in ("Asterix", "Breakout", "Freeway", "Seaquest", "SpaceInvaders"):  # of the extra minatar
    if f"minatar/{_name}" not in gymnasium.registry:
        gymnasium.register(
            f"minatar/{_name}",
            entry_point="dsacc.envs.minatar:MinAtar",
            kwargs={"game": "space_invaders" if _name == "SpaceInvaders" else _name.lower()},
            max_episode_steps=10_000,  # MinAtar has no limit; Freeway ends by itself after 2,500
        )

_HOMES = {
    "DSAC": "dsacc.dsac",
    "Shift": "dsacc.shifts",
    "evaluate": "dsacc.play",
    "harden": "dsacc.hardening",
    "make_env": "dsacc.envs",
}


def __dir__() -> list[str]:
    """Also the names that have not been asked for yet, so that editors and notebooks complete them."""
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> Any:
    """Public names come when they are asked for, so that `dsacc --help` does not wait for torch."""
    if name not in _HOMES:
        raise AttributeError(f"module 'dsacc' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
