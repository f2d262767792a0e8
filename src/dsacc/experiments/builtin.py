"""The grids that come with the package. Importing this module is cheap: the command line's help lists them."""

from importlib import resources
from importlib.resources.abc import Traversable


def builtin_names() -> list[str]:
    """`demo`, `paper`, `smoke` and so on."""
    return sorted(p.name.removesuffix(".toml") for p in _folder().iterdir() if p.name.endswith(".toml"))


def builtin_text(name: str) -> str:
    """The TOML of one of them."""
    return (_folder() / f"{name}.toml").read_text(encoding="utf-8")


def _folder() -> Traversable:
    return resources.files("dsacc.experiments") / "grids"
