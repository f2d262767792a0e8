"""Tables as they are written: the full text of each cell, and parts that fit where they are shown."""

from dataclasses import replace

from dsacc.analysis.tables import Cell, Table, TableLine
from dsacc.system.text import harmless

NAME_WIDTH = 28  # characters of a name; a longer one is folded


def written(table: Table, repeat: bool) -> list[list[TableLine]]:
    """The groups of a table with the full text of each cell: what the page shows small beneath it is in brackets here.
    Without `repeat` only the first line of a group has its first name."""

    def full_text(i: int, cell: Cell) -> str:
        below = f" ({'paper ' if i >= table.names else ''}{cell.below})" if cell.below else ""
        return harmless(cell.text + below)

    def as_written(line: TableLine, first: bool) -> TableLine:
        cells = [replace(cell, text=full_text(i, cell)) for i, cell in enumerate(line)]
        return cells if first or repeat else [Cell(""), *cells[1:]]

    return [[as_written(line, i == 0) for i, line in enumerate(group)] for group in table.groups]


def in_columns(table: Table, width: int, widest: int | None = None) -> list[Table]:
    """The table in parts that fit into `width` characters, each with the names and with at least one other column. A
    column counts `widest` characters at most, where it can be folded."""
    edges = 3  # characters that a column costs beside its text
    free = width - 1 - sum(min(table.width(i), NAME_WIDTH) + edges for i in range(table.names))
    parts, start, used = [], table.names, 0
    for column in range(table.names, len(table.header)):
        wide = table.width(column)
        needed = (wide if widest is None else min(wide, widest)) + 1 + edges  # one for the star
        if column > start and used + needed > free:
            parts.append(table.columns(start, column))
            start, used = column, 0
        used += needed
    return [*parts, table.columns(start, len(table.header))]
