"""LaTeX compiled by the real program."""

import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

needs_pdflatex = pytest.mark.skipif(
    shutil.which("pdflatex") is None, reason="pdflatex is not installed; Debian has it in texlive-latex-base"
)


def has_package(name: str) -> bool:
    """Whether LaTeX finds a package, such as booktabs, which Debian has in texlive-latex-recommended."""
    return subprocess.run(["kpsewhich", f"{name}.sty"], capture_output=True).returncode == 0


def complaints(tables: Sequence[str], folder: Path, packages: str = "graphicx") -> list[str]:
    """Set the tables in an article, each from a page of its own, and return what LaTeX says against them: errors,
    letters it does not have, lines beyond the margin and tables that are cut off at the end of a page."""
    body = "\\clearpage\n".join(tables)
    text = f"\\documentclass{{article}}\\usepackage{{{packages}}}\\begin{{document}}\n{body}\\end{{document}}\n"
    (folder / "tables.tex").write_text(text, encoding="utf-8")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "tables.tex"]
    ended = subprocess.run(command, cwd=folder, capture_output=True, timeout=120)
    log = (folder / "tables.log").read_text(encoding="utf-8", errors="replace")
    found = re.findall(r"^(?:!.*|Overfull.*|Missing character.*|.*Float too large.*)$", log, re.M)
    return found + ([] if ended.returncode == 0 or found else [f"exit code {ended.returncode}"])
