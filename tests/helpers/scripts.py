"""Programs of the project that are no modules of the package, imported by their paths."""

import importlib.util
import sys
from types import ModuleType

from helpers.documents import ROOT


def script(place: str) -> ModuleType:
    """The module in the file `place`, below the project's folder."""
    path = ROOT / place
    spec = importlib.util.spec_from_file_location("script_" + path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look there
    spec.loader.exec_module(module)
    return module
