"""Runs the tests that reach a changed line, in a fork of a process that has imported all that takes long.

The fork imports `dsacc` from a copy of `src` in which the one line is changed. Programs that a test starts find the
copy as well.
"""

import compileall
import importlib
import json
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from types import TracebackType
from typing import Any

import pytest

from robustness.mutants_pytest import ANY, Chosen, Reach
from robustness.mutations import Mutant

# Imported once, before the forks. Not dsacc itself, which each of them imports anew.
HEAVY = ("torch", "numpy", "scipy.stats", "hypothesis", "gymnasium", "cv2", "safetensors.torch", "lz4.block", "psutil")
HEAVY += ("rich.progress", "_pytest.doctest", "coverage")
MARKS = "not long"
MEMORY = 24 * 10**9  # bytes of addresses; a replay of a million pictures alone takes 7
LIMIT = 20.0  # seconds of CPU time beyond five times what a test takes without a change, or all tests together


class Bench:
    """A copy of `src`, and what is known of the tests of a room."""

    def __init__(self, home: Path, place: str, tests: str, kept: Path) -> None:
        self.home, self.place, self.tests, self.kept = home, place, tests, kept
        self.caught = Counter[str]()  # by test: those that caught most go first
        self.unsteady: set[str] = set()  # tests that fail without a change too, such as of times on a busy machine

    def __enter__(self) -> "Bench":
        for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
            os.environ[name] = "1"
        for name in HEAVY:
            importlib.import_module(name)
        self.folder = Path(tempfile.mkdtemp(prefix="mutants-"))
        shutil.copytree(self.home / "src", self.folder / "src", ignore=shutil.ignore_patterns("__pycache__"))
        compileall.compile_dir(self.folder / "src", quiet=1)  # so that a fork compiles the changed file alone
        try:
            self.reach = self._known_reach()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def _known_reach(self) -> dict[str, Any]:
        """Which tests reach which lines: measured once, and again when sources or tests have changed."""
        known, state = self.kept / f"reach-{self.place.replace('/', '-')}.json", self._state()
        if not known.exists() or json.loads(known.read_text())["state"] != state:
            known.parent.mkdir(parents=True, exist_ok=True)
            code = self._forked(lambda: self._measure(known, state), limit=1800.0)
            if code not in (0, 1):
                said = (self.folder / "said").read_text()[-3000:]
                raise SystemExit(f"{said}\n{self.tests} cannot be run (exit code {code})")
        content: dict[str, Any] = json.loads(known.read_text())
        self._leave_out(content["failed"])
        return content

    def _leave_out(self, tests: Sequence[str]) -> None:
        self.unsteady |= set(tests)
        for test in tests:
            print(f"  left out, because it fails without a change: {test}", flush=True)

    def try_one(self, mutant: Mutant, source: str) -> tuple[str, str | None]:
        """`caught` and by which test, `timed out`, `survived`, or `unreached` if there is no test to run."""
        chosen = self.tests_for(mutant)
        if not chosen:
            return "unreached", None
        path, failed = self.folder / mutant.path, self.folder / "failed"
        failed.unlink(missing_ok=True)
        times = path.stat()
        path.write_text(mutant.applied(source))
        try:
            seconds = LIMIT + 5 * sum(self.reach["seconds"][name] for name in chosen)
            code = self._forked(lambda: self._run([self._chosen(chosen)], _files(chosen)), seconds)
        finally:
            path.write_text(source)
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
        if code in (-signal.SIGXCPU, -signal.SIGKILL):
            return "timed out", None
        if code == 0:
            return "survived", None
        by = failed.read_text() if failed.exists() else "cannot be imported"
        if failed.exists() and not self._is_steady(by, seconds):
            self._leave_out([by])
            return self.try_one(mutant, source)
        self.caught[by] += 1
        return "caught", by

    def _is_steady(self, test: str, seconds: float) -> bool:
        """Whether a test that has failed passes without the change, here and now. Asked before its first catch."""
        return (
            test in self.caught or self._forked(lambda: self._run([self._chosen([test])], _files([test])), seconds) == 0
        )

    def _chosen(self, tests: Sequence[str]) -> Chosen:
        """Each may take as long as the longest of its file: which one of them makes what they share depends on their
        order."""
        longest: dict[str, float] = {}
        for test, seconds in self.reach["seconds"].items():
            longest[_file(test)] = max(seconds, longest.get(_file(test), 0.0))
        limits = {test: LIMIT + 5 * longest[_file(test)] for test in tests}
        return Chosen(tests, self.folder / "failed", limits)

    def tests_for(self, mutant: Mutant) -> list[str]:
        """Those that run a line of its statement, or anything of its file if that runs at import.

        First the two that caught most so far; then file by file, those first that cost least per test. Tests that
        start programs come last, since nobody saw what runs in these.
        """
        seconds: dict[str, float] = self.reach["seconds"]
        lines: dict[str, list[str]] = self.reach["lines"].get(mutant.path, {})
        first, last = mutant.lines
        contexts = {c for line in range(first, last + 1) for c in lines.get(str(line), ())}
        if ANY in contexts or not mutant.function:
            contexts = {context for found in lines.values() for context in found}
        reached = {t for t in seconds if t in contexts or any(_is_below(t, c) for c in contexts)} - self.unsteady
        programs = set(self.reach["programs"]) & set(seconds) - self.unsteady
        cost = {file: _mean([seconds[t] for t in reached if t.startswith(file)]) for file in _files(reached)}
        best = [test for test, _ in self.caught.most_common() if test in reached][:2]
        order = sorted(reached - programs, key=lambda t: (t not in best, cost[_file(t)], _file(t), seconds[t]))
        return order + sorted(programs, key=lambda t: seconds[t])

    # --- in the fork ---

    def _measure(self, known: Path, state: str) -> int:
        import coverage

        sources = [f"{self.folder}/{self.place}", f"{self.folder}/{self.place}/*"]  # a file, or a folder
        measured = coverage.Coverage(data_file=None, include=sources, config_file=False)
        measured.start()
        reach = Reach(measured)
        measured.switch_context(ANY)
        code = self._run([reach], [self.tests], stop=False)
        measured.stop()
        data, prefix = measured.get_data(), f"{self.folder}/"
        lines = {f.removeprefix(prefix): data.contexts_by_lineno(f) for f in data.measured_files()}
        noted = {"seconds": reach.seconds, "programs": sorted(reach.programs), "failed": sorted(reach.failed)}
        if code in (0, 1):
            known.write_text(json.dumps({"state": state, **noted, "lines": lines}))
        return code

    def _run(self, plugins: list[Any], tests: list[str], stop: bool = True) -> int:
        """pytest in this process, which stops at the first failure if asked to."""
        import hypothesis

        # A failure is enough: nobody looks at the smallest example of it.
        phases = (hypothesis.Phase.explicit, hypothesis.Phase.generate)
        hypothesis.settings.register_profile("mutants", phases=phases, database=None, derandomize=True)
        hypothesis.settings.load_profile("mutants")
        quiet = ["-q", "--tb=line", *(["-x"] if stop else [])]
        quiet += [word for name in ("cacheprovider", "xdist", "pytest_cov") for word in ("-p", f"no:{name}")]
        return int(pytest.main([*quiet, f"--basetemp={self.folder}/tests", "-m", MARKS, *tests], plugins))

    def _forked(self, work: Callable[[], int], limit: float) -> int:
        """The exit code of `work` in a fork; minus the signal that ended it. `limit` is in seconds of CPU time."""
        child = os.fork()
        if child == 0:
            code = 70
            try:
                os.setsid()  # so that what a test has started can be ended with it
                resource.setrlimit(resource.RLIMIT_CPU, (int(limit), int(limit) + 5))
                resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
                said = os.open(self.folder / "said", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
                for stream in (1, 2):
                    os.dup2(said, stream)
                os.chdir(self.home)
                sys.dont_write_bytecode = True
                path = [str(self.folder / "src"), str(self.home / "tests")]
                sys.path[:0] = path
                os.environ |= {"PYTHONPATH": os.pathsep.join(path), "PYTHONDONTWRITEBYTECODE": "1"}
                os.environ["HYPOTHESIS_STORAGE_DIRECTORY"] = str(self.folder / "hypothesis")
                code = work()
            except BaseException as error:
                print(type(error).__name__, error, file=sys.stderr)
            finally:
                sys.stdout.flush()
                os._exit(code)
        try:
            return _ended(child, time.monotonic() + 4 * limit + 60)
        finally:
            _end_group(child)

    def _state(self) -> str:
        files = [*sorted((self.home / "src").rglob("*.py")), *sorted((self.home / self.tests).rglob("*.py"))]
        return sha256(b"\0".join([self.place.encode(), *(path.read_bytes() for path in files)])).hexdigest()


def _ended(child: int, until: float) -> int:
    while time.monotonic() < until:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.02)
    _end_group(child)
    os.waitpid(child, 0)
    return -signal.SIGKILL


def _end_group(leader: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)


def _is_below(test: str, context: str) -> bool:
    """Whether a fixture's context, a file or a folder, holds this test."""
    return context not in ("", ANY) and "::" not in context and test.startswith(context)


def _file(test: str) -> str:
    return test.partition("::")[0]


def _files(tests: Any) -> list[str]:
    return list(dict.fromkeys(map(_file, tests)))


def _mean(seconds: list[float]) -> float:
    return sum(seconds) / max(len(seconds), 1)
