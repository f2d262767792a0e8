"""A file must not choose code. This is the one place that decides whether a module may be imported that a file names.

What a user types in a command, or passes in a Python call, is an instruction. What stands in a run folder, a saved
agent or a graph is data. A module that such a file names is imported only where the user has named it too, or trusts
the file (`--trust`, `trust=True`).
"""

import re
import shlex
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from dsacc.errors import Untrusted
from dsacc.system.imports import where_is
from dsacc.system.text import printable

HELP = "allow files to choose code: import modules that they name, load pickles (files of Stable-Baselines3)"
_NAME = re.compile(r"(?P<module>[^\W\d]\w*(\.[^\W\d]\w*)*):[\w./-]+")


@dataclass(frozen=True)
class _Allowed:
    trust: bool = False
    names: frozenset[str] = frozenset()


_NOTHING = _Allowed()
_ALLOWED: ContextVar[_Allowed] = ContextVar("_ALLOWED", default=_NOTHING)


@contextmanager
def trusting(trust: bool = False, named: Iterable[str] = ()) -> Iterator[None]:
    """Within it files may choose code, where `trust` says so, or choose the modules of `named`, which a user has named.
    It adds to what is allowed around it."""
    around = _ALLOWED.get()
    token = _ALLOWED.set(_Allowed(around.trust or trust, around.names | frozenset(named)))
    try:
        yield
    finally:
        _ALLOWED.reset(token)


def is_trusted() -> bool:
    """Whether files may choose code here."""
    return _ALLOWED.get().trust


def may_import(name: str) -> bool:
    """Whether the module of `MODULE:name` may be imported although a file names it. One that is imported already runs
    nothing more. A name without a module needs none."""
    module, colon, _ = name.rpartition(":")
    allowed = _ALLOWED.get()
    return not colon or module in sys.modules or allowed.trust or name in allowed.names


def require(name: str, what: str, file: str, option: str, keyword: str) -> None:
    """Raise Untrusted unless the module of `name` may be imported. `file` has the name for its `what`: environment or
    encoder. `option` and `keyword` are how a user names it instead, on the command line and in Python."""
    if may_import(name):
        return
    found = _NAME.fullmatch(name)
    told = f"{printable(file)} names the {what} {name[:100]!r}"
    if found is None:
        raise Untrusted(f"{told}, which is not of the form MODULE:name")
    module, path = found["module"], where_is(found["module"])
    if path is None:
        raise Untrusted(f"{told}, and its module {module!r} is neither in this folder nor installed")
    instead = option.format(name=shlex.quote(name), module=shlex.quote(module))
    in_python = keyword.format(name=name, module=module)
    raise Untrusted(
        f"{told}: its module {module!r} would be imported from {printable(path)}, and that runs its code; if you want "
        f"this, name it yourself ({instead}), or add --trust (in Python: {in_python}, or trust=True)"
    )
