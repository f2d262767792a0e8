"""What `python -m build` makes: a wheel with the package alone, an sdist to test and build from, and a description that
can be read where there are no files beside it."""

import re
import tarfile
import zipfile
from pathlib import Path
from types import ModuleType

import pytest
from helpers.documents import ROOT
from helpers.scripts import script

backend = pytest.importorskip("hatchling.build", reason="needs hatchling, of the extra dev")
RELATIVE = re.compile(r"\]\((?!https?://)")
PARTS = ("src", "tests", "docs", "examples", "benchmarks")


@pytest.fixture(scope="module")
def hook() -> ModuleType:
    return script("hatch_build.py")


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> tuple[Path, Path]:
    """The wheel and the sdist."""
    folder = tmp_path_factory.mktemp("dist")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        return folder / backend.build_wheel(str(folder)), folder / backend.build_sdist(str(folder))


def test_the_wheel_holds_the_package_and_nothing_else(built):
    with zipfile.ZipFile(built[0]) as wheel:
        names = set(wheel.namelist())
    source = {f.relative_to(ROOT / "src").as_posix() for f in _files(ROOT / "src" / "dsacc")}
    assert {name for name in names if ".dist-info/" not in name} == source
    assert built[0].stat().st_size < 1_000_000  # docs/installation.md says so


def test_the_sdist_holds_what_the_tests_the_demo_and_the_site_need(built):
    with tarfile.open(built[1]) as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}
    single = {"README.md", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "Makefile", "conftest.py", "constraints.txt"}
    single |= {"pyproject.toml", "mkdocs.yml", "hatch_build.py"}
    parts = {file.relative_to(ROOT).as_posix() for part in PARTS for file in _files(ROOT / part)}
    parts = {name for name in parts if not name.startswith(("docs/studies/agents/", "docs/studies/rows/"))}  # megabytes
    assert single | parts <= names
    assert names - single - parts <= {"PKG-INFO", ".gitignore"}  # hatchling adds both


def test_the_description_has_no_relative_link_or_picture(built):
    with zipfile.ZipFile(built[0]) as wheel:
        (metadata,) = (wheel.read(name).decode() for name in wheel.namelist() if name.endswith("/METADATA"))
    head, _, text = metadata.partition("\n\n")
    assert "Description-Content-Type: text/markdown" in head
    assert text.startswith("# dsacc\n")
    assert "## Read on" in text
    assert not RELATIVE.search(text)
    assert "<!--" not in text


def test_links_of_the_description_become_absolute_once_the_repository_has_an_address(hook):
    readme = "![fog](docs/a.png)\n\nSee [that\npage](docs/b.md#c) and [this](https://example.org).\n"
    assert hook.description(readme).startswith("See that\npage and [this](https://example.org).\n\n")
    assert hook.description(readme, "https://example.org/me/it/") == (
        "![fog](https://example.org/me/it/raw/HEAD/docs/a.png)\n\n"
        "See [that\npage](https://example.org/me/it/blob/HEAD/docs/b.md#c) and [this](https://example.org).\n"
    )


def test_the_page_about_installing_names_the_wheel_that_is_made(built):
    page = (ROOT / "docs" / "installation.md").read_text(encoding="utf-8")
    assert set(re.findall(r"dsacc-[\w.-]+\.whl", page)) == {built[0].name}


def _files(folder: Path) -> list[Path]:
    return [f for f in folder.rglob("*") if f.is_file() and "__pycache__" not in f.parts]
