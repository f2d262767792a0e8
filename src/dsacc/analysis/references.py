"""Reference scores that come with the package: random and human players, low-data agents, the paper's table."""

import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import resources

_OTHERS = {"dsacc/Catch-v0": (2 * 2 / 7 - 1, 1.0)}  # score of a player that does not look, and the best possible


@dataclass(frozen=True)
class Reference:
    """Raw scores in one Atari game. `published` holds other agents at 100,000 steps, where they were reported."""

    random: float
    human: float
    published: dict[str, float]


@dataclass(frozen=True)
class PaperCell:
    """One entry of the paper's main table. `suspect` says why a figure cannot be right; it is empty for the others."""

    mean: float
    std: float
    suspect: str


@dataclass(frozen=True)
class Scale:
    """What a normalised score of 0 and of 1 stand for."""

    random: float
    top: float
    top_name: str  # "human", or "best possible"


@cache
def reference_scores() -> dict[str, Reference]:
    """`{"Breakout": Reference(random=1.7, human=30.5, ...), ...}` for the paper's nine games."""
    found = {}
    for line in _lines("reference_scores.csv"):
        game, random, human = (line.pop(key) for key in ("game", "random", "human"))
        found[game] = Reference(float(random), float(human), {k: float(v) for k, v in line.items() if v})
    return found


@cache
def paper_table() -> dict[tuple[str, str, str], PaperCell]:
    """The paper's results at 1,000,000 steps by (game, condition, agent): three seeds, ten episodes each."""
    found = {}
    for line in _lines("table1.csv"):
        cell = PaperCell(float(line["mean"]), float(line["std"]), line["suspect"])
        found[line["game"], line["condition"], line["agent"]] = cell
    return found


def game_name(env: str) -> str:
    """One name for all spellings of an Atari game, also where ale-py is not installed. Other names stay as they are.

    An Atari game is one of the paper's games, or a name such as `ALE/...` or `...NoFrameskip-v4`.

    >>> game_name("ALE/Breakout-v5"), game_name("ms_pacman"), game_name("CartPole-v1")
    ('Breakout', 'MsPacman', 'CartPole-v1')
    """
    bare = re.sub(r"^ALE/|(NoFrameskip)?(-v\d+)?$", "", env.strip()).replace("_", "").lower()
    known = {name.lower(): name for name in reference_scores()}
    if bare in known:
        return known[bare]
    game = re.fullmatch(r"ALE/(\w+?)(?:NoFrameskip)?(?:-v\d+)?|(\w+)NoFrameskip(?:-v\d+)?", env.strip())
    return (game[1] or game[2]) if game else env


def scale(env: str) -> Scale | None:
    """What the scores of an environment are normalised with, None where nothing is known."""
    if env in _OTHERS:
        return Scale(*_OTHERS[env], "best possible")
    reference = reference_scores().get(game_name(env))
    return None if reference is None else Scale(reference.random, reference.human, "human")


def _lines(name: str) -> Iterator[dict[str, str]]:
    text = (resources.files("dsacc.analysis") / "data" / name).read_text(encoding="utf-8")
    return iter(csv.DictReader(text.splitlines()))
