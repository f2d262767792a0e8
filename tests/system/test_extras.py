"""What messages tell people to install is what the extras bring, and works wherever dsacc came from."""

import re
import tomllib

from helpers.documents import ROOT, documents

from dsacc.system.extras import PACKAGES, how_to_install

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
OF_DEVELOPERS = {"dev", "bench"}  # no message names them


def test_a_message_names_the_packages_that_the_extra_brings():
    extras = PROJECT["optional-dependencies"]
    brought = {name: tuple(re.split(r"[<>=~!]", need)[0] for need in needs) for name, needs in extras.items()}
    assert {name: packages for name, packages in brought.items() if name not in OF_DEVELOPERS} == PACKAGES


def test_the_command_can_be_pasted_into_any_shell():
    assert how_to_install("ray") == "pip install ray"
    assert how_to_install("box2d") == "pip install 'gymnasium[box2d]'"
    assert how_to_install("minatar") == "pip install --no-deps MinAtar"


def test_nothing_installs_dsacc_by_its_name_from_an_index_that_does_not_have_it():
    asks = re.compile(r"pip install [^\n`]*?\bdsacc(?!\S*\.whl)\b|'dsacc\[")
    files = [*documents(), *(f for room in ("src", "examples", "benchmarks") for f in (ROOT / room).rglob("*.py"))]
    assert [(file.name, found[0]) for file in files if (found := asks.search(file.read_text(encoding="utf-8")))] == []
