"""Tables as LaTeX, each part small enough for a page of an article in one column."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from dsacc.analysis.layout import in_columns, written
from dsacc.analysis.tables import NO_SKILL, Cell, Table, TableLine
from dsacc.system.text import harmless

WIDTH = 125  # characters of a line; it is then shrunk to about 5.5 points at worst
HEIGHT = 38  # lines of a table above its caption
FOLDED = 60  # characters; a column with longer texts is a paragraph
IN_PARAGRAPH = 55  # characters in a line of such a paragraph
PARAGRAPH = r"p{0.75\linewidth}"

_HEAD = """% needs \\usepackage{graphicx}; \\usepackage{booktabs} draws better rules
\\providecommand{\\toprule}{\\hline}\\providecommand{\\midrule}{\\hline}\\providecommand{\\bottomrule}{\\hline}
"""
_SPECIAL = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "|": r"\textbar{}", "±": r"$\pm$", NO_SKILL: r"$^\dagger$", "‡": r"$^\ddagger$", "λ": r"$\lambda$", "μ": r"$\mu$",
    "φ": r"$\phi$", "θ": r"$\theta$", "ε": r"$\epsilon$", "₂": r"$_2$", "…": r"\ldots{}", "—": "---", "“": "``",
    "”": "''", "→": r"$\to$", "\n": " ",
}  # fmt: skip


def latex(tables: Sequence[Table], notes: Sequence[str], repeat: bool) -> str:
    """The tables one after the other; `notes` are on all of them. A table that is too wide or too long for a page comes
    in parts. Without `repeat` only the first line of a group has its first name."""
    blocks = [_HEAD]
    for i, table in enumerate(tables):
        said = " ".join([*table.notes, *(notes if i == len(tables) - 1 else ())])
        parts = list(_parts(table))
        for k, part in enumerate(parts, start=1):
            which = f", part {k} of {len(parts)}" if len(parts) > 1 else ""
            blocks.append(_block(part, f"{table.title}{which}. {said if k == 1 else ''}".strip(), repeat))
    return "\n".join(blocks)


def _parts(table: Table) -> Iterator[Table]:
    """Parts of the width and height of a page, with the full texts of all cells. Columns in which nothing is said are
    left out."""
    lines = [[replace(cell, below="") for cell in line] for group in written(table, repeat=True) for line in group]
    said = [i for i in range(len(table.header)) if i < table.names or any(line[i].text for line in lines)]
    header, lines = [table.header[i] for i in said], [[line[i] for i in said] for line in lines]
    whole = replace(table, header=header, lines=lines, foot=[], extra=[])
    for wide in in_columns(whole, WIDTH, IN_PARAGRAPH):
        fits: list[TableLine] = []
        used = 0
        for group in wide.groups:
            for i, line in enumerate(group):
                rest = sum(map(_height, group)) if i == 0 else _height(line)  # a group is kept together if it fits
                if fits and used + (rest if rest <= HEIGHT else _height(line)) > HEIGHT:
                    yield replace(wide, lines=fits)
                    fits, used = [], 0
                fits, used = [*fits, line], used + _height(line)
        yield replace(wide, lines=fits)


def _height(line: TableLine) -> int:
    """Lines of text that it takes."""
    return max(1 if len(cell.text) <= FOLDED else -(-len(cell.text) // IN_PARAGRAPH) for cell in line)


def _block(table: Table, caption: str, repeat: bool) -> str:
    groups = [[" & ".join(map(_cell, line)) for line in group] for group in written(table, repeat)]
    between = "\\midrule\n" if any(len(group) > 1 for group in groups) else ""
    rows = between.join("".join(f"{line} \\\\\n" for line in group) for group in groups)
    kinds = (
        PARAGRAPH if table.width(i) > FOLDED else "l" if i < table.names else "r" for i in range(len(table.header))
    )
    return (
        "\\begin{table}[htb]\n\\centering\n\\small\n"
        "\\resizebox{\\ifdim\\width>\\linewidth\\linewidth\\else\\width\\fi}{!}{%\n"
        f"\\begin{{tabular}}{{{''.join(kinds)}}}\n\\toprule\n"
        f"{' & '.join(map(_text, table.header))} \\\\\n\\midrule\n{rows}\\bottomrule\n\\end{{tabular}}}}\n"
        f"\\caption{{{_text(caption)}}}\n\\end{{table}}\n"
    )


def _cell(cell: Cell) -> str:
    if not cell.best:
        return _text(cell.text)
    best, *rest = cell.text.split(" ", 1)  # the mean is bold, its spread is not, as in the paper
    return f"\\textbf{{{_text(best)}}}" + "".join(f" {_text(part)}" for part in rest)


def _text(text: str) -> str:
    # A bracket at the start of a line would be read as an option of the \\ before it.
    written_out = "".join(map(_character, harmless(text)))
    return f"{{{written_out}}}" if written_out.startswith(("[", "*")) else written_out


def _character(character: str) -> str:
    """What pdflatex sets without further packages: ASCII and the accented letters of Western Europe. Else a `?`."""
    known = character.isascii() or ("À" <= character <= "ÿ" and character not in "ÐÞðþ÷")
    return _SPECIAL.get(character, character if known else "?")
