"""Checks of the values in a grid. A mistake is one sentence with the file and the key."""

from collections.abc import Mapping, Sequence
from typing import Any

from dsacc.config import AGENTS
from dsacc.errors import ConfigError
from dsacc.system.text import nearest


def hint(name: str, known: Sequence[str], more: str = "") -> str:
    """The end of a sentence about an unknown name."""
    near = nearest(name, known)
    return f"did you mean {near!r}?" if near else f"choose {', '.join(known)}{more}"


class Checks:
    """Reads values from the tables of a grid. `where` is what messages call the file; `given` are the keys that the
    command line replaced. `at` is the name of a table with a dot, or empty for the file itself."""

    def __init__(self, where: str, given: Mapping[str, Any]) -> None:
        self.where, self.given = where, given

    def agents(self, agents: Sequence[str], key: str) -> None:
        for agent in agents:
            if agent not in AGENTS:
                raise self.wrong(key, f"must be one of {', '.join(AGENTS)}, not {agent!r}")

    def known(self, table: Mapping[str, Any], known: Sequence[str], at: str) -> None:
        for key in table:
            if key not in known:
                raise ConfigError(f"{self.where}: unknown key {at}{key}; {hint(key, known)}")

    def texts(self, table: Mapping[str, Any], key: str, at: str, default: list[str] | None) -> list[str]:
        """A list of different texts. A single text may stand without the list."""
        values = self._value(table, key, at, default)
        values = [values] if isinstance(values, str) else values
        if not isinstance(values, list) or not values or not all(isinstance(v, str) and v for v in values):
            raise self.wrong(at + key, f"must be a list of texts, not {values!r}")
        if len(set(values)) != len(values):
            raise self.wrong(at + key, "names something twice")
        return values

    def whole(self, table: Mapping[str, Any], key: str, at: str, default: int | None, low: int) -> int:
        value = self._value(table, key, at, default)
        if isinstance(value, bool) or not isinstance(value, int) or value < low:
            raise self.wrong(at + key, f"must be a whole number of at least {low}, not {value!r}")
        return value

    def _value(self, table: Mapping[str, Any], key: str, at: str, default: Any) -> Any:
        if key not in table and default is None:
            raise self.wrong(at + key, "is missing")
        return table.get(key, default)

    def wrong(self, key: str, what: str, joint: str = " ") -> ConfigError:
        where = "--" if key in self.given else f"{self.where}: "
        return ConfigError(f"{where}{key}{joint}{what}")
