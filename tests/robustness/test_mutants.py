"""The mutation tester: what it changes and what it leaves alone, what it keeps, and what it says, on a tiny project."""

import json
import resource

import pytest

from robustness import mutants_worker
from robustness.mutants import HOME, Kept, outdated, read_reasons, report, sampled, share
from robustness.mutants_worker import Bench
from robustness.mutations import mutants_of

SOURCE = '''"""A module of 1 line."""
import math
from dataclasses import dataclass

SIZE = 64
Number = int | None


@dataclass(frozen=True)
class Box:
    """Not 2."""

    side: int = 3

    def area(self, scale: float | None = None) -> float:
        if scale is not None and scale <= 0:
            raise ValueError(f"a scale must be above {0}, not {scale}")
        print("side", 7)
        self.asked += 1
        return self.side**2 * math.pow(scale or 1.5, 2, strict=True)
'''


def changes(source: str) -> set[tuple[str, str]]:
    return {(m.operator, m.after) for m in mutants_of(source, "box.py")}


def test_every_kind_of_change_is_made_and_text_hints_decorators_and_messages_are_left_alone():
    test = "if scale is not None and scale <= 0:"
    result = "return self.side**2 * math.pow(scale or 1.5, 2, strict=True)"
    assert changes(SOURCE) == {
        ("constant", "SIZE = 128"),
        ("constant", "side: int = 4"),
        ("comparison", test.replace("is not", "is")),
        ("comparison", test.replace("<=", "<")),
        ("boolean", test.replace("and", "or")),
        ("constant", test.replace("0", "1")),
        ("statement", "pass"),
        ("arithmetic", "self.asked -= 1"),
        ("constant", "self.asked += 2"),
        ("return", "return None"),
        ("arithmetic", result.replace("* math", "/ math")),
        ("arithmetic", result.replace("**2", "*2")),
        ("constant", result.replace("**2", "**3")),
        ("boolean", result.replace("or", "and")),
        ("constant", result.replace("1.5", "3.0")),
        ("constant", result.replace("2, ", "3, ")),
        ("argument", result.replace("scale or 1.5, 2", "2, scale or 1.5")),
    }


def test_a_change_is_made_where_it_says_and_nowhere_else():
    for mutant in mutants_of(SOURCE, "box.py"):
        lines, changed = SOURCE.splitlines(), mutant.applied(SOURCE).splitlines()
        assert [i for i, (a, b) in enumerate(zip(lines, changed, strict=True), 1) if a != b] == [mutant.line]
        assert changed[mutant.line - 1].strip() == mutant.after
        assert mutant.lines[0] <= mutant.line <= mutant.lines[1]


def test_every_change_of_a_room_is_still_python():
    for path in ("src/dsacc/replay/frames.py", "src/dsacc/runs/lock.py"):
        source = (HOME / path).read_text()
        for mutant in mutants_of(source, path):
            compile(mutant.applied(source), path, "exec")


@pytest.mark.parametrize(
    ("source", "after"),
    [
        ("x = (a\n     + b)  # ä + ö", "- b) # ä + ö"),
        ("é = 'ü' if ä < 1 else 2", "é = 'ü' if ä <= 1 else 2"),
        ("x = a not in b", "x = a in b"),
        ("x = not a", "x = (a)"),
        ("x = -a", "x = a"),
        ("f(a, b=True)", "f(a)"),
        ("f(a, b=True)", "f(a, b=False)"),
    ],
)
def test_odd_places_are_found(source, after):
    assert after in {m.after for m in mutants_of(source, "x.py")}


def test_the_sign_of_a_dimension_stays():
    assert changes("x = a.sum(dim=-1) * b.mean(-1)") == {
        ("constant", "x = a.sum(dim=-2) * b.mean(-1)"),
        ("argument", "x = a.sum() * b.mean(-1)"),
        ("arithmetic", "x = a.sum(dim=-1) / b.mean(-1)"),
        ("constant", "x = a.sum(dim=-1) * b.mean(-2)"),
        ("arithmetic", "x = a.sum(dim=-1) * b.mean(1)"),
    }


def test_a_larger_sample_contains_a_smaller_one_and_other_code_changes_little_in_it():
    path = "src/dsacc/replay/frames.py"
    source = (HOME / path).read_text()
    mutants = mutants_of(source, path)
    assert len({m.name for m in mutants}) == len(mutants)
    names = [m.name for m in sampled(mutants, 40, seed=0)]
    assert [m.name for m in sampled(mutants, 10, seed=0)] == names[:10]
    assert [m.name for m in sampled(mutants, 40, seed=1)] != names
    moved = sampled(mutants_of(f"import os\n\nMORE = 1\n{source}", path), 40, seed=0)
    assert len({m.name for m in moved} & set(names)) >= 39


def result_of(mutant, verdict: str, **other) -> dict:
    shown = {"path": mutant.path, "function": mutant.function, "line": mutant.line, "operator": mutant.operator}
    known = {"name": mutant.name, "before": mutant.before, "after": mutant.after, "source": "s", "tests": "t"}
    return {**shown, **known, "verdict": verdict, "by": None, **other}


def test_results_are_kept_until_their_source_changes_and_survivors_until_the_tests_do(tmp_path):
    one, two, three = mutants_of(SOURCE, "box.py")[:3]
    kept = Kept(tmp_path / "new" / "box.jsonl")
    kept.add(result_of(one, "caught"))
    kept.add(result_of(two, "survived"))
    with kept.path.open("a") as file:
        file.write(json.dumps(result_of(three, "caught"))[:40])  # a call that was killed
    again = Kept(kept.path)
    assert again.find(one, "s", "t")["verdict"] == again.find(one, "s", "other")["verdict"] == "caught"
    assert again.find(two, "s", "t")["verdict"] == "survived"
    assert again.find(two, "s", "other") is None
    assert again.find(one, "other", "t") is None
    assert again.find(three, "s", "t") is None


def test_the_report_counts_and_names_every_survivor_and_outdated_reasons_are_said(tmp_path):
    (tmp_path / "src/dsacc/maths").mkdir(parents=True)
    (tmp_path / "src/dsacc/maths/box.py").write_text(SOURCE)
    one, two, three, four = mutants_of(SOURCE, "src/dsacc/maths/box.py")[:4]
    verdicts = ((one, "caught"), (two, "survived"), (three, "timed out"), (four, "unreached"))
    results = [result_of(m, verdict) for m, verdict in verdicts]
    assert share(results) == 0.5
    entries = [("maths/box.py", m.function, m.before, m.after) for m in (one, two)]
    reasons = {**dict.fromkeys(entries, "it is only a box"), ("maths/box.py", "Box", "gone", "away"): "old"}
    text = report({"maths": results}, reasons, 5)
    assert "| maths | 4 | 1 | 1 | 2 | 50% |" in text
    assert f"maths/box.py:{two.line} in `{two.function}` ({two.operator}): it is only a box" in text
    assert "which no test reaches: **no reason is known**" in text
    first, second = outdated(reasons, results, tmp_path)
    assert "is noticed by now" in first
    assert "`gone` in `Box` is not there any more" in second


def test_the_reasons_can_be_read_and_each_says_something():
    reasons = read_reasons(HOME / "tests/robustness/survivors.toml")
    assert all(len(reason) > 20 for reason in reasons.values())
    assert outdated(reasons, [], HOME) == []


TINY = """
LEAST = 3

def enough(x):
    return x >= LEAST

def absolute(x):
    return -x if x < 0 else x

def down(x):
    while x > 0:
        x -= 1
    return x

def untested(x):
    return x + 1
"""
TESTS = """
import pytest
from tiny import absolute, down, enough

@pytest.fixture(scope="module")
def lowered():
    return down(3)

def test_enough():
    assert enough(3)
    assert not enough(2)

def test_absolute():
    assert [absolute(x) for x in (-2, 0, 2)] == [2, 0, 2]

def test_nothing(lowered):
    pass

def test_down(lowered):
    assert lowered == 0

def test_broken():
    assert enough(0)

def test_once(tmp_path):  # passes when it is run for the first time, as a test of times may
    seen = tmp_path.parents[1] / "seen"
    before, _ = seen.exists(), seen.touch()
    assert enough(7)
    assert absolute(-3) == 3
    assert not before
"""


def test_a_tiny_project_is_judged_change_by_change(tmp_path, monkeypatch):
    """The fixture is made for the first test that asks for it; the change is noticed by the second."""
    monkeypatch.setattr(mutants_worker, "LIMIT", 4.0)
    (tmp_path / "src").mkdir()
    (tmp_path / "tests").mkdir()
    (tmp_path / "src/tiny.py").write_text(TINY)
    (tmp_path / "tests/test_tiny.py").write_text(TESTS)
    (tmp_path / "tests/test_slow.py").write_text("from tiny import down\n\ndef test_slow():\n    assert down(2) < 1\n")
    (tmp_path / "pyproject.toml").write_text('[tool.pytest.ini_options]\naddopts = "--import-mode=importlib"\n')
    test = "tests/test_tiny.py::test"
    wanted = {
        "LEAST = 4": ("caught", f"{test}_enough"),
        "return x > LEAST": ("caught", f"{test}_enough"),
        "return -x if x <= 0 else x": ("survived", None),  # -0 is 0
        "while x >= 0:": ("caught", f"{test}_down"),
        "x += 1": ("timed out", None),
        "return x + 2": ("unreached", None),
    }
    with Bench(tmp_path, "src/tiny.py", "tests", tmp_path / "kept") as bench:
        changes = [m for m in mutants_of(TINY, "src/tiny.py") if m.after in wanted]
        assert {m.after: bench.try_one(m, TINY) for m in changes} == wanted
        assert (bench.folder / "src/tiny.py").read_text() == TINY
        assert bench.unsteady == {f"{test}_broken", f"{test}_once"}
        bench.reach["seconds"]["tests/test_slow.py::test_slow"] = 12.0  # so all tests together may take a minute
        began = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        loop = next(m for m in changes if m.after == "x += 1")
        assert bench.try_one(loop, TINY) == ("timed out", None)
        assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - began < 40  # of a test that takes no time
    assert not bench.folder.exists()
    assert (tmp_path / "src/tiny.py").read_text() == TINY
