"""Attempts that were taken away: preempted, out of time, lost with their node. That is no fault of the run.

It costs no retry: the run is started again and continues. The task's file counts how often it happened, and why. A run
that is taken away `PATIENCE` times in a row at the same place would go on like this for ever, so it is given up.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from dsacc.analysis.rows import is_whole

Why = Literal["preempted", "out of time", "lost with its node", "stopped from outside"]
REASONS: tuple[Why, ...] = ("preempted", "out of time", "lost with its node", "stopped from outside")
KEYS = ("taken", "last", "idle", "reached")  # of a task's file, which its next attempt keeps
NOTHING = "nothing"  # kept by a run that has not begun
PATIENCE = 10  # times in a row without a new checkpoint or a new row of a test


def times(said: Mapping[str, Any]) -> dict[str, int]:
    """How often the task was taken away, by reason, as its file says."""
    found = said.get("taken")
    return {why: found[why] for why in REASONS if is_whole(found.get(why))} if isinstance(found, dict) else {}


def in_words(counts: Mapping[str, int]) -> str:
    """`preempted 3 times, out of time once`; empty if it was never taken away."""
    return ", ".join(f"{why} {'once' if count == 1 else f'{count} times'}" for why, count in counts.items() if count)


def note(said: Mapping[str, Any], why: Why, reached: str) -> dict[str, Any]:
    """What the task's file says after it was taken away. `reached` is what it had kept by then."""
    counts = times(said)
    idle = _idle(said) + 1 if reached == said.get("reached", NOTHING) else 0
    counts[why] = counts.get(why, 0) + 1
    ordered = {reason: counts[reason] for reason in REASONS if reason in counts}
    return {"taken": ordered, "last": why, "idle": idle, "reached": reached}


def why_given_up(said: Mapping[str, Any]) -> str | None:
    """The sentence for a run that does not get any further; None while it does."""
    idle = _idle(said)
    if idle < PATIENCE:
        return None
    return (
        f"it was taken away {idle} times in a row without getting any further (in all: {in_words(times(said))}); give "
        "it more time at once, or save more often (checkpoint_every), and use the same command again"
    )


def _idle(said: Mapping[str, Any]) -> int:
    return said["idle"] if is_whole(said.get("idle")) else 0


def kept(runs: Path, name: str) -> str:
    """What a run and its students have on disk that a next attempt need not do again: for each folder its newest
    checkpoint and how many rows of tests. It changes when something is added."""
    found = [f"step {_newest(folder)} and {_rows(folder)} rows of tests" for folder in sorted(runs.glob(f"{name}*"))]
    return ", ".join(found) or NOTHING


def _newest(folder: Path) -> int:
    steps = (path.name.removeprefix("step-") for path in (folder / "checkpoints").glob("step-*"))
    return max((int(step) for step in steps if step.isdecimal()), default=0)


def _rows(folder: Path) -> int:
    return sum(1 for _ in (folder / "evaluations").glob("*.json"))
