"""Names that tell agents apart: what differs between them becomes a part of their names, so that no mean is over agents
that differ in more than their seed."""

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dsacc.analysis.names import split_name, with_label
from dsacc.system.text import printable

NOT_SETTINGS = ("env", "seed", "constraint", "log_every", "checkpoint_every")  # an agent stays the same without these
RECIPE = ("updates", "states", "rounds", "fresh", "values")  # of a student; what it met is in its name


def made_with(
    config: Mapping[str, Any], environment: Mapping[str, Any] | None = None, steps: int | None = None
) -> dict[str, Any]:
    """Everything that a trained agent depends on apart from its seed: settings, wrappers and arguments of its
    environment (a record of `dsacc.envs.record`), and steps of training."""
    settings = dict(config)
    if environment:
        settings |= environment["settings"]
        settings["wrappers"] = ", ".join(environment["wrappers"]) or "none"
    return settings if steps is None else {**settings, "steps": steps}


@dataclass(frozen=True)
class Contender:
    """An agent that is tested: its name, the game, what it was made with, and where it is kept."""

    agent: str
    game: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    recipe: Mapping[str, Any] = field(default_factory=dict)  # how it was hardened
    seed: int | None = None
    identity: Hashable = None  # equal for the same trained agent
    file: str = ""  # the file or folder that it was read from
    foreign: bool = False  # from another library: its file does not tell its settings

    @property
    def family(self) -> str:
        """The name before hardening."""
        return split_name(self.agent)[0]


def told_apart(tested: Sequence[Contender]) -> list[str]:
    """The name of each agent. Those of one name in one game with different settings get these settings as a part of it.
    So do the students of such agents, whose teachers are found by name.

    What is still not told apart gets the name of its file: agents of one seed that are not the same, and several agents
    of another library.

    >>> told_apart([Contender("dsac-m", "Catch", {"gamma": x, "seed": i}) for i, x in enumerate([0.99, 0.5])])
    ['dsac-m, gamma 0.99', 'dsac-m, gamma 0.5']
    """
    named = []
    for one in tested:
        like = [x for x in tested if x.family == one.family]
        title = with_label(one.agent, _words(one.settings, _differing([(x.agent, x.game, x.settings) for x in like])))
        if one.recipe:
            how = [(x.agent, x.game, {name: x.recipe.get(name) for name in RECIPE}) for x in like if x.recipe]
            title = _in_brackets(title, _words(one.recipe, _differing([x for x in how if x[0] == one.agent])))
        named.append(title)
    return _by_file(tested, named)


def _differing(found: Sequence[tuple[str, str, Mapping[str, Any]]]) -> list[str]:
    """The settings in which agents of one name differ in one game."""
    groups: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for agent, game, settings in found:
        if settings:
            groups.setdefault((agent, game), []).append(settings)
    differing: dict[str, None] = {}
    for group in groups.values():
        names = dict.fromkeys(name for settings in group for name in settings if name not in NOT_SETTINGS)
        differing |= dict.fromkeys(n for n in names if len({repr(settings.get(n)) for settings in group}) > 1)
    return list(differing)


def _words(settings: Mapping[str, Any], names: Sequence[str]) -> str:
    return ", ".join(printable(f"{name} {settings.get(name)}", 60) for name in names) if settings else ""


def _in_brackets(agent: str, words: str) -> str:
    """`dsac-m, hardened (updates 10)`: how it was hardened stays behind the name of its teacher."""
    if not words:
        return agent
    return f"{agent.removesuffix(')')}, {words})" if agent.endswith(")") else f"{agent} ({words})"


def _by_file(tested: Sequence[Contender], named: Sequence[str]) -> list[str]:
    keys = [(name, one.game) for name, one in zip(named, tested, strict=True)]
    runs: dict[Hashable, set[Hashable]] = {}
    for key, one in zip(keys, tested, strict=True):
        runs.setdefault((*key, None if one.foreign else one.seed), set()).add(one.identity)
    unclear = {run[:2] for run, found in runs.items() if isinstance(run, tuple) and len(found) > 1}
    stems = Counter((key, _stem(one.file)) for key, one in zip(keys, tested, strict=True))
    titles = []
    for key, one in zip(keys, tested, strict=True):
        stem = _stem(one.file)
        file = stem if stems[key, stem] == 1 else one.file
        titles.append(with_label(key[0], printable(file, 60)) if key in unclear and file else key[0])
    return titles


def _stem(file: str) -> str:
    name = file.rstrip("/").replace("\\", "/").rpartition("/")[2]
    return name.removesuffix(".zip").removesuffix(".safetensors").removesuffix(".onnx")
