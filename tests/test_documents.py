"""Documents keep what they promise: the reference is what the sources say, and every link leads somewhere."""

from pathlib import Path
from types import ModuleType

import pytest
from helpers.documents import anchors, problems
from helpers.scripts import script


@pytest.fixture(scope="module")
def reference() -> ModuleType:
    return script("docs/make_api.py")


# --- the reference ---


def test_the_reference_is_what_the_sources_say(reference, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")  # a narrow terminal changes nothing
    assert reference.page() == reference.PAGE.read_text(encoding="utf-8"), "run `make docs`"


def test_every_public_name_has_a_docstring(reference):
    assert reference.undocumented() == []


def test_the_reference_names_everything_that_the_package_exports(reference):
    import dsacc
    from dsacc import maths, play, shifts
    from dsacc.views import insight, report, watch

    names = {f"{module}.{name}" for module, name in reference.public_names()}
    for module in (dsacc, insight, maths, play, report, shifts, watch):
        assert {f"{module.__name__}.{name}" for name in module.__all__} <= names
    found = anchors(reference.PAGE)
    assert {"settings", "command-line", "dsacc-train", "dsaccdsac", "dsaccmathsboltzmann", "dsaccshiftsbank-1"} <= found


def test_every_setting_and_every_option_is_in_the_reference(reference):
    from dataclasses import fields

    from dsacc.cli import COMMANDS
    from dsacc.config import Config

    page = reference.PAGE.read_text(encoding="utf-8")
    for field in fields(Config):
        assert f"\n| `{field.name}` |" in page
        assert field.name in ("env", "constraint") or f"\n--{field.name.replace('_', '-')}" in page
    for name in COMMANDS:
        assert f"\n### `dsacc {name}`\n" in page


def test_a_public_name_without_a_docstring_is_found(reference, tmp_path, monkeypatch):
    (tmp_path / "bare.py").write_text(
        'LEFT = 1\nRIGHT = 2  # said\n\nclass A:\n    """Said."""\n    def b(self): ...\n\ndef c(): ...\n'
    )
    monkeypatch.setattr(reference, "SOURCE", tmp_path)
    monkeypatch.setattr(reference, "MODULES", {"bare": "LEFT RIGHT A c"})
    assert reference.undocumented() == ["bare.A.b", "bare.LEFT", "bare.c"]


def test_a_signature_is_written_as_in_the_source(reference, tmp_path, monkeypatch):
    head = 'def f(a: "A | None", /, b=TOP, *c: int, d: str = "x", **e: float) -> "list[A]":'
    (tmp_path / "signed.py").write_text(f'TOP = 3\n\n\n{head}\n    """Says."""\n')
    monkeypatch.setattr(reference, "SOURCE", tmp_path)
    module, node = reference.find(reference.read("signed"), "f")
    written = reference._signature(module, node, "f")
    assert written == 'f(a: A | None, /, b=3, *c: int, d: str = "x", **e: float) -> list[A]'


# --- links ---


def test_every_link_picture_path_and_target_exists():
    assert problems() == []


def repository(folder: Path, text: str) -> Path:
    """A small one, whose README says `text`."""
    (folder / "docs" / "pictures").mkdir(parents=True)
    (folder / "src").mkdir()
    (folder / "docs" / "pictures" / "a.png").write_bytes(b"")
    (folder / "docs" / "page.md").write_text("# A Page\n\n## It's `here`, λ too\n\n## Twice\n\n## Twice\n", "utf-8")
    (folder / "Makefile").write_text("docs: x\n\techo\n")
    (folder / "README.md").write_text(f"# Read me\n\n![a](docs/pictures/a.png)\n\n{text}\n", "utf-8")
    return folder


@pytest.mark.parametrize(
    "text",
    [
        "[a](docs/page.md), [b](docs/page.md#its-here-λ-too), [c](docs/page.md#twice-1), [d](#read-me)",
        "[over\nlines](docs/page.md) and [`code[0]`](docs/page.md#a-page)",
        "`[no](link)`\n\n```\n[no](link) # no\n```\n\n<!-- [no](link) -->",
        "[x](https://example.org/a?b=c#d), <https://example.org>, [m](mailto:a@example.org)",
        "`make docs` and `docs/page.md`; an equation E[Q] (s), and data in `/data/runs`",
    ],
)
def test_what_is_right_passes(tmp_path, text):
    assert problems(repository(tmp_path, text)) == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[a](docs/gone.md)", "docs/gone.md does not exist"),
        ("[a\nb](docs/gone.md)", "README.md:5: docs/gone.md does not exist"),
        ("[a](docs/page.md#gone)", "docs/page.md#gone names a heading that is not there"),
        ("[a](docs/page.md#twice-2)", "docs/page.md#twice-2 names a heading"),
        ("[a](#Read-Me)", "#Read-Me names a heading that is not there"),
        ("[a](../elsewhere.md)", "leads out of the repository"),
        ("[a](/docs/page.md)", "is an absolute path"),
        ("![a](docs/pictures/b.png)", "docs/pictures/b.png does not exist"),
        ("![a](docs/page.md)", "docs/page.md is no picture"),
        ('<img src="docs/b.png" alt="b">', "docs/b.png does not exist"),
        ("[a]: docs/gone.md", "docs/gone.md does not exist"),
        ("[a](https://)", "is not a well-formed address"),
        ("[a](https://localhost/x)", "is not a well-formed address"),
        ("[a](htp://example.org)", "has a scheme that no reader follows"),
        ("[a](mailto:nobody)", "is no mail address"),
        ("see /tmp/runs", "/tmp/runs is a path of one machine"),
        ("```sh\ncat /home/me/x\n```", "README.md:6: /home/me is a path of one machine"),
        ("run `make tea`", "there is no `make tea`"),
        ("```sh\nmake tea\n```", "there is no `make tea`"),
        ("see `docs/gone.py`", "docs/gone.py does not exist"),
    ],
)
def test_what_is_wrong_is_found_and_named_with_its_place(tmp_path, text, said):
    found = problems(repository(tmp_path, text))
    assert len(found) == 1
    assert found[0].startswith("README.md:")
    assert said in found[0]


def test_a_picture_that_nobody_shows_is_found(tmp_path):
    repository(tmp_path, "")
    (tmp_path / "docs" / "pictures" / "b.png").write_bytes(b"")
    assert problems(tmp_path) == ["docs/pictures/b.png is shown nowhere"]


def test_a_broken_link_of_a_docstring_is_found(tmp_path):
    repository(tmp_path, "")
    (tmp_path / "src" / "a.py").write_text(
        'def f():\n    """E[Q](s); [p](page.md#a-page), [g](gone.md), in /tmp/x."""\n'
    )
    assert problems(tmp_path) == [
        "src/a.py:1: gone.md does not exist",
        "src/a.py:1: /tmp/x is a path of one machine",
    ]
