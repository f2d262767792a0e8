"""What can be said of a documented command or a Python block without running it: every option, name and keyword is
looked up where it is defined."""

import ast
import importlib
import inspect
import re
import shlex
import subprocess
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any, get_type_hints

from helpers.documents import ROOT

from dsacc.cli import build_parser
from dsacc.config import AGENTS, Config, default_preset, make_config
from dsacc.envs import make_env
from dsacc.envs.spaces import shows_pictures
from dsacc.experiments.grids import Overrides, load_plan
from dsacc.shifts import as_level, find_kind, names

# --- shell ------------------------------------------------------------------------------------------------------------


def shell_commands(text: str) -> list[list[str]]:
    """The words of each command; comments, `&&`, `;` and lines that go on are understood."""
    commands: list[list[str]] = []
    for line in text.replace("\\\n", " ").splitlines():
        lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        commands.append([])
        for word in lexer:
            if word in ("&&", "||", ";", "|", "&"):
                commands.append([])
            else:
                commands[-1].append(word)
    return [words for words in commands if words]


def shell_problems(text: str) -> list[str]:
    """What bash or a command of ours would refuse."""
    checked = subprocess.run(["bash", "-n"], input=text, capture_output=True, text=True, check=False)
    if checked.returncode:
        return [f"bash: {checked.stderr.strip()}"]
    return [f"{' '.join(words)}: {why}" for words in shell_commands(text) if (why := why_refused(words))]


def why_refused(words: list[str]) -> str | None:
    """Why a command would not do; None where it would, or where nothing is known of it."""
    name, rest = words[0], words[1:]
    if name == "dsacc":
        return _why_dsacc(rest)
    if name == "make":
        known = re.findall(r"^([\w-]+):(?!=)", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
        return next((f"no target {t}" for t in rest if "=" not in t and t not in known), None)
    if name == "pip":
        return next((why for word in rest if (why := _why_extra(word))), None)
    if name == "ray":
        return _why_ray(rest)
    if name == "python" and rest and rest[0].endswith(".py"):
        return None if (ROOT / rest[0]).is_file() else f"there is no {rest[0]}"
    return None


def _why_dsacc(words: list[str]) -> str | None:
    try:
        args = build_parser().parse_args(words)
    except SystemExit as ended:
        return None if ended.code == 0 else "the parser refuses it"
    try:
        _look_up(args)
    except ValueError as error:
        return str(error)
    return None


def _look_up(args: Any) -> None:
    """Names that are looked up only when the command runs; a ValueError says which is wrong."""
    if args.command == "train":
        given = {f.name: getattr(args, f.name) for f in fields(Config) if f.name in vars(args)}
        given = {k: v for k, v in given.items() if isinstance(v, bool | int | float | str | None)}
        env = make_env(args.env)
        preset = args.preset or default_preset(shows_pictures(env.observation_space))
        make_config(preset, **(given | {"constraint": AGENTS[args.agent]}))
        env.close()
    if args.command == "experiment":
        load_plan(args.grid, Overrides(args.envs, args.agents, args.seeds, args.steps, args.preset))
    if args.command == "preview":
        for env in args.envs:
            make_env(env).close()
    if args.command in ("evaluate", "watch") and args.env:
        make_env(args.env).close()
    severities = getattr(args, "severity", None) or getattr(args, "severities", None) or []
    for severity in [severities] if isinstance(severities, str) else severities:
        as_level(severity)
    for shift in [*(getattr(args, "shifts", None) or []), *getattr(args, "evaluate_shifts", [])]:
        if shift != "id" and shift not in names("vector"):
            find_kind(shift)


def _why_extra(word: str) -> str | None:
    """A folder or a wheel may have extras of ours; by its name alone dsacc is on no index."""
    if re.fullmatch(r"dsacc(\[.*\])?([=<>~].*)?", word):
        return "dsacc is on no package index"
    match = re.fullmatch(r"(?:\.|\S*dsacc\S*\.whl)\[([\w,-]+)\]", word)
    if not match:
        return None
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return next((f"no extra {e}" for e in match[1].split(",") if e not in project["optional-dependencies"]), None)


def _why_ray(words: list[str]) -> str | None:
    """Ray's own parser, which click can ask without doing anything."""
    try:
        import click
        from ray.scripts.scripts import cli
    except ImportError:
        return None
    command = cli.commands.get(words[0])
    if command is None:
        return f"ray has no {words[0]}"
    try:
        command.make_context(words[0], list(words[1:]))
    except click.ClickException as error:
        return str(error.message)
    return None


# --- Python -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Some:
    """An object of this type, of which no more is known."""

    type: Any


def python_problems(text: str) -> list[str]:
    """What Python could not import, find or call of dsacc in a block; other packages are left alone."""
    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        return [f"line {error.lineno}: {error.msg}"]
    reader = _Reader()
    reader.visit(tree)
    return reader.said


class _Reader(ast.NodeVisitor):
    def __init__(self) -> None:
        self.said: list[str] = []
        self.known: dict[str, Any] = {}

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        if (node.module or "").split(".")[0] != "dsacc":
            return
        try:
            module = importlib.import_module(node.module or "")
        except ImportError:
            self.say(node, f"there is no module {node.module}")
            return
        for alias in node.names:
            if hasattr(module, alias.name):
                self.known[alias.asname or alias.name] = getattr(module, alias.name)
            else:
                self.say(node, f"{node.module} has no {alias.name}")

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            if alias.name.split(".")[0] != "dsacc":
                continue
            try:
                importlib.import_module(alias.name)
                self.known[alias.asname or "dsacc"] = importlib.import_module(alias.name if alias.asname else "dsacc")
            except ImportError:
                self.say(node, f"there is no module {alias.name}")

    def visit_Assign(self, node: ast.Assign) -> None:
        found = self.value(node.value)
        for target in node.targets:
            if isinstance(target, ast.Name):
                self.known[target.id] = found

    def visit_Expr(self, node: ast.Expr) -> None:
        self.value(node.value)

    def generic_visit(self, node: ast.AST) -> None:
        if isinstance(node, ast.expr):
            self.value(node)
        else:
            super().generic_visit(node)

    def value(self, node: ast.expr) -> Any:
        """What an expression is, as far as that is known; None where it is not."""
        if isinstance(node, ast.Name):
            return self.known.get(node.id)
        if isinstance(node, ast.Attribute):
            return self.attribute(node)
        if isinstance(node, ast.Call):
            return self.call(node)
        if isinstance(node, ast.Lambda):
            return None  # its arguments hide names
        for inner in ast.iter_child_nodes(node):
            self.generic_visit(inner)
        return None

    def attribute(self, node: ast.Attribute) -> Any:
        owner = self.value(node.value)
        of = owner.type if isinstance(owner, _Some) else owner
        if of is None:
            return None
        if not hasattr(of, node.attr) and node.attr not in set(_assigned(of)):
            self.say(node, f"{getattr(of, '__name__', of)} has no {node.attr}")
            return None
        found = getattr(of, node.attr, None)
        return found if callable(found) or inspect.ismodule(found) else None

    def call(self, node: ast.Call) -> Any:
        function = self.value(node.func)
        for argument in [*node.args, *(keyword.value for keyword in node.keywords)]:
            self.value(argument)
        if not callable(function):
            return None
        parameters = inspect.signature(function).parameters
        loose = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
        settings = (
            {f.name for f in fields(Config)} if getattr(function, "__name__", "") in ("DSAC", "make_config") else None
        )
        for keyword in node.keywords:
            if keyword.arg is None or keyword.arg in parameters:
                continue
            if not loose or (settings is not None and keyword.arg not in settings):
                self.say(node, f"{function.__name__} takes no {keyword.arg}")
        if inspect.isclass(function):
            return _Some(function)
        try:
            returned = get_type_hints(function).get("return")
        except (NameError, TypeError):
            return None
        return _Some(returned) if inspect.isclass(returned) and returned.__module__.startswith("dsacc") else None

    def say(self, node: ast.AST, what: str) -> None:
        self.said.append(f"line {getattr(node, 'lineno', 0)}: {what}")


def _assigned(of: Any) -> Iterator[str]:
    """What instances have: fields, and what methods set on self."""
    yield from getattr(of, "__dataclass_fields__", ())
    if inspect.isclass(of):
        yield from re.findall(r"self\.(\w+)\b[^=\n]*=", inspect.getsource(of))


# --- code in a sentence -----------------------------------------------------------------------------------------------


def prose_problems(text: str) -> list[str]:
    """`dsacc ...` and `--options` that stand in a sentence and that no command knows."""
    parser = build_parser()
    commands = next(a.choices for a in parser._actions if isinstance(a.choices, dict))
    options = {option for p in [parser, *commands.values()] for option in p._option_string_actions}
    foreign = {"--requeue", "--num-cpus"}  # of sbatch and of ray
    said = []
    bare = re.sub(r"^ *```.*?^ *```", "", text, flags=re.MULTILINE | re.DOTALL)
    for code in re.findall(r"(?<!`)`([^`]+)`(?!`)", bare):
        words = shlex.split(code.replace("'", "")) if code.startswith("dsacc ") else []
        if words[1:] and words[1] not in ("COMMAND", "--version") and words[1:] not in [[name] for name in commands]:
            known = commands.get(words[1])
            why = _refused_words(words[1:], set(known._option_string_actions)) if known else "there is no such command"
            said += [f"`{code}`: {why}"] if why else []
        elif code.startswith("--"):
            name = re.split(r"[ =]", code)[0]
            said += [f"`{code}`: no command has it"] if name not in options | foreign else []
    return said


def _refused_words(words: list[str], options: set[str]) -> str | None:
    if all(word in options for word in words[1:]):
        return None  # a sentence about options, not a command
    try:
        build_parser().parse_args(words)
    except SystemExit as ended:
        return None if ended.code == 0 else "the parser refuses it"
    return None
