"""One row of an evaluation: which agent was tested, under which condition, and the score of every episode."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from dsacc.analysis.references import game_name
from dsacc.errors import ConfigError
from dsacc.system import seals
from dsacc.system.types import EXPOSURES

Seed = int | None  # None for what we did not train: a random player, a callable, another library's agent


@dataclass(frozen=True)
class Condition:
    """What the agent saw: `id` is the clean screen; else a shift, how strong, and how it moves from frame to frame."""

    shift: str
    severity: int | str | None = None
    mode: str | None = None

    @property
    def clean(self) -> bool:
        """Whether nothing was shifted."""
        return self.shift == "id"

    @property
    def words(self) -> str:
        """`clean`, `snow paper independent`."""
        parts = (self.shift, self.severity, self.mode)
        return "clean" if self.clean else " ".join(str(part) for part in parts if part is not None)


@dataclass(frozen=True)
class Row:
    """The tests of one agent under one condition. The fields are the keys of the JSON object, in this order."""

    env: str
    agent: str
    train_seed: Seed
    eval_seed: int | None
    step: int | None  # agent steps of training; None where nobody knows
    shift: str
    severity: int | str | None  # None for id
    mode: str | None  # None for id
    policy: str  # greedy or sampled
    where: str | None = None  # screen or observation, only where it was asked for
    exposure: str | None = None  # what a hardened agent met of this shift before: unseen, near or trained on
    returns: list[float] = field(default_factory=list)  # raw score of each episode
    lengths: list[int] = field(default_factory=list)  # agent steps of each episode
    top_action: list[float] | None = None  # share of the steps of each episode with its most frequent action, if known
    run: str | None = None  # in an experiment's results.json: the run's name
    variant: str | None = None  # and the label of its settings, which may be empty

    @classmethod
    def from_json(cls, content: Any) -> "Row":
        """The row in a JSON object. Raises a ConfigError that says what is wrong with it, also where its sha256 does
        not hold. Unknown keys are left out, and do not count for the sha256."""
        if not isinstance(content, Mapping):
            raise ConfigError(f"a row of tests must be an object, not {type(content).__name__}")
        row = {"severity": None, "mode": None, **{key: content[key] for key in _KEYS if key in content}}
        if missing := [key for key in _REQUIRED if key not in row]:
            raise ConfigError(f"a row of tests has no {missing[0]!r}")
        for key, value in row.items():
            if not _CHECKS[key](value):
                raise ConfigError(f"a row of tests has {str(value)[:80]!r} as {key!r}")
        if not row["returns"] or len(row["returns"]) != len(row["lengths"]):
            raise ConfigError("a row of tests needs one return and one length per episode")
        if row.get("top_action") is not None and len(row["top_action"]) != len(row["returns"]):
            raise ConfigError("a row of tests needs a share of its most frequent action for every episode, or none")
        found = cls(**row)
        if seals.is_sealed(content) and content[seals.KEY] != found.seal:
            raise ConfigError(f"a row of tests {seals.CHANGED}")
        return found

    def to_json(self) -> dict[str, Any]:
        """The JSON object. `where`, `exposure`, `top_action`, `run` and `variant` are left out where they are None."""
        content = {key: getattr(self, key) for key in _KEYS}
        return {k: v for k, v in content.items() if v is not None or k not in _LEFT_OUT}

    @property
    def seal(self) -> str:
        """The sha256 of everything that is known here. A key that is missing is the same as null."""
        return seals.seal({k: v for k, v in self.to_json().items() if v is not None})

    def sealed(self) -> dict[str, Any]:
        """The JSON object as it is written to a file: with its sha256, by which a change on disk is noticed."""
        return {**self.to_json(), seals.KEY: self.seal}

    @property
    def condition(self) -> Condition:
        """What the agent saw, with a level such as "3" as a number and with the place of the shift in its mode."""
        if self.shift == "id":
            return Condition("id")
        severity = int(self.severity) if str(self.severity).isdigit() else self.severity  # type: ignore[arg-type]
        return Condition(self.shift, severity, f"{self.mode} on the {self.where}" if self.where else self.mode)

    @property
    def mean(self) -> float:
        """Mean score over episodes."""
        return float(np.mean(self.returns))

    @property
    def held_one_action(self) -> bool:
        """Whether every step of each episode was the same action, as far as that is known."""
        return self.top_action is not None and min(self.top_action) == 1.0

    def first(self, episodes: int) -> "Row":
        """The same with so many of its episodes at most."""
        top = None if self.top_action is None else self.top_action[:episodes]
        return replace(self, returns=self.returns[:episodes], lengths=self.lengths[:episodes], top_action=top)

    def extended(self, returns: Sequence[float], lengths: Sequence[int], top_action: Sequence[float]) -> "Row":
        """The same with more episodes. Where `top_action` is not known of those before, it stays unknown."""
        known = self.top_action if self.returns else []
        top = None if known is None else [*known, *top_action]
        return replace(self, returns=[*self.returns, *returns], lengths=[*self.lengths, *lengths], top_action=top)


def as_rows(rows: Iterable[Row | Mapping[str, Any]]) -> list[Row]:
    """Rows, whether they come typed or as the dicts that `dsacc.evaluate` returns."""
    return [row if isinstance(row, Row) else Row.from_json(row) for row in rows]


@dataclass(frozen=True)
class ParsedRows:
    """What a file of rows holds."""

    rows: list[Row]
    problems: list[str]  # a sentence about each entry that is not a row, or not as it was written
    unchecked: int = 0  # rows without a sha256


def parse_rows(content: Any) -> ParsedRows:
    """The rows in the content of a JSON file."""
    if not isinstance(content, list):
        return ParsedRows([], ["it is not a list of rows"])
    rows, problems, unchecked = [], [], 0
    for number, entry in enumerate(content, start=1):
        try:
            rows.append(Row.from_json(entry))
            unchecked += not seals.is_sealed(entry)
        except ConfigError as error:
            problems.append(f"row {number} of {len(content)}: {error}")
    return ParsedRows(rows, problems, unchecked)


def final_rows(rows: Sequence[Row], steps: int | None = None) -> list[Row]:
    """The tests of the trained agents, without those that were made during training.

    They are the tests after `steps` of training, the number that was asked for. Where that is not known, they are the
    tests at the latest step of each run. A run is a game, an agent, a variant and a training seed.
    """
    if steps is not None:
        return [row for row in rows if row.step == steps]
    latest: dict[tuple[Any, ...], int] = {}
    for row in rows:
        latest[_run_of(row)] = max(latest.get(_run_of(row), 0), row.step or 0)
    return [row for row in rows if (row.step or 0) == latest[_run_of(row)]]


def _run_of(row: Row) -> tuple[Any, ...]:
    return game_name(row.env), row.agent, row.variant, row.train_seed


def is_whole(value: Any) -> bool:
    """Whether it is a whole number from 0 on."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def is_finite(value: Any) -> bool:
    """Whether it is a number that can be calculated with."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and abs(value) < 1e300 and math.isfinite(value)


_CHECKS: dict[str, Callable[[Any], bool]] = {
    **dict.fromkeys(("env", "agent", "shift", "policy"), lambda x: isinstance(x, str)),
    **dict.fromkeys(("train_seed", "eval_seed", "step"), lambda x: x is None or is_whole(x)),
    "severity": lambda x: x is None or isinstance(x, str) or is_whole(x),
    **dict.fromkeys(("mode", "where", "run", "variant"), lambda x: x is None or isinstance(x, str)),
    "exposure": lambda x: x is None or x in EXPOSURES,
    **dict.fromkeys(("returns", "lengths"), lambda x: isinstance(x, list) and all(map(is_finite, x))),
    "top_action": lambda x: (
        x is None or (isinstance(x, list) and all(is_finite(share) and 0 < share <= 1 for share in x))
    ),
}
_KEYS = tuple(f.name for f in fields(Row))
_LEFT_OUT = ("where", "exposure", "top_action", "run", "variant")
_REQUIRED = ("env", "agent", "train_seed", "eval_seed", "step", "shift", "policy", "returns", "lengths")
