"""LaTeX as pdflatex reads it: it compiles, and nothing is cut off."""

import re

import pytest
from helpers.pdflatex import complaints, has_package, needs_pdflatex

from dsacc.analysis.formats import render, render_table
from dsacc.analysis.latex import latex
from dsacc.analysis.tables import Cell, Table

HOSTILE = "50%_{x}&$#^~\\ [a] *b* <|> «é» Ω 猫 — “q”"


def row(value, **changes):
    about = {"env": "Breakout", "agent": "dsac", "train_seed": 0, "eval_seed": 0, "step": 10, "shift": "id"}
    about |= {"severity": None, "mode": None, "policy": "greedy", "returns": [value, value + 1], "lengths": [5, 5]}
    return about | changes


def grid(agents, games):
    weather = {"severity": "paper", "mode": "independent"}
    return [
        row(3.0 * i + seed, env=game, agent=agent, train_seed=seed, shift=shift, **(weather if shift != "id" else {}))
        for i, agent in enumerate(agents)
        for game in games
        for seed in range(2)
        for shift in ("id", "snow", "rain", "fog")
    ]


def numbers(lines, columns, text="1234.5 ± 123.4", names=2):
    header = [*(f"name {i}" for i in range(names)), *(f"column {i}" for i in range(columns))]
    body = [[*(Cell(f"n{k // 4}") for _ in range(names)), *[Cell(text)] * columns] for k in range(lines)]
    return Table("Many numbers", header, body, names, notes=["A note."])


@needs_pdflatex
@pytest.mark.parametrize("packages", ["graphicx", "booktabs,graphicx"])
def test_every_shape_of_table_compiles_and_fits_its_pages(packages, tmp_path):
    if "booktabs" in packages and not has_package("booktabs"):
        pytest.skip("LaTeX has no booktabs here; Debian has it in texlive-latex-recommended")
    games = ["Breakout", "Alien", "UpNDown", "Seaquest", "Amidar", "Assault", "BattleZone", "MsPacman", "BeamRider"]
    tables = [
        render([*grid(["dsac", "dsac-m"], games[:2]), row(1, agent=HOSTILE)], "latex"),
        render(grid(["dsac", "dsac-m", "dsac-v"], games), "latex"),
        render(grid([f"agent {i}" for i in range(30)], games[:1]), "latex"),
        render_table(numbers(200, 3), "latex"),
        render_table(numbers(20, 14), "latex"),
        render_table(numbers(20, 2, text="a sentence that is far too long for one line of any page " * 3), "latex"),
    ]
    assert complaints(tables, tmp_path, packages) == []


def test_a_table_that_is_too_long_or_too_wide_comes_in_parts_and_loses_nothing():
    table = numbers(100, 12)
    for i, line in enumerate(table.lines):
        line[2:] = [Cell(f"x{i}y{k}") for k in range(12)]
        line[5:6] = [Cell(f"x{i}y3z and some more words")]
    text = latex([table], ["On all."], repeat=True)
    parts = text.count("\\begin{table}")
    assert parts > 4
    assert [int(k) for k in re.findall(rf"part (\d+) of {parts}\.", text)] == list(range(1, parts + 1))
    assert (text.count("A note."), text.count("On all.")) == (1, 1)
    for i in range(100):
        for k in range(12):
            assert len(re.findall(rf"x{i}y{k}\b", text)) + len(re.findall(rf"x{i}y{k}z ", text)) == 1


def test_an_empty_column_is_left_out_and_rules_do_not_divide_single_lines():
    lines = [[Cell(f"run {i}"), Cell("1"), Cell("")] for i in range(3)]
    text = latex([Table("Runs", ["run", "step", "error"], lines, names=1)], [], repeat=True)
    assert "error" not in text
    assert text.count("\\midrule\n") == 1


def test_letters_that_pdflatex_does_not_have_become_question_marks():
    text = latex([Table("Ω é", ["a", "b"], [[Cell("a"), Cell("猫\nx")]], names=1)], [], repeat=True)
    assert "? é" in text
    assert "? x" in text
