"""The whole job on the built-in game, in minutes: the grid `demo` with its progress, its table, pictures and report."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.live import Live
from rich.table import Table

from dsacc.analysis.names import in_shift_order
from dsacc.analysis.rows import Row
from dsacc.cli.demo_pictures import Tested, draw_curves, draw_in_fog
from dsacc.envs.catch import BEST_SCORE, RANDOM_SCORE
from dsacc.experiments.backends.local import Local
from dsacc.experiments.driver import run_experiment
from dsacc.experiments.grids import load_plan
from dsacc.experiments.plan import Plan, Run, Student
from dsacc.experiments.status import Standing, read_standings
from dsacc.experiments.status_table import as_table
from dsacc.experiments.task import folder_of
from dsacc.shifts import exposure, resolve
from dsacc.system.text import listed, readable
from dsacc.views.report import write_report


def run_demo(out: Path, plan: Plan | None = None, console: Console | None = None) -> list[Row]:
    """Train, harden, test, report. What is finished is not done again."""
    plan, console = plan or load_plan("demo"), console or Console()

    def say(line: str) -> None:
        console.print(line, highlight=False, soft_wrap=True)

    for line in _announcement(plan):
        say(line)
    backend, nowhere = Local(workers=len(plan.runs)), Console(quiet=True)  # the demo has a shorter table of its own
    rows = run_experiment(plan, out, backend, say, nowhere, watch=_progress(plan, out, console))
    agents = [_tested(what, rows, out) for run in plan.runs for what in run.family]
    console.print(score_table(agents, plan.tests.episodes))
    say(f"{BEST_SCORE:g} is the best score: every ball is caught. A player that does not look gets {RANDOM_SCORE:.2f}.")
    if any(row.exposure == "unseen" for row in rows):
        say("unseen: before its test, the agent met nothing that looks like this weather.")
    say(f"One seed each, so this does not say which of {listed([run.agent for run in plan.runs])} is better.")
    say(f"The agents in fog: {draw_in_fog(agents, out / 'fog.png')}")
    runs = {run.agent: folder_of(out, run) for run in plan.runs}
    say(f"Learning curves: {draw_curves(runs, plan.runs[0].env, out / 'curves.png')}")
    say(f"Report: {write_report(out)}, one page that opens in any browser")
    for agent in agents:
        say(f"{agent.title}: {agent.folder}")
    say("Next: dsacc train CartPole-v1 --agent dsac-m --steps 30000")
    return rows


def _announcement(plan: Plan) -> list[str]:
    """What the demo will do, in plain words."""
    first, tests = plan.runs[0], plan.tests
    agents, weather = [run.agent for run in plan.runs], [shift for shift in tests.shifts if shift != "id"]
    taught = listed([run.agent for run in plan.runs if run.harden])
    kinds = resolve([kind for run in plan.runs for stage in run.harden for kind in stage.augment])
    unseen = all(exposure(shift, kinds) == "unseen" for shift in weather)
    return [
        f"Training {listed(agents)} to catch a falling ball, from pictures: {first.steps:,} steps each, side by side.",
        f"Then hardening {taught}: a student learns to do the same from disturbed pictures"
        + (", none of them with weather." if unseen else "."),
        f"Each agent is tested on {tests.episodes} balls with clean pictures, and on as many in {listed(weather)}.",
    ]


def _tested(what: Run | Student, rows: Sequence[Row], out: Path) -> Tested:
    own = [row for row in rows if row.run == what.name and row.policy == "greedy"]
    return Tested(what.agent, _about(what, own), folder_of(out, what), own)


def _about(what: Run | Student, rows: Sequence[Row]) -> str:
    """A few words on how an agent was made, in two short lines."""
    if isinstance(what, Student):
        met = list(dict.fromkeys(row.exposure for row in rows if row.exposure))
        return f"with dsacc harden;\nweather: {', '.join(met)}"
    return "trained on\nclean pictures" + ("" if what.config.constraint is None else ",\nconstrained")


def score_table(agents: Sequence[Tested], balls: int) -> Table:
    """Mean scores with greedy actions: one row per agent, one column per condition. A hardened agent's scores have the
    word for what it met of the shift before."""
    shifts = in_shift_order(row.shift for agent in agents for row in agent.rows)
    table = Table(title=f"Mean score of {balls} balls, greedy actions", title_justify="left", box=SIMPLE_HEAD)
    table.add_column("agent", no_wrap=True)
    for shift in shifts:
        table.add_column("clean" if shift == "id" else shift, justify="right", no_wrap=True)
    for agent in agents:
        found = [agent.row(shift) for shift in shifts]
        words = ["" if row is None else f"{row.mean:.2f}{f' {row.exposure}' if row.exposure else ''}" for row in found]
        table.add_row(agent.title, *words)
    return table


@contextmanager
def _progress(plan: Plan, out: Path, console: Console) -> Iterator[Callable[[], None]]:
    """A live table on a terminal; elsewhere four lines per agent."""
    if console.is_terminal:
        with Live(console=console, get_renderable=lambda: as_table(read_standings(out), str(out))):
            yield lambda: None
        return
    agents = {what.name: what.agent for run in plan.runs for what in run.family}
    said = dict.fromkeys(agents, 0)

    def print_lines() -> None:
        for now in read_standings(out):
            unit, done, asked = _how_far(now)
            if asked and done >= said[now.run] + max(asked // 4, 1):
                said[now.run] = done
                score = "" if now.last_return is None else f"  return {readable(now.last_return)}"
                console.print(f"{agents[now.run]:16} {unit} {done:,}/{asked:,}{score}", highlight=False)

    yield print_lines


def _how_far(now: Standing) -> tuple[str, int, int | None]:
    if now.update is not None:
        return "update", now.update, now.updates
    return "step", now.step, now.steps
