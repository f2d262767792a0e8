"""The whole job on the built-in game, in minutes: the grid `demo` with its progress, its curves and its report."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.live import Live

from dsacc.analysis.rows import Row
from dsacc.envs import make_env
from dsacc.envs.catch import BEST_SCORE, RANDOM_SCORE
from dsacc.experiments.backends.local import Local
from dsacc.experiments.driver import run_experiment
from dsacc.experiments.grids import load_plan
from dsacc.experiments.plan import Plan
from dsacc.experiments.status import read_standings
from dsacc.experiments.status_table import as_table
from dsacc.experiments.task import folder_of
from dsacc.system.text import listed, readable
from dsacc.views.report import write_report


def run_demo(out: Path, plan: Plan | None = None, console: Console | None = None) -> list[Row]:
    """Train, test, report. What is finished is not done again."""
    plan, console = plan or load_plan("demo"), console or Console()

    def say(line: str) -> None:
        console.print(line, highlight=False, soft_wrap=True)

    agents, tests, first = [run.agent for run in plan.runs], plan.tests, plan.runs[0]
    shifts = listed([shift for shift in tests.shifts if shift != "id"])
    say(f"Training {' and '.join(agents)} on {first.env} for {first.steps:,} steps each, side by side.")
    say(f"Then testing both: {tests.episodes} balls each, clean and under {shifts}.")
    backend = Local(workers=len(plan.runs))
    rows = run_experiment(plan, out, backend, say, console, watch=_progress(plan, out, console))
    say(f"The best possible mean is {BEST_SCORE:g}; a player that does not look gets {RANDOM_SCORE:.2f}.")
    runs = {run.agent: folder_of(out, run) for run in plan.runs}
    say(f"Learning curves: {draw_curves(runs, first.env, out / 'curves.png')}")
    say(f"Runs: {', '.join(map(str, runs.values()))}")
    say(f"Report: {write_report(out)}, one page that opens in any browser")
    say("Next: dsacc train CartPole-v1 --agent dsac-m --steps 30000")
    return rows


@contextmanager
def _progress(plan: Plan, out: Path, console: Console) -> Iterator[Callable[[], None]]:
    """A live table on a terminal; elsewhere four lines per run."""
    if console.is_terminal:
        with Live(console=console, get_renderable=lambda: as_table(read_standings(out), str(out))):
            yield lambda: None
        return
    said = dict.fromkeys(plan.names, 0)

    def print_lines() -> None:
        for run, now in zip(plan.runs, read_standings(out), strict=True):
            if now.step >= said[run.name] + run.steps // 4:
                said[run.name] = now.step
                score = "" if now.last_return is None else f"  return {readable(now.last_return)}"
                console.print(f"{run.agent:7} step {now.step:,}/{run.steps:,}{score}", highlight=False)

    yield print_lines


def draw_curves(runs: dict[str, Path], env: str, path: Path) -> Path:
    """Return, lambda and the expected-value error over training, and the game itself."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(1, 4, figsize=(13, 3), layout="constrained", width_ratios=[0.9, 1, 1, 1])
    game = make_env(env)
    game.reset(seed=4)
    for _ in range(5):
        observation = game.step(2)[0]
    axes[0].imshow(observation)
    axes[0].set_title("Catch, as the agent sees it", fontsize=10)
    axes[0].axis("off")
    panels = {"return": "mean return per ball", "lambda": "λ, mean over states", "expected_error": "|E_φ[Q] - μ_θ|"}
    for axis, (key, title) in zip(axes[1:], panels.items(), strict=True):
        for (agent, run), colour, style in zip(runs.items(), ("#0072b2", "#d55e00"), ("-", "--"), strict=False):
            lines = (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
            rows = [row for row in map(json.loads, lines) if row.get(key) is not None]
            if rows:
                axis.plot([r["step"] for r in rows], [r[key] for r in rows], style, color=colour, label=agent.upper())
        if key == "lambda":
            axis.set_ylim(0, 1)
        axis.set_title(title, fontsize=10)
        axis.set_xlabel("agent steps")
        axis.grid(alpha=0.3)
        axis.legend(frameon=False, fontsize=9)
    for score in (BEST_SCORE, RANDOM_SCORE):
        axes[1].axhline(score, color="grey", lw=0.8, ls=":")
    figure.savefig(path, dpi=110)
    plt.close(figure)
    return path
