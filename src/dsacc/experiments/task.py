"""One task: train a run and test it, then make its students and test them. It may be repeated any number of times, on
any machine that sees the folder: what was begun continues, and what is finished is not done again.

`python -m dsacc.experiments.task OUT RUN` does it in a process of its own. Every backend starts that. The plan in OUT
is data: a module that it names is imported only where the starter names it too, because the user's grid does.
"""

import argparse
import json
import os
import signal
import socket
import sys
import time
import traceback
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

from dsacc.analysis.rows import is_whole
from dsacc.config import AGENTS
from dsacc.errors import ConfigError, DsaccError, Stopped
from dsacc.experiments import taken
from dsacc.experiments.plan import Run, Student, Tests, read_plan
from dsacc.system.files import json_or_empty, write_atomically
from dsacc.system.memory import keep_freed_memory
from dsacc.system.processes import die_with, pin_to
from dsacc.system.seals import sealed_or_empty
from dsacc.system.threads import use_one_thread
from dsacc.system.trust import require, trusting

HEARTBEAT = 30.0  # seconds between two signs of life while a run is tested
MOST_WARNINGS = 5  # of one task that are kept


class TaskFile:
    """OUT/tasks/NAME.json: how a task stands. It can tell even before the run's folder exists.

    `state` is waiting, training, hardening, testing, done, failed or stopped. Once the run itself is trained and
    tested, `student` names the student whose turn it is. `taken` counts how often it was taken away. `warnings` are the
    sentences that users would have seen if they had trained the run themselves.
    """

    def __init__(self, out: Path, name: str) -> None:
        self.path = out / "tasks" / f"{name}.json"
        self._beaten = time.monotonic()

    def read(self) -> dict[str, Any]:
        """Its content; empty if there is no file, or none that can be read."""
        return json_or_empty(self.path)

    def begin(self, run: Run, tests: Tests) -> None:
        before = self.read()
        attempts = (before["attempts"] if is_whole(before.get("attempts")) else 0) + 1
        here = {"host": socket.gethostname(), "pid": os.getpid(), "began": round(time.time(), 1)}  # unix seconds
        asked: dict[str, Any] = {"steps": run.steps, "tests": tests.key}
        asked |= {"students": [student.agent for student in run.students]} if run.students else {}
        asked |= {key: before[key] for key in taken.KEYS if key in before}
        if warned := warnings_of(before) if before.get("steps") == run.steps else []:  # a run that grew is another one
            asked["warnings"] = warned
        self._write({"state": "training", "error": None, "attempts": attempts, **here, "ended": None, **asked})

    def set(self, state: str, error: str | None = None, student: Student | None = None) -> None:
        """Write a state. `student` is given when a student's turn begins, and is then kept."""
        ended = round(time.time(), 1) if state in ("done", "failed", "stopped") else None
        turn = {} if student is None else {"student": student.name}
        self._write({**self.read(), "state": state, "error": error, "ended": ended, **turn})

    def warn(self, sentence: str) -> None:
        """Keep a warning, once."""
        said = self.read()
        kept = warnings_of(said)
        if sentence not in kept and len(kept) < MOST_WARNINGS:
            with suppress(OSError):  # it is in the log too
                self._write({**said, "warnings": [*kept, sentence]})

    def take_away(self, why: taken.Why) -> None:
        """Note that an attempt was taken away, here and in the task's log. The run waits to be continued."""
        said = self.read()
        noted = taken.note(said, why, taken.kept(self.path.parents[1] / "runs", self.path.stem))
        self._write({**said, "state": "waiting", "error": None, "ended": round(time.time(), 1), **noted})
        with suppress(OSError), open(self.path.with_suffix(".log"), "a") as log:
            log.write(f"dsacc: {taken.in_words(noted['taken'])}; kept so far: {noted['reached']}\n")

    def why_given_up(self) -> str | None:
        """The sentence for a run that is taken away again and again at the same place; None while it gets further."""
        return taken.why_given_up(self.read())

    def begin_anew(self) -> None:
        """Give a run that was given up the same patience again, because somebody asked for it."""
        said = self.read()
        if said.get("idle"):
            self._write({**said, "idle": 0})

    def beat(self) -> None:
        """Give readers on other hosts a sign of life: the file's time."""
        if time.monotonic() - self._beaten > HEARTBEAT:
            self._beaten = time.monotonic()
            with suppress(OSError):  # a missed heartbeat is not worth a run
                os.utime(self.path)

    def _write(self, content: dict[str, Any]) -> None:
        write_atomically(self.path, (json.dumps(content, indent=1) + "\n").encode())


def warnings_of(said: Mapping[str, Any]) -> list[str]:
    """The warnings that the content of a task's file holds."""
    kept = said.get("warnings")
    return [text for text in kept if isinstance(text, str)] if isinstance(kept, list) else []


@contextmanager
def noted(task: TaskFile) -> Iterator[None]:
    """Keep the warnings to users that are given inside, beside showing them. Nobody watches a task's log."""
    with warnings.catch_warnings():
        show = warnings.showwarning

        def both(message: Warning | str, category: type[Warning], *about: Any, **more: Any) -> None:
            if issubclass(category, UserWarning):
                task.warn(" ".join(str(message).split()))
            show(message, category, *about, **more)

        warnings.showwarning = both
        yield


def folder_of(out: Path, what: Run | Student) -> Path:
    """The folder of a run or of a student."""
    return out / "runs" / what.name


def is_done(run: Run, tests: Tests, out: Path) -> bool:
    """Whether it is trained to its last step and tested as planned, and its students too. Files that cannot be read or
    were changed count as not done."""
    said = TaskFile(out, run.name).read()
    if (said.get("state"), said.get("steps"), said.get("tests")) != ("done", run.steps, tests.key):
        return False
    if said.get("students", []) != [student.agent for student in run.students]:
        return False  # a student with another label is tested again: rows have the name of their agent
    folders = [folder_of(out, what) for what in run.family]
    if any(sealed_or_empty(folder / "status.json").get("state") != "finished" for folder in folders):
        return False
    from dsacc.experiments.tested import is_tested

    return all(is_tested(what, run, tests, folder) for what, folder in zip(run.family, folders, strict=True))


def perform(run: Run, tests: Tests, out: Path, device: str = "cpu") -> None:
    """Train the run in OUT/runs/NAME, or continue it, and test it; then make its students and test each. Errors are
    written to the task's file and raised."""
    if is_done(run, tests, out):
        return
    task = TaskFile(out, run.name)
    task.begin(run, tests)
    try:
        with noted(task):
            _train(run, tests, folder_of(out, run), device, task)
            for student in run.students:
                _harden(student, tests, out, device, task)
    except (Stopped, KeyboardInterrupt):
        task.set("stopped")
        raise
    except BaseException as error:
        task.set("failed", describe(error))
        raise
    task.set("done")


def _train(run: Run, tests: Tests, folder: Path, device: str, task: TaskFile) -> None:
    from dsacc.dsac import DSAC

    model = DSAC(run.source or run.env, AGENTS[run.agent], run.preset, run.seed, device=device, **run.settings)
    if model.config != run.config:
        raise ConfigError(f"{run.name} has other settings here than in its plan; use the dsacc that made the plan")
    every = {tests.every: lambda model: _evaluate(model, tests.on_the_way, folder)} if tests.every else {}
    model.learn(run.steps, out=folder, every=every)
    task.set("testing")
    _evaluate(model, tests, folder, task)


def _harden(student: Student, tests: Tests, out: Path, device: str, task: TaskFile) -> None:
    """Make a student, or continue it, and test it. Its teacher is read from the run's folder: by now the memory of the
    run's replay is free."""
    from dsacc.dsac import DSAC
    from dsacc.hardening import harden
    from dsacc.play.adapters import OwnPlayer

    task.set("hardening", student=student)
    folder, teacher = folder_of(out, student), DSAC.load(folder_of(out, student.run), device=device)
    player = OwnPlayer(harden(teacher, seed=student.run.seed, out=folder, device=device, **student.stage.recipe))
    player.agent = student.agent  # with the stage's label
    task.set("testing")
    _evaluate(player, tests, folder, task)


def describe(error: BaseException) -> str:
    """An error in one line, with its type if it is not one of our own sentences."""
    text = " ".join(str(error).split())
    return text if isinstance(error, DsaccError) and text else f"{type(error).__name__}: {text}".rstrip(": ")


def _evaluate(agent: Any, tests: Tests, folder: Path, task: TaskFile | None = None) -> None:
    """Write rows to FOLDER/evaluations. Rows that are there already are kept."""
    from dsacc.play import evaluate

    asked = {name: value for name, value in vars(tests).items() if name not in ("every", "every_shifts")}
    evaluate(agent, out=folder, tick=None if task is None else lambda *_: task.beat(), **asked)


# --- as a process ----------------------------------------------------------------------------------------------------


class _Stop:
    """Serves SIGTERM at once, by raising Stopped, until the task is `over`. Schedulers send it several times, and the
    last one would only interrupt Python's own ending."""

    received: int | None = None
    over = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        self.received = number
        if not self.over:
            raise Stopped(number)


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code 0: done. 1: failed, and OUT/tasks says why. 128 + signal: stopped."""
    parser = argparse.ArgumentParser(prog="python -m dsacc.experiments.task", description=__doc__)
    parser.add_argument("out", type=Path, metavar="OUT", help="the experiment's folder, with its plan.json")
    parser.add_argument("run", metavar="RUN", help="the run's name")
    parser.add_argument("--device", default="cpu", help="cpu, cuda or mps (default: cpu)")
    parser.add_argument("--core", type=int, help="processor core to stay on (default: any)")
    named = "MODULE:name that the plan may import; may be given again (default: none)"
    parser.add_argument("--named", action="append", default=[], metavar="NAME", help=named)
    parser.add_argument("--parent", type=int, help="process id of the starter; end when it ends (default: do not)")
    args = parser.parse_args(argv)
    if args.parent is not None:
        die_with(args.parent)
    if args.core is not None:
        pin_to(args.core)
    stop = _Stop()
    signal.signal(signal.SIGTERM, stop)
    if hasattr(signal, "SIGUSR2"):  # not on Windows
        signal.signal(signal.SIGUSR2, signal.SIG_IGN)  # Slurm sends it to all of a job; the job then asks us to stop
    use_one_thread()
    keep_freed_memory()
    try:
        plan = read_plan(args.out)
        with trusting(named=args.named):
            for name in plan[args.run].modules:
                require(name, "module", str(args.out / "plan.json"), "--named {name}", "import {module}")
            perform(plan[args.run], plan.tests, args.out, args.device)
    except Stopped as stopped:
        return 128 + stopped.signal
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        if stop.received is not None:  # foreign code that it came in may have made another error of it
            return 128 + stop.received
        if isinstance(error, DsaccError):
            print(f"dsacc: {error}", file=sys.stderr)
        else:
            traceback.print_exc()
        return 1
    finally:
        stop.over = True
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
