"""The rows that a plan asks for, as far as they are there and as they were written."""

import warnings
from dataclasses import replace
from pathlib import Path

from dsacc.analysis.rows import Row
from dsacc.experiments.plan import Run, Student, Tests
from dsacc.play.store import read_rows


def planned_rows(what: Run | Student, run: Run, tests: Tests, folder: Path) -> list[Row]:
    """The rows that the plan asks for of a run or of its student. Others may have tested the agent in other ways since,
    or for more episodes. Rows that are damaged are passed over with a warning: those that the plan asks for at the end
    of training are missing then, and are played again."""
    return [
        replace(row.first(tests.episodes), run=what.name, variant=run.label)
        for row in read_rows(folder / "evaluations", strict=False)
        if _asked(row, run, tests) and (what is run or row.agent == what.agent)
    ]


def is_tested(what: Run | Student, run: Run, tests: Tests, folder: Path) -> bool:
    """Whether every row of the trained agent that the plan asks for is there, and as it was written."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # whoever plays or collects the rows says it
        rows = planned_rows(what, run, tests, folder)
    found = {(row.shift, row.severity, row.policy) for row in rows if row.step == run.steps}
    levels = {shift: (None,) if shift == "id" else tests.severity for shift in tests.shifts}
    return found >= {(shift, level, policy) for shift in levels for level in levels[shift] for policy in tests.policy}


def _asked(row: Row, run: Run, tests: Tests) -> bool:
    """Whether it is one of the plan's tests of a run, or of its student, which has as many steps."""
    return (
        row.shift in tests.shifts
        and row.policy in tests.policy
        and row.eval_seed == tests.seed
        and (row.shift == "id" or (row.severity in tests.severity and row.mode == tests.mode))
        and row.where is None
        and len(row.returns) >= tests.episodes
        and (row.step == run.steps or tests.every is not None)
    )
