"""Python modules that a user names on the command line; the current folder is searched too."""

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from dsacc.errors import BadInput, ConfigError, first_line


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
