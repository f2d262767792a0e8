"""Small changes to a module's source, each of which a test should notice.

A comparison moves its boundary, an operator becomes its opposite, a number grows, a flag turns, a result becomes None,
an argument is lost or changes places, a statement is left out. Docstrings, type hints, decorators, text, and all that
makes a message or a log are left alone: what they say is not what these tests are about. So is the `strict` of a `zip`,
which checks our own code and changes no result. Of `dim=-1` the number changes and not the sign: the last dimension of
[B, A] is also number 1.
"""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

COMPARISONS: dict[type[ast.cmpop], tuple[str, str]] = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Is: ("is", "is not"),
    ast.IsNot: (r"is\s+not", "is"),
    ast.In: ("in", "not in"),
    ast.NotIn: (r"not\s+in", "in"),
}
ARITHMETIC: dict[type[ast.operator], tuple[str, str]] = {
    ast.Add: (r"\+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: (r"\*", "/"),
    ast.Div: ("/", "*"),
    ast.FloorDiv: ("//", "*"),
    ast.Mod: ("%", "*"),
    ast.Pow: (r"\*\*", "*"),
    ast.MatMult: ("@", "*"),
    ast.BitOr: (r"\|", "&"),
    ast.BitAnd: ("&", "|"),
    ast.BitXor: (r"\^", "|"),
    ast.LShift: ("<<", ">>"),
    ast.RShift: (">>", "<<"),
}
MESSAGES = re.compile(r"(print|warn|log|debug|info|warning|error|exception|write_line)")


@dataclass(frozen=True)
class Mutant:
    """One change. `before` and `after` are the lines that it is on; `lines` those of its statement."""

    path: str
    function: str  # dotted; empty at the top of a module
    lines: tuple[int, int]
    line: int
    operator: str
    before: str
    after: str
    start: int  # bytes from here
    stop: int  # to here become
    text: str  # this
    nth: int = 0  # of those with the same lines in the same function

    @property
    def name(self) -> str:
        """What stays the same when other lines of the file change."""
        return "\n".join((self.path, self.function, self.before, self.after, str(self.nth)))

    def applied(self, source: str) -> str:
        data = source.encode()
        return (data[: self.start] + self.text.encode() + data[self.stop :]).decode()


def mutants_of(source: str, path: str) -> list[Mutant]:
    """All changes of a module, from its top to its end."""
    found, seen = [], Counter[str]()
    finder = _Finder(source, path)
    for one in finder.search(ast.parse(source), finder.top):
        mutant = Mutant(**{**vars(one), "nth": seen[one.name]})
        seen[one.name] += 1
        found.append(mutant)
    return found


@dataclass(frozen=True)
class _Place:
    function: str
    lines: tuple[int, int]


class _Finder:
    top = _Place("", (1, 1))

    def __init__(self, source: str, path: str) -> None:
        self.data, self.path = source.encode(), path
        self.starts = [0]
        for line in self.data.splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(line))

    def search(self, node: ast.AST, place: _Place) -> Iterator[Mutant]:
        if _is_left_alone(node):
            return
        if isinstance(node, ast.stmt):
            place = _Place(place.function, _lines_of(node))
        yield from self.changes(node, place)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            place = _Place(f"{place.function}.{node.name}".lstrip("."), place.lines)
        for child in _children(node):
            yield from self.search(child, place)

    def changes(self, node: ast.AST, place: _Place) -> Iterator[Mutant]:
        """Those of this node itself."""
        match node:
            case ast.Compare(left, ops, comparators):
                for op, a, b in zip(ops, [left, *comparators], comparators, strict=False):
                    yield from self.between(a, b, COMPARISONS[type(op)], "comparison", place)
            case ast.BinOp(left, op, right) if not _is_union(node, place) and not _is_text(left) | _is_text(right):
                yield from self.between(left, right, ARITHMETIC[type(op)], "arithmetic", place)
            case ast.BoolOp(op, values):
                words = ("and", "or") if isinstance(op, ast.And) else ("or", "and")
                yield from self.between(values[0], values[1], words, "boolean", place)
            case ast.UnaryOp(ast.Not(), operand):
                yield self.edit(node, f"({ast.unparse(operand)})", "boolean", place)
            case ast.UnaryOp(ast.USub(), operand):
                yield self.edit(node, ast.unparse(operand), "arithmetic", place)
            case ast.AugAssign(target, op, value):
                pattern, other = ARITHMETIC[type(op)]
                yield from self.between(target, value, (f"{pattern}=", f"{other}="), "arithmetic", place)
            case ast.Constant(bool() as value):
                yield self.edit(node, str(not value), "constant", place)
            case ast.Constant(int() | float() as value):
                yield self.edit(node, _larger(value), "constant", place)
            case ast.Return(ast.expr() as value) if not (isinstance(value, ast.Constant) and value.value is None):
                yield self.edit(node, "return None", "return", place)
            case ast.Call():
                yield from self.other_arguments(node, place)
        if _can_go(node):
            yield self.edit(node, "pass", "statement", place)

    def other_arguments(self, call: ast.Call, place: _Place) -> Iterator[Mutant]:
        if isinstance(call.func, ast.Name) and call.func.id in ("isinstance", "getattr", "hasattr", "min", "max"):
            return
        for lost in call.keywords:
            if lost.arg not in (None, "strict"):
                kept = [keyword for keyword in call.keywords if keyword is not lost]
                yield self.edit(call, ast.unparse(ast.Call(call.func, call.args, kept)), "argument", place)
        first, *rest = call.args or [ast.Constant(None)]
        if rest and not isinstance(first, ast.Starred | ast.GeneratorExp) and not isinstance(rest[0], ast.Starred):
            swapped = ast.unparse(ast.Call(call.func, [rest[0], first, *rest[1:]], call.keywords))
            if swapped != ast.unparse(call):
                yield self.edit(call, swapped, "argument", place)

    def between(
        self, a: ast.expr, b: ast.expr, words: tuple[str, str], operator: str, place: _Place
    ) -> Iterator[Mutant]:
        """The operator between two operands, replaced."""
        start, stop = self.offset(a.end_lineno, a.end_col_offset), self.offset(b.lineno, b.col_offset)
        if found := re.search(words[0], self.data[start:stop].decode()):
            before = self.data[start:stop].decode()[: found.start()].encode()
            start += len(before)
            yield self.change(start, start + len(found[0].encode()), words[1], operator, place)

    def edit(self, node: ast.AST, text: str, operator: str, place: _Place) -> Mutant:
        assert isinstance(node, ast.expr | ast.stmt)
        start, stop = self.offset(node.lineno, node.col_offset), self.offset(node.end_lineno, node.end_col_offset)
        return self.change(start, stop, text, operator, place)

    def change(self, start: int, stop: int, text: str, operator: str, place: _Place) -> Mutant:
        line = self.data.count(b"\n", 0, start) + 1
        first, last = self.starts[line - 1], self.data.find(b"\n", stop) % (len(self.data) + 1)
        before = self.data[first:last]
        after = self.data[first:start] + text.encode() + self.data[stop:last]
        shown = (" ".join(part.decode().split()) for part in (before, after))
        return Mutant(self.path, place.function, place.lines, line, operator, *shown, start, stop, text)

    def offset(self, line: int | None, column: int | None) -> int:
        return self.starts[(line or 1) - 1] + (column or 0)


def _is_left_alone(node: ast.AST) -> bool:
    match node:
        case ast.JoinedStr() | ast.Import() | ast.ImportFrom():
            return True
        case ast.Call(func=ast.Name(id=name)) | ast.Call(func=ast.Attribute(attr=name)):
            return MESSAGES.fullmatch(name) is not None
        case ast.If(test=ast.Name(id="TYPE_CHECKING")) | ast.FunctionDef(name="__repr__" | "__str__"):
            return True
        case ast.Expr(ast.Call(func=ast.Name(id=name)) | ast.Call(func=ast.Attribute(attr=name))):
            return MESSAGES.fullmatch(name) is not None
        case ast.keyword(arg="strict"):
            return True
    return False


def _children(node: ast.AST) -> Iterator[ast.AST]:
    """What is inside, without type hints, decorators and the text of errors."""
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "type_params", "msg"):
            continue
        if isinstance(node, ast.Raise):
            continue
        if isinstance(node, ast.keyword) and node.arg in ("dim", "axis") and isinstance(value, ast.UnaryOp):
            value = value.operand
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield child


def _lines_of(statement: ast.stmt) -> tuple[int, int]:
    """First and last line; of a statement with a body, those of its head."""
    body = getattr(statement, "body", None) or getattr(statement, "cases", None)
    last = statement.end_lineno or statement.lineno
    if isinstance(body, list) and body:
        first = body[0] if isinstance(body[0], ast.stmt) else body[0].pattern
        last = max(statement.lineno, first.lineno - 1)
    return statement.lineno, last


def _is_union(node: ast.BinOp, place: _Place) -> bool:
    """Whether it is `int | None`, a type and not a number: at the top of a module, or of names of types."""
    names = [n.id for n in ast.walk(node) if isinstance(n, ast.Name)]
    types = all(name in ("int", "float", "str", "bool", "bytes", "list", "dict") or name[0].isupper() for name in names)
    return isinstance(node.op, ast.BitOr) and (not place.function or types)


def _is_text(node: ast.expr) -> bool:
    """Whether it is a part of a path or of a sentence, with which no other arithmetic is possible."""
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str | bytes))


def _larger(value: float) -> str:
    if isinstance(value, int) and abs(value) <= 10:
        return str(value + 1)
    return repr(2 * value) if value else "1.0"


def _can_go(node: ast.AST) -> bool:
    """Whether the rest still makes sense without this statement: it makes no name that is used later."""
    match node:
        case ast.Expr(ast.Call()) | ast.AugAssign() | ast.Raise() | ast.Continue() | ast.Break() | ast.Delete():
            return True
        case ast.Assign(targets):
            return all(isinstance(target, ast.Attribute | ast.Subscript) for target in targets)
    return False
