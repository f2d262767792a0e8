"""The hooks of the documentation's site, which `make site` builds. MkDocs itself is not needed here."""

import re
from types import ModuleType

import pytest
from helpers.documents import ROOT, anchors, documents
from helpers.scripts import script


@pytest.fixture(scope="module")
def hooks() -> ModuleType:
    return script("docs/site/hooks.py")


def test_every_page_is_in_the_navigation(hooks):
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]
    named = re.findall(r": (\S+\.md)$", navigation, re.MULTILINE)
    there = {hooks.place(path.relative_to(ROOT).as_posix()) for path in documents()}
    assert there <= set(named)
    assert len(named) == len(set(named))


def test_headings_have_the_anchors_that_links_on_github_use(hooks):
    slugs = hooks.Slugs()
    given = {slugs(heading) for heading in ("Twice", "Twice", "It's here, λ too", "dsacc.shifts.as_level", "Twice")}
    assert given == {"twice", "twice-1", "twice-2", "its-here-λ-too", "dsaccshiftsas_level"}
    assert {"dsaccshiftsbank", "dsaccshiftsbank-1"} <= anchors(ROOT / "docs" / "api.md")


@pytest.mark.parametrize(
    ("page", "link", "on_the_site"),
    [
        ("index.md", "docs/training.md#your-own-environment", "training.md#your-own-environment"),
        ("index.md", "docs/pictures/fog.png", "pictures/fog.png"),
        ("index.md", "LICENSE", "files/LICENSE.md"),
        ("index.md", "CONTRIBUTING.md", "contributing.md"),
        ("contributing.md", "docs/shifts.md#kinds", "shifts.md#kinds"),
        ("training.md", "../examples/custom_environment.py", "files/examples/custom_environment.py.md"),
        ("training.md", "atari.md", "atari.md"),
        ("studies/catch.md", "readings-catch.html", "readings-catch-report.html"),
        ("studies/lowdata.md", "../lowdata.md#the-recipe", "../lowdata.md#the-recipe"),
        ("training.md", "../README.md", "index.md"),
        ("training.md", "#determinism", "#determinism"),
        ("training.md", "https://example.org/a.md", "https://example.org/a.md"),
        ("training.md", "gone.md", "gone.md"),  # MkDocs refuses it
    ],
)
def test_a_link_leads_to_the_same_place_as_on_github(hooks, page, link, on_the_site):
    assert hooks.for_the_site(f"See [it]({link}).", page) == f"See [it]({on_the_site})."


def test_files_that_pages_link_to_are_shown_and_nothing_else(hooks):
    shown = set(hooks.files_shown())
    assert {"examples/custom_environment.py", "benchmarks/peers.py", "LICENSE"} <= shown
    assert not any(path.startswith("docs/") or path.endswith(".md") for path in shown)
    assert hooks.showing("LICENSE").startswith("# LICENSE\n\n~~~~~~~~~~~~~~~~~~~~text\nMIT License\n")


def test_what_tests_are_told_of_a_block_is_not_shown(hooks):
    text = "Train:\n\n<!-- test: short: it takes\nan hour -->\n```sh\ntrue\n```\n"
    assert hooks.for_the_site(text, "training.md") == "Train:\n\n```sh\ntrue\n```\n"


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("- a\n  - b\n    - c\n- d", "- a\n    - b\n        - c\n- d"),
        ("1. a\n   more\n   - b\n   - c\n2. d", "1. a\n    more\n    - b\n    - c\n2. d"),
        ("1. a\n\n   more\n2. b", "1. a\n\n    more\n\n2. b"),  # several paragraphs
        ("- a\n\n  ```sh\n  if\n    then\n  ```\n- b", "- a\n\n    ```sh\n    if\n      then\n    ```\n\n- b"),
        ("- a\n    - b", "- a\n    - b"),
        ("text\n  more", "text\n  more"),
        ("```sh\n- a\n  - b\n```", "```sh\n- a\n  - b\n```"),
        ("- a\n  b\n\ntext\n\n- c", "- a\n    b\n\ntext\n\n- c"),
    ],
)
def test_lists_are_nested_as_on_github(hooks, written, read):
    assert hooks.indented(written) == read
