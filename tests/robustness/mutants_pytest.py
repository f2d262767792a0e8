"""What pytest is told while mutants are tried: to note which lines a test reaches, or to run some tests in an order."""

import resource
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

PROGRAMS = ("subprocess.Popen", "os.fork", "os.posix_spawn")  # what Python says when a test starts a program
ANY = "at import"


class Reach:
    """Notes which tests reach which lines, how long they take, and which start programs of their own.

    What a fixture of a whole file does counts for all tests of this file.
    """

    def __init__(self, coverage: Any) -> None:
        self.coverage, self.now = coverage, ANY
        self.seconds: dict[str, float] = {}
        self.programs: set[str] = set()
        self.failed: set[str] = set()
        sys.addaudithook(lambda event, _: self.programs.add(self.now) if event in PROGRAMS else None)

    def enter(self, name: str) -> str:
        before, self.now = self.now, name
        self.coverage.switch_context(name)
        return before

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        before, began = self.enter(item.nodeid), time.process_time()
        result = yield
        self.seconds[item.nodeid] = time.process_time() - began
        self.enter(before)
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed.add(report.nodeid)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any) -> Iterator[None]:
        if fixturedef.scope == "function":
            return (yield)
        before = self.enter(fixturedef.baseid)
        result = yield
        self.enter(before)
        return result


class Chosen:
    """Lets only these tests run, in this order, and says which one failed. `limits` are seconds of CPU time per test: a
    change that makes one loop for ever need not use up the time of all."""

    def __init__(self, names: Sequence[str], failed: Path, limits: Mapping[str, float]) -> None:
        self.rank, self.failed, self.limits = {name: i for i, name in enumerate(names)}, failed, limits

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = sorted((i for i in items if i.nodeid in self.rank), key=lambda item: self.rank[item.nodeid])

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        most = resource.getrlimit(resource.RLIMIT_CPU)[1]  # of all tests together
        until = int(time.process_time() + self.limits[nodeid]) + 1
        resource.setrlimit(resource.RLIMIT_CPU, (until if most == resource.RLIM_INFINITY else min(until, most), most))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed.write_text(report.nodeid)
