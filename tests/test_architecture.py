"""Imports go one way: a room imports only rooms before it."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "dsacc"
LEVELS = [
    {"errors"},
    {"system"},
    {"analysis"},
    {"settings"},
    {"config"},
    {"maths"},
    {"agent"},
    {"envs"},
    {"shifts", "replay"},
    {"runs"},
    {"training"},
    {"dsac"},
    {"play"},
    {"hardening"},
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


def modules() -> dict[str, Path]:
    """Every module by its dotted name; a package is its __init__.py."""
    parts = {path: path.relative_to(SOURCE.parent).with_suffix("").parts for path in FILES}
    return {".".join(p[:-1] if p[-1] == "__init__" else p): path for path, p in parts.items()}


def imported_modules(path: Path, known: dict[str, Path]) -> set[str]:
    """Modules of ours that a file imports: at its top, in a function, or with `import_module`, from texts such as
    "dsacc.module:name". Importing a module does not count as importing the package it is in."""
    found, text = set(), path.read_text(encoding="utf-8")
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and node.module:
            below = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {name if name in known else node.module for name in below}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and "import_module" in text:
            found.add(node.value.partition(":")[0])
    return found & known.keys()


def cycle_in(imports: dict[str, set[str]]) -> list[str]:
    """Modules that import each other in a ring, the first again at the end; empty if there is none."""
    done: set[str] = set()

    def search(name: str, way: list[str]) -> list[str]:
        if name in way:
            return [*way[way.index(name) :], name]
        if name not in done:
            for other in sorted(imports.get(name, ())):
                if ring := search(other, [*way, name]):
                    return ring
            done.add(name)
        return []

    return next((ring for name in sorted(imports) if (ring := search(name, []))), [])


def test_no_modules_import_each_other_in_a_ring_not_even_lazily():
    known = modules()
    imports = {name: imported_modules(path, known) - {name} for name, path in known.items()}
    assert cycle_in(imports) == []


def test_a_ring_is_found_also_through_lazy_imports_and_import_module(tmp_path):
    known = {"dsacc.a": tmp_path / "a.py", "dsacc.b": tmp_path / "b.py", "dsacc.c": tmp_path / "c.py"}
    known["dsacc.a"].write_text("from dsacc import b")
    known["dsacc.b"].write_text("def f():\n    import dsacc.c")
    known["dsacc.c"].write_text('import_module("dsacc.a:A".split(":")[0])')
    imports = {name: imported_modules(path, known) for name, path in known.items()}
    assert cycle_in(imports) == ["dsacc.a", "dsacc.b", "dsacc.c", "dsacc.a"]
    assert cycle_in({**imports, "dsacc.c": set()}) == []


def test_analysis_loads_neither_torch_nor_opencv_and_imports_errors_and_system_alone():
    analysis = SOURCE / "analysis"
    for path in analysis.rglob("*.py"):
        assert imported_rooms(path) <= {"analysis", "errors", "system"}, path
    modules = ", ".join(f"dsacc.analysis.{path.stem}" for path in analysis.glob("*.py") if path.stem != "__init__")
    program = f"import sys, dsacc.analysis, {modules}; print(sorted({{'torch', 'cv2'}} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_order_that_contributors_read_is_the_one_that_is_checked():
    text = (SOURCE.parents[1] / "CONTRIBUTING.md").read_text(encoding="utf-8")
    order = text.split("checks it: ")[1].split(". What a lower room")[0]
    assert [set(re.findall(r"`(\w+)`", rooms)) for rooms in order.split("→")] == LEVELS[:-1]


def test_maths_imports_only_torch_numpy_and_the_standard_library():
    allowed = {"torch", "numpy", "dsacc", "typing", "dataclasses", "math"}
    for path in (SOURCE / "maths").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            modules = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                modules = [node.module or ""]
            for module in modules:
                assert module.split(".")[0] in allowed, (path, module)


def test_nothing_unpickles_or_evaluates():
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                name = ast.unparse(node.func)
                assert name not in {"eval", "exec", "torch.load", "pickle.load", "pickle.loads"}, (path, name)


# What runs code by its name. A name from a file goes through `dsacc.system.trust` first; whoever is added here has seen
# to that.
RUNS_CODE = {
    "import_module": {
        "__init__.py",
        "experiments/backends/cluster.py",
        "experiments/backends/registry.py",
        "experiments/backends/slurm_job.py",
        "play/adapters/base.py",
        "system/imports.py",
    },
    "import_here": {"agent/encoders.py", "cli/parser.py", "envs/__init__.py", "play/adapters/function.py"},
    "make_env": {
        "cli/demo_pictures.py",
        "envs/__init__.py",
        "experiments/facts.py",
        "views/insight/clip.py",
        "views/preview.py",
        "views/watch/play.py",
    },
    "__import__": set(),
    "eval": set(),
    "exec": set(),
    "run_path": set(),
    "run_module": set(),
    "find_spec": {"system/imports.py", "views/watch/film.py"},
    "exec_module": {"system/imports.py"},
    "load_alone": {"envs/minatar.py"},
}


def called_names(path: Path) -> set[str]:
    calls = [node.func for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.Call)]
    return {f.id for f in calls if isinstance(f, ast.Name)} | {
        f.attr
        for f in calls
        if isinstance(f, ast.Attribute) and f.attr != "eval"  # of a network
    }


@pytest.mark.parametrize("name", RUNS_CODE)
def test_code_is_run_by_its_name_only_where_the_name_was_checked(name):
    found = {path.relative_to(SOURCE).as_posix() for path in FILES if name in called_names(path)}
    assert found == RUNS_CODE[name]


def test_only_one_file_parses_json_and_toml():
    """`system/plain.py` refuses what would end in a traceback later; nobody may go around it."""
    parses = re.compile(r"\bjson\.loads?\b|JSONDecoder|tomllib|from json import")
    found = [path.relative_to(SOURCE) for path in FILES if parses.search(path.read_text(encoding="utf-8"))]
    assert found == [Path("system/plain.py")]
