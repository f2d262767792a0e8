"""Write docs/api.md, the reference of all public names, from the sources: `make docs`.

    python docs/make_api.py            # writes docs/api.md
    python docs/make_api.py --check    # writes nothing; exit code 1 if the page is not up to date

Docstrings, signatures and the comments of fields come from the syntax tree. So the page does not depend on the version
of Python and needs no optional package. Settings come from `Config`, options from the parser of the command line.

Why not an existing tool: pdoc, Sphinx and mkdocstrings make a site; this is one page that reads well on GitHub and in
an editor. lazydocs and pydoc-markdown write Markdown, but print signatures as the running Python shows them and leave
out the comments that explain fields. None of them covers settings, presets and the command line, half of this page.
"""

import argparse
import ast
import re
import sys
import textwrap
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import Field, dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src"
PAGE = ROOT / "docs" / "api.md"
WIDTH = 112  # characters per line of a signature or of help

ALL = "*"  # the module's __all__, or what it defines without an underscore
# Public are the __all__ of packages, and the names in other modules that documents and examples use.
MODULES: dict[str, str] = {
    "dsacc": ALL,
    "dsacc.config": "Config make_config agent_name",
    "dsacc.agent": "register_encoder",
    "dsacc.envs.protocol": ALL,
    "dsacc.envs.atari": "Atari",
    "dsacc.envs.catch": "Catch",
    "dsacc.shifts": ALL,
    "dsacc.play": ALL,
    "dsacc.play.adapters": ALL,
    "dsacc.analysis.formats": "render",
    "dsacc.analysis.rows": "Row Condition final_rows",
    "dsacc.analysis.results": "collect Results Scores",
    "dsacc.analysis.summary": "Summary Line SeverityCurve interval_note",
    "dsacc.analysis.statistics": ALL,
    "dsacc.analysis.references": ALL,
    "dsacc.play.store": "read_rows",
    "dsacc.maths": ALL,
    "dsacc.views.insight": ALL,
    "dsacc.views.insight.clip": ALL,
    "dsacc.views.watch": ALL,
    "dsacc.views.preview": "preview",
    "dsacc.play.export": "export_onnx Exported",
    "dsacc.views.report": ALL,
    "dsacc.experiments.grids": "load_plan builtin_names Overrides",
    "dsacc.experiments.plan": "Plan Run Tests read_plan write_plan",
    "dsacc.experiments.driver": "run_experiment",
    "dsacc.experiments.scheduler": "Outcome",
    "dsacc.experiments.backends.base": "Backend Attempt Ending",
    "dsacc.experiments.backends.registry": "find_backend",
    "dsacc.experiments.backends.local": "Local",
    "dsacc.experiments.backends.ray": "OnRay",
    "dsacc.experiments.backends.slurm": "OnSlurm",
    "dsacc.experiments.status": "read_standings Standing",
    "dsacc.errors": ALL,
}
# Explained by Gymnasium, Player or Backend.
ELSEWHERE = {"reset", "step", "render", "act", "check_fits"}
ELSEWHERE |= {"open", "submit", "poll", "cancel", "adopt", "stays", "refusal", "room"}

Definition = ast.FunctionDef | ast.ClassDef | ast.Assign | ast.AnnAssign


# --- sources ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Module:
    """The source of a module and its syntax tree."""

    name: str
    text: str
    tree: ast.Module

    @property
    def public(self) -> list[str]:
        """Its __all__, or all classes and functions that it defines without an underscore."""
        for node in self.tree.body:
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
                names: list[str] = ast.literal_eval(node.value)
                return names
        defined = [n.name for n in self.tree.body if isinstance(n, ast.FunctionDef | ast.ClassDef)]
        return [name for name in defined if not name.startswith("_")]

    def segment(self, node: ast.AST) -> str:
        """The source of a node, on one line."""
        return re.sub(r"\s+", " ", ast.get_source_segment(self.text, node) or "")

    def annotation(self, node: ast.expr) -> str:
        """A type as in the source, without quotes."""
        return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else self.segment(node)

    def default(self, node: ast.expr) -> str:
        """A default as in the source; the name of a constant is replaced by its value."""
        if isinstance(node, ast.Name) and node.id.isupper():
            home, named = find(self, node.id)
            if isinstance(named, ast.Assign | ast.AnnAssign) and named.value is not None:
                return home.segment(named.value)
        return self.segment(node)

    def comment(self, node: ast.stmt) -> str:
        """The comment on the last line of a definition."""
        line = self.text.splitlines()[(node.end_lineno or 1) - 1]
        _, _, said = line.encode()[node.end_col_offset or 0 :].decode().partition("#")
        return said.strip()


@cache
def read(name: str) -> Module:
    path = SOURCE.joinpath(*name.split("."))
    package = path / "__init__.py"
    path = package if package.is_file() else path.with_suffix(".py")
    text = path.read_text(encoding="utf-8")
    return Module(name, text, ast.parse(text))


@cache
def _definitions(name: str) -> dict[str, Definition | ast.ImportFrom]:
    """What a module defines or imports at its top level, by name."""
    found: dict[str, Definition | ast.ImportFrom] = {}
    body = read(name).tree.body
    for node in [*body, *(inner for outer in body if isinstance(outer, ast.If) for inner in outer.body)]:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found[node.name] = node
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            found[ast.unparse(target)] = node
        elif isinstance(node, ast.ImportFrom):
            found |= {alias.asname or alias.name: node for alias in node.names}
    return found


def find(module: Module, name: str) -> tuple[Module, Definition]:
    """The module that defines an exported name, and the definition."""
    node = _definitions(module.name).get(name)
    if node is None:
        raise LookupError(f"{module.name} has no {name}")
    if isinstance(node, ast.ImportFrom):
        if not (node.module or "").startswith("dsacc"):
            raise LookupError(f"{name} of {module.name} comes from another package")
        return find(read(node.module or ""), next(a.name for a in node.names if name in (a.asname, a.name)))
    return module, node


def public_names() -> Iterator[tuple[str, str]]:
    """(module, name) of everything on the page, in order."""
    for module, chosen in MODULES.items():
        for name in read(module).public if chosen == ALL else chosen.split():
            yield module, name


def undocumented() -> list[str]:
    """Public names and methods without a docstring."""
    missing = []
    for module, name in public_names():
        home, node = find(read(module), name)
        if isinstance(node, ast.Assign | ast.AnnAssign):
            if not home.comment(node):
                missing.append(f"{module}.{name}")
            continue
        if not ast.get_docstring(node):
            missing.append(f"{module}.{name}")
        if isinstance(node, ast.ClassDef):
            undescribed = [m.name for m in _methods(node) if not ast.get_docstring(m) and m.name not in ELSEWHERE]
            missing += [f"{module}.{name}.{method}" for method in undescribed]
    return sorted(set(missing))


# --- names ------------------------------------------------------------------------------------------------------------


def _methods(node: ast.ClassDef) -> list[ast.FunctionDef]:
    return [m for m in node.body if isinstance(m, ast.FunctionDef) and not m.name.startswith("_")]


def _decorators(node: ast.FunctionDef | ast.ClassDef) -> set[str]:
    return {ast.unparse(d).split("(")[0] for d in node.decorator_list}


def _parameters(module: Module, node: ast.FunctionDef, bound: bool) -> list[str]:
    a = node.args
    positional = [*a.posonlyargs, *a.args]
    defaults: list[ast.expr | None] = [None] * (len(positional) - len(a.defaults)) + list(a.defaults)

    def one(arg: ast.arg, default: ast.expr | None, stars: str = "") -> str:
        text = stars + arg.arg + (f": {module.annotation(arg.annotation)}" if arg.annotation else "")
        equals = " = " if arg.annotation else "="
        return text if default is None else text + equals + module.default(default)

    said = [one(arg, default) for arg, default in zip(positional, defaults, strict=True)]
    if a.posonlyargs:
        said.insert(len(a.posonlyargs), "/")
    said = said[1:] if bound else said
    if a.vararg:
        said.append(one(a.vararg, None, "*"))
    elif a.kwonlyargs:
        said.append("*")
    said += [one(arg, default) for arg, default in zip(a.kwonlyargs, a.kw_defaults, strict=True)]
    return said + ([one(a.kwarg, None, "**")] if a.kwarg else [])


def _call(name: str, parameters: list[str], returns: str = "") -> str:
    """`name(a, b) -> c` on one line, or one parameter per line if that is too long."""
    line = f"{name}({', '.join(parameters)}){returns}"
    if len(line) <= WIDTH:
        return line
    return "\n".join([f"{name}(", *(f"    {p}," for p in parameters), f"){returns}"])


def _signature(module: Module, node: ast.FunctionDef, name: str, bound: bool = False) -> str:
    returns = f" -> {module.annotation(node.returns)}" if node.returns else ""
    return _call(name, _parameters(module, node, bound and "staticmethod" not in _decorators(node)), returns)


def _docstring(node: ast.Module | ast.FunctionDef | ast.ClassDef) -> str:
    """A docstring as Markdown, with examples in code blocks."""
    lines, out, inside = (ast.get_docstring(node) or "").splitlines(), [], False
    for line in lines:
        if line.startswith(">>>") and not inside:
            out.append("```pycon")
            inside = True
        elif inside and not line.strip():
            out.append("```")
            inside = False
        out.append(line)
    return "\n".join([*out, "```"] if inside else out)


def _fenced(text: str, language: str = "python") -> str:
    return f"```{language}\n{text}\n```"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _code(text: str) -> str:
    return f"`{_cell(text)}`" if text else ""


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(re.sub(r" +", " ", f"| {' | '.join(line)} |") for line in lines)


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + "." if text else ""


def _link(text: str, heading: str) -> str:
    """A link to a heading of the page. `_anchored` fills in the anchor: headings with the same slug are numbered."""
    return f"[`{text}`](#<{heading}>)"


def _anchored(text: str) -> str:
    anchors: dict[str, str] = {}
    count: Counter[str] = Counter()
    for heading in re.findall(r"^#+ (.*)$", text, re.MULTILINE):
        name = slug(heading)
        anchors[heading.strip("`")] = f"{name}-{count[name]}" if count[name] else name
        count[name] += 1
    return re.sub(r"\(#<([^>]*)>\)", lambda m: f"(#{anchors[m[1]]})", text)


def slug(heading: str) -> str:
    """GitHub's anchor of a heading: lower case, no punctuation except - and _, hyphens for spaces."""
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").strip().lower()
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


def _field_rows(module: Module, node: ast.ClassDef) -> list[list[str]]:
    """Name, type, default and comment of each field of a dataclass or a NamedTuple."""
    rows = []
    for line in node.body:
        if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name) and line.target.id[0] != "_":
            default = module.segment(line.value) if line.value is not None else ""
            rows.append([line.target.id, module.annotation(line.annotation), default, module.comment(line)])
    return rows


def _class(module: Module, node: ast.ClassDef, title: str) -> Iterator[str]:
    init = next((m for m in node.body if isinstance(m, ast.FunctionDef) and m.name == "__init__"), None)
    rows = _field_rows(module, node)
    if init is not None:
        yield _fenced(_signature(module, init, f"class {node.name}", bound=True).removesuffix(" -> None"))
    else:
        bases = [ast.unparse(b) for b in node.bases]
        yield _fenced(f"class {node.name}" + (f"({', '.join(bases)})" if bases else ""))
    yield _docstring(node)
    if node.name == "Config":
        yield "Its fields are the [settings](#settings)."
    if init is not None and ast.get_docstring(init):
        yield _docstring(init)
    if rows and node.name != "Config":
        head = ["field", "type", "default", "meaning"]
        columns = [i for i in range(4) if i < 2 or any(row[i] for row in rows)]
        shown = [[_code(n), _code(t), _code(d), _cell(said)] for n, t, d, said in rows]
        yield _table([head[i] for i in columns], [[row[i] for i in columns] for row in shown])
    for method in _methods(node):
        if not ast.get_docstring(method):
            continue
        marks = _decorators(method)
        if marks & {"property", "cached_property"}:
            returns = f": {module.annotation(method.returns)}" if method.returns else ""
            line = f"{method.name}{returns}"
        else:
            line = _signature(module, method, method.name, bound=True)
        mark = "classmethod " if "classmethod" in marks else ""
        yield f"#### `{title}.{method.name}`"
        yield _fenced(mark + line)
        yield _docstring(method)


def _entry(module_name: str, name: str) -> Iterator[str]:
    module, node = find(read(module_name), name)
    title = f"{module_name}.{name}"
    yield f"### `{title}`"
    if isinstance(node, ast.ClassDef):
        yield from _class(module, node, title)
    elif isinstance(node, ast.FunctionDef):
        yield _fenced(_signature(module, node, name))
        yield _docstring(node)
    else:
        yield _fenced(f"{name} = {module.segment(node.value)}" if node.value else name)
        yield _sentence(module.comment(node))


def _modules() -> Iterator[str]:
    homes: dict[tuple[str, int], str] = {}  # the title of the entry of each definition
    for module in MODULES:
        names = [name for m, name in public_names() if m == module]
        own, links = [], []
        for name in names:
            home, node = find(read(module), name)
            title = homes.setdefault((home.name, node.lineno), f"{module}.{name}")
            links.append(_link(name, title))
            if title == f"{module}.{name}":
                own.append(name)
        yield f"## `{module}`"
        yield _docstring(read(module).tree)
        yield ", ".join(links)
        for name in own:
            yield from _entry(module, name)


def _types() -> Iterator[str]:
    """The definitions of the type aliases in signatures and fields."""
    rows: dict[tuple[str, str], str] = {}
    documented = {name for _, name in public_names()}

    def look(module: Module, node: ast.AST | None) -> None:
        for part in ast.walk(node) if node is not None else ():
            if isinstance(part, ast.Constant) and isinstance(part.value, str):
                with suppress(SyntaxError):  # a string in a Literal
                    look(module, ast.parse(part.value, mode="eval"))
            if isinstance(part, ast.Name) and part.id not in documented and part.id[0] != "_":
                with suppress(LookupError):  # from Python or another package
                    home, alias = find(module, part.id)
                    if isinstance(alias, ast.Assign) and (part.id, home.segment(alias.value)) not in rows:
                        rows[part.id, home.segment(alias.value)] = home.comment(alias)
                        look(home, alias.value)

    for module_name, name in public_names():
        home, node = find(read(module_name), name)
        inside = node.body if isinstance(node, ast.ClassDef) else [node]
        for part in [n for n in inside if isinstance(n, ast.FunctionDef | ast.AnnAssign)]:
            if isinstance(part, ast.AnnAssign):
                look(home, part.annotation)
            elif part.name == "__init__" or not part.name.startswith("_"):
                for arg in ast.walk(part.args):
                    look(home, arg.annotation if isinstance(arg, ast.arg) else None)
                look(home, part.returns)
    yield "## Types in signatures"
    yield _table(["type", "is", "meaning"], [[_code(n), _code(a), _cell(rows[n, a])] for n, a in sorted(rows)])


# --- settings ---------------------------------------------------------------------------------------------------------


def _value(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return {None: "none", True: "on", False: "off"}[value]
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:g}" if isinstance(value, float) else f"`{value}`" if value else ""


def _range(f: "Field[Any]") -> str:
    from dsacc.config import choices, field_type

    kind, optional = field_type(f)
    low, high, above = (f.metadata[key] for key in ("low", "high", "above"))
    if allowed := choices(f):
        said = ", ".join(f"`{c}`" for c in allowed)
    elif kind is bool:
        said = "on, off"
    elif kind is str:
        said = "text"
    else:
        parts = [
            f"above {above:g}" if above is not None else "",
            f"from {low:g}" if low is not None else "",
            f"to {high:,}" if isinstance(high, int) else f"to {high:g}" if high is not None else "",
        ]
        said = " ".join(["whole," if kind is int else "", *parts]).strip().rstrip(",")
        said = re.sub(r" +", " ", said)
    return said + (", or none" if optional else "")


def _settings() -> Iterator[str]:
    from dsacc.config import AGENTS, GROUPS, Config, present_presets

    yield "## Settings"
    yield (
        "A setting is a keyword (`DSAC(env, noise_std=0.5)`), an option (`--noise-std 0.5`, `--clip-rewards` and "
        "`--no-clip-rewards`), a key in the `[settings]` of a grid, and a line of `config.json`. The defaults are the "
        "preset `classic`. The column of another preset is empty where it keeps the default."
    )
    yield (
        "On the command line `env` is ENV, and `constraint` follows from `--agent`: "
        + ", ".join(f"`{agent}` is {_value(constraint)}" for agent, constraint in AGENTS.items())
        + "."
    )
    presets = {name: preset for name, preset in present_presets().items() if preset}
    head = ["setting", "default", *(f"`{name}`" for name in presets), "range", "meaning"]
    for group in GROUPS:
        rows = []
        for f in (f for f in fields(Config) if f.metadata["group"] == group):
            changed = [_value(preset[f.name]) if f.name in preset else "" for preset in presets.values()]
            rows.append([f"`{f.name}`", _value(f.default), *changed, _range(f), _cell(f.metadata["help"])])
        yield f"### Settings: {group}"
        yield _table(head, rows)


# --- command line -----------------------------------------------------------------------------------------------------


def _option(action: argparse.Action) -> str:
    """`--policy {greedy,sampled} [...]`, the same in every version of Python."""
    choices = "{" + ",".join(map(str, action.choices)) + "}" if action.choices else None
    if not action.option_strings:
        value = str(action.metavar or action.dest)
        return f"{value} [{value} ...]" if action.nargs == "+" else value
    names = ", ".join(action.option_strings)
    if action.nargs == 0:
        return names
    value = choices or str(action.metavar or action.dest.upper())
    return f"{names} {value}" + (f" [{value} ...]" if action.nargs == "+" else "")


def _help(parser: argparse.ArgumentParser) -> str:
    places = " ".join(_option(a) for a in parser._actions if not a.option_strings)
    lines = [" ".join(f"{parser.prog} {places} [options]".split())]
    if parser.description:
        lines += ["", *textwrap.wrap(parser.description, WIDTH)]
    for group in parser._action_groups:
        shown = [a for a in group._group_actions if a.help != argparse.SUPPRESS and a.dest != "help"]
        if shown and group.title not in ("positional arguments", "options"):
            lines += ["", f"{group.title}:"]
        elif shown:
            lines.append("")
        for action in shown:
            said = (action.help or "") % {"default": action.default, "prog": parser.prog}
            lines.append(_option(action))
            lines += textwrap.wrap(said, WIDTH, initial_indent="    ", subsequent_indent="    ")
    return "\n".join(lines)


def _commands() -> Iterator[str]:
    from dsacc.cli import build_parser, main

    parser = build_parser()
    found = next(a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
    titles = {a.dest: a.help or "" for a in found._choices_actions}
    yield "## Command line"
    yield (
        "`dsacc COMMAND --help` prints this; `python -m dsacc` is the same command. Results go to standard output, "
        "everything else to standard error. `dsacc --version` prints the version."
    )
    _, _, codes = " ".join((main.__doc__ or "").split()).partition(": ")
    yield f"Exit codes: {codes}"
    yield _table(
        ["command", "does"], [[_link(f"dsacc {name}", f"dsacc {name}"), _cell(titles[name])] for name in titles]
    )
    for name in titles:
        yield f"### `dsacc {name}`"
        yield _fenced(_help(found.choices[name]), "text")


# --- the page ---------------------------------------------------------------------------------------------------------


def page() -> str:
    """The whole page."""
    sys.path.insert(0, str(SOURCE))  # these sources, even if another dsacc is installed
    try:
        parts = [
            "# API reference",
            "All public names. `make docs` writes this page from the sources, so change the docstrings, not this page. "
            "What is not listed here may change without notice. For an introduction read [training](training.md), "
            "[evaluation](evaluation.md), [shifts](shifts.md) and [the method](method.md) first.",
            "Names carry shapes: B states, A actions, K constraints; `q_BA` is [B, A].",
            "- [Settings](#settings): every setting, with its range and its value in each preset\n"
            "- [Command line](#command-line)\n"
            + "\n".join(f"- {_link(m, m)}" for m in MODULES)
            + "\n- [Types in signatures](#types-in-signatures)",
            *_settings(),
            *_commands(),
            *_modules(),
            *_types(),
        ]
    finally:
        sys.path.pop(0)
    return _anchored("\n\n".join(part for part in parts if part) + "\n")


def main() -> int:
    arguments = argparse.ArgumentParser(description="Write docs/api.md from the sources.")
    arguments.add_argument("--check", action="store_true", help="write nothing; fail if the page is not up to date")
    for name in undocumented():
        print(f"{name} has no docstring", file=sys.stderr)
    made = page()
    if arguments.parse_args().check:
        fresh = PAGE.is_file() and PAGE.read_text(encoding="utf-8") == made
        print("docs/api.md is up to date" if fresh else "docs/api.md is out of date: run `make docs`")
        return 0 if fresh else 1
    PAGE.write_text(made, encoding="utf-8")
    print(f"wrote docs/api.md: {len(list(public_names()))} names")
    return 0


if __name__ == "__main__":
    sys.exit(main())
