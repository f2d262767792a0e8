"""An experiment from its plan to its table. The same call again continues wherever the last one ended."""

import json
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from dsacc.analysis.formats import render
from dsacc.analysis.rows import Row, final_rows
from dsacc.errors import ConfigError, DsaccError, RunError
from dsacc.experiments.backends.base import Backend
from dsacc.experiments.plan import Plan, read_plan, why_not_grown, write_plan
from dsacc.experiments.scheduler import Outcome, execute
from dsacc.experiments.task import TaskFile, folder_of, is_done, warnings_of
from dsacc.experiments.tested import planned_rows
from dsacc.runs.lock import HEARTBEAT, RunLock
from dsacc.system.files import is_temporary, write_atomically
from dsacc.system.text import duration

MOST_WARNED = 10  # runs whose warnings are printed at the end


def run_experiment(
    plan: Plan,
    out: Path,
    backend: Backend,
    say: Callable[[str], None],
    console: Console | None = None,
    *,
    retries: int = 1,
    only: Sequence[str] = (),
    watch: AbstractContextManager[Callable[[], None]] | None = None,
) -> list[Row]:
    """Perform what is not done yet, collect the rows into OUT/results.json and print the table. Each run is trained and
    tested, and then its students are.

    A run that fails is tried `retries` times more. One that is preempted, out of time or lost with its node continues
    at no cost. With `only`, runs that fit none of these patterns wait for another call (`Plan.fitting`). `watch` is
    open while runs are performed; what it gives is called many times per minute, to show progress. Raises a DsaccError
    if runs failed, after the others are finished and each failed run was named with its error.
    """
    if retries < 0:
        raise ConfigError(f"--retries must be at least 0, not {retries}")
    chosen = plan.fitting(only)
    check_folder(plan, out)
    with _Held(out):
        check_folder(plan, out)  # again: another process may have used it in between
        write_plan(plan, out)
        left = [run.name for run in plan.runs if not is_done(run, plan.tests, out)]
        done = len(plan.runs) - len(left)
        waiting = len(left) - len(left := [name for name in left if name in chosen])
        runs = f"{len(plan.runs)} run{'s' if len(plan.runs) > 1 else ''}"
        others = f", {waiting} left for another call" if waiting else ""
        say(f"{out}: {runs}, {done} done{others}; `dsacc status {out}` shows their progress")
        failed: list[Outcome] = []

        def tell(outcome: Outcome) -> None:
            nonlocal done
            done += outcome.ok
            failed.extend([] if outcome.ok else [outcome])
            taken = f" ({outcome.taken})" if outcome.taken else ""
            how = f"done in {duration(outcome.seconds)}{taken}" if outcome.ok else f"failed: {outcome.error}"
            say(f"[{done}/{len(plan.runs)}] {outcome.name} {how}")

        def tell_taken(name: str, why: str, so_far: str) -> None:
            say(f"[{done}/{len(plan.runs)}] {name} was {why} and will continue (so far: {so_far})")

        if left:
            with watch or nullcontext(lambda: None) as tick:
                execute(plan, out, left, backend, tell, retries, tick, tell_taken)
        rows = collect(plan, out)
        write_atomically(out / "results.json", (json.dumps([row.sealed() for row in rows], indent=2) + "\n").encode())
        print_results(plan, rows, console)
        for line in warned(plan, out):
            say(line)
        say(f"results: {out / 'results.json'}")
    if failed:
        for outcome in failed:
            tried = f"tried {outcome.attempts} times" if outcome.attempts > 1 else ""
            before = ", ".join(filter(None, [tried, outcome.taken]))
            say(f"failed{f' ({before})' if before else ''}: {outcome.name}: {outcome.error}")
        raise DsaccError(f"{len(failed)} of {len(plan.runs)} runs failed; the same command tries them again")
    return rows


def check_folder(plan: Plan, out: Path) -> None:
    """Refuse a folder that holds other things, or a plan that this one does not continue."""
    if not out.exists():
        return
    if not out.is_dir():
        raise RunError(f"{out} is a file, not an experiment's folder; choose another --out")
    if not (out / "plan.json").exists():
        begun = (out / "tasks").is_dir()  # an experiment whose plan was damaged, and deleted
        if not begun and any(path.name != "lock" and not is_temporary(path, "plan.json") for path in out.iterdir()):
            raise RunError(f"{out} holds files but no experiment; choose another --out")
        return
    if change := why_not_grown(read_plan(out), plan):
        raise RunError(
            f"{out} holds another experiment ({change}); it may only grow in runs, steps, students and tests, so "
            "choose another --out"
        )


def collect(plan: Plan, out: Path) -> list[Row]:
    """The rows of all runs that are done and of their students, in the plan's order, each with the name of its folder
    and with the run's variant."""
    done = [run for run in plan.runs if is_done(run, plan.tests, out)]
    family = [(what, run) for run in done for what in run.family]
    return [row for what, run in family for row in planned_rows(what, run, plan.tests, folder_of(out, what))]


def warned(plan: Plan, out: Path) -> list[str]:
    """One line for each run that gave warnings, and for many runs how many more there are."""
    files = ((run.name, warnings_of(TaskFile(out, run.name).read())) for run in plan.runs)
    lines = [f"{name} warned: {'; '.join(kept)}" for name, kept in files if kept]
    if len(lines) > MOST_WARNED:
        left = len(lines) - MOST_WARNED
        lines[MOST_WARNED:] = [f"and {left} more run{'s' if left > 1 else ''} warned: `dsacc status {out}` shows them"]
    return lines


def print_results(plan: Plan, rows: list[Row], console: Console | None = None) -> None:
    """The table of the final agents; a variant counts as an agent of its own, and so does a student."""
    final = []
    for run in plan.runs:
        for what in run.family:
            tested = final_rows([row for row in rows if row.run == what.name], run.steps)
            final += [replace(row, agent=what.title) for row in tested]
    if final:
        render(final, "table", console=console)


class _Held(AbstractContextManager["_Held"]):
    """The experiment's lock, with its own heartbeat: two drivers on one folder would start every run twice."""

    def __init__(self, out: Path) -> None:
        self._lock = RunLock.acquire(out)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._beat, daemon=True)
        self._thread.start()

    def _beat(self) -> None:
        while not self._over.wait(HEARTBEAT / 3):
            self._lock.beat()

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self._lock.release()
