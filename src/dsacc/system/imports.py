"""Python modules that a user names on the command line, looked for in the current folder too."""

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from dsacc.errors import BadInput, ConfigError, first_line


@contextmanager
def current_folder() -> Iterator[None]:
    """Modules of the current folder can be imported, as with `python file.py`; an installed command leaves it out."""
    here = str(Path.cwd())
    sys.path.insert(0, here)
    try:
        yield
    finally:
        sys.path.remove(here)


def import_here(name: str, absent: str, kind: type[BadInput] = ConfigError) -> ModuleType:
    """Import a module, which runs it. An error of this kind says why it cannot be: `absent` where there is none."""
    try:
        with current_folder():
            return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(error.name + ".")):
            raise kind(absent) from error
        raise kind(f"the module {name!r} needs {error.name!r}, which is not installed") from error
    except Exception as error:
        raise kind(f"the module {name!r} failed while it was imported: {first_line(error)}") from error
