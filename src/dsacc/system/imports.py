"""Python modules that a user names on the command line, for which the current folder is searched too, and modules that
are imported when they are first used."""

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from dsacc.errors import BadInput, ConfigError, first_line


class Later:
    """Stands for a module until one of its names is used, for modules that take long to import and may not be needed.

    >>> Later("math").floor(2.5)
    2
    """

    def __init__(self, module: str) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        value = getattr(importlib.import_module(self._module), name)
        setattr(self, name, value)  # from now on as quick as an attribute of the module
        return value


@contextmanager
def current_folder() -> Iterator[None]:
    """Allow imports from the current folder, as with `python file.py`. An installed command does not search it."""
    here = str(Path.cwd())
    sys.path.insert(0, here)
    try:
        yield
    finally:
        sys.path.remove(here)


def import_here(name: str, absent: str, kind: type[BadInput] = ConfigError) -> ModuleType:
    """Import a module, which runs its code. Failures raise `kind`, with the message `absent` if there is no module."""
    try:
        with current_folder():
            return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(error.name + ".")):
            raise kind(absent) from error
        raise kind(f"the module {name!r} needs {error.name!r}, which is not installed") from error
    except Exception as error:
        raise kind(f"the module {name!r} failed while it was imported: {first_line(error)}") from error
