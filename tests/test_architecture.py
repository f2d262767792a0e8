"""Imports go one way: a room imports only rooms before it."""

import ast
import re
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "dsacc"
LEVELS = [
    {"errors"},
    {"system"},
    {"analysis"},
    {"config"},
    {"maths"},
    {"agent"},
    {"envs", "shifts", "replay"},
    {"runs"},
    {"training"},
    {"dsac"},
    {"play"},
    {"experiments"},
    {"views"},
    {"cli"},
    {"__init__", "__main__"},
]
LEVEL = {room: i for i, rooms in enumerate(LEVELS) for room in rooms}
FILES = sorted(SOURCE.rglob("*.py"))


def room_of(path: Path) -> str:
    first = path.relative_to(SOURCE).parts[0]
    return first.removesuffix(".py")


def imported_rooms(path: Path) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "dsacc":
            parts = node.module.split(".")
            names |= {parts[1]} if len(parts) > 1 else {alias.name for alias in node.names} - {"__version__"}
        elif isinstance(node, ast.Import):
            names |= {a.name.split(".")[1] for a in node.names if a.name.startswith("dsacc.")}
    return names


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_a_room_imports_only_rooms_before_it(path):
    room = room_of(path)
    for other in imported_rooms(path) - {room}:
        assert LEVEL[other] < LEVEL[room], f"{path.name} in {room} imports {other}"


def test_the_order_that_contributors_read_is_the_one_that_is_checked():
    text = (SOURCE.parents[1] / "CONTRIBUTING.md").read_text(encoding="utf-8")
    order = text.split("checks it: ")[1].split(". What a lower room")[0]
    assert [set(re.findall(r"`(\w+)`", rooms)) for rooms in order.split("→")] == LEVELS[:-1]


def test_maths_imports_only_torch_and_the_standard_library():
    for path in (SOURCE / "maths").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            modules = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                modules = [node.module or ""]
            for module in modules:
                assert module.split(".")[0] in {"torch", "dsacc", "typing", "dataclasses", "math"}, (path, module)


def test_nothing_unpickles_or_evaluates():
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                name = ast.unparse(node.func)
                assert name not in {"eval", "exec", "torch.load", "pickle.load", "pickle.loads"}, (path, name)
