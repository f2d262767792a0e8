"""Python modules that a user names on the command line, for which the current folder is searched too, and modules that
are imported when they are first used."""

import importlib
import importlib.util
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from pkgutil import get_importer
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


_folders: set[str] = set()  # in which a module that a user named was found


@contextmanager
def _searched(folder: str) -> Iterator[None]:
    """Allow imports from a folder, as with `python file.py`. An installed command does not search the current one."""
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        sys.path.remove(folder)


def named_folder() -> AbstractContextManager[None]:
    """Search the current folder, if a module that the user named came from it: its environments may need others.
    Without such a module nothing is imported from there, whatever lies in it."""
    here = str(Path.cwd())
    return _searched(here) if here in _folders else nullcontext()


def import_here(name: str, absent: str, kind: type[BadInput] = ConfigError) -> ModuleType:
    """Import a module that the user has named, which runs its code. The current folder comes before installed packages.
    Failures raise `kind`, with the message `absent` if there is no module."""
    here = str(Path.cwd())
    if PathFinder.find_spec(name.partition(".")[0], [here]) is not None:
        _folders.add(here)
    try:
        with named_folder():
            return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(error.name + ".")):
            raise kind(absent) from error
        raise kind(f"the module {name!r} needs {error.name!r}, which is not installed") from error
    except Exception as error:
        raise kind(f"the module {name!r} failed while it was imported: {first_line(error)}") from error


def load_alone(package: str, *path: str) -> ModuleType | None:
    """One module of an installed package, by the path of its file there, without running the package's own code: some
    packages import much that a single module does not need. None if it is not installed."""
    found = importlib.util.find_spec(package)
    for place in [] if found is None else found.submodule_search_locations or ():
        file = Path(place, *path)
        spec = importlib.util.spec_from_file_location(f"{package}.{file.stem}", file) if file.is_file() else None
        if spec is not None and spec.loader is not None:
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            return module
    return None


def where_is(name: str) -> str | None:
    """The file that `import_here` would read for a module; None if there is none. Nothing is imported: not the packages
    around it either, as `importlib.util.find_spec` would."""
    parts = name.split(".")
    with _searched(str(Path.cwd())):
        spec = _found(parts[0])
        for i in range(2, len(parts) + 1):
            spec = None if spec is None else _inside(spec, ".".join(parts[:i]))
        places = [] if spec is None else list(spec.submodule_search_locations or ())
    return None if spec is None else spec.origin or next(iter(places), None)


def _found(name: str) -> ModuleSpec | None:
    finders = (getattr(finder, "find_spec", None) for finder in sys.meta_path)
    return next(filter(None, (find(name, None) for find in finders if find is not None)), None)


def _inside(package: ModuleSpec, name: str) -> ModuleSpec | None:
    """A module of a package that is not imported. A file comes before a folder without __init__.py."""
    finders = [get_importer(place) for place in package.submodule_search_locations or ()]
    found = [spec for finder in finders if finder is not None and (spec := finder.find_spec(name)) is not None]
    return next((spec for spec in found if spec.loader is not None), found[0] if found else None)
