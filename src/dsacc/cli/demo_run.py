"""The whole job on the built-in game, in minutes: train two agents side by side, test both, say what came of it."""

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from dsacc.analysis.formats import render
from dsacc.dsac import DSAC
from dsacc.envs.catch import BEST_SCORE, RANDOM_SCORE
from dsacc.errors import DsaccError
from dsacc.play import evaluate
from dsacc.system.files import write_atomically
from dsacc.system.progress import describe
from dsacc.views.report import write_report

ENV, PRESET, STEPS = "dsacc/Catch-v0", "efficient", 3_000
# A game this small allows larger steps than Atari does.
SETTINGS = ["--learning-rate", "1e-3", "--random-steps", "500", "--log-every", "100"]
AGENTS = ("dsac", "dsac-m")
EPISODES = 200
POLICIES = ("greedy", "sampled")
SHIFTS = ("id", "snow", "rain", "fog")


def run_demo(out: Path) -> list[dict[str, Any]]:
    """Train, test, report. A finished part is not done again."""
    console = Console()
    console.print(f"Training {' and '.join(AGENTS)} on {ENV} for {STEPS:,} steps each, side by side.")
    runs = {agent: out / agent for agent in AGENTS}
    _train_side_by_side(runs, console)
    console.print(f"Testing both: {EPISODES} balls each, clean and under snow, rain and fog.")
    rows = []
    for agent, run in runs.items():
        rows += evaluate(DSAC.load(run), shifts=SHIFTS, episodes=EPISODES, policy=POLICIES, out=run)
        console.print(f"{agent:7} tested", highlight=False)
    write_atomically(out / "results.json", (json.dumps(rows, indent=2) + "\n").encode())
    picture = draw_curves(runs, out / "curves.png")
    render(rows, "table", console=console)
    console.print(f"The best possible mean is {BEST_SCORE:g}; a player that does not look gets {RANDOM_SCORE:.2f}.")
    console.print(f"Results: {out / 'results.json'}", soft_wrap=True)
    console.print(f"Learning curves: {picture}", soft_wrap=True)
    console.print(f"Runs: {', '.join(map(str, runs.values()))}", soft_wrap=True)
    console.print(f"Report: {write_report(out)}, one page that opens in any browser", soft_wrap=True)
    console.print("Next: dsacc train CartPole-v1 --agent dsac-m --steps 30000")
    return rows


def _train_side_by_side(runs: dict[str, Path], console: Console) -> None:
    """One process an agent, one thread each: on two cores that is faster than one after the other with two."""
    processes = {}
    for agent, run in runs.items():
        command = [sys.executable, "-m", "dsacc", "train", ENV, "--agent", agent, "--preset", PRESET]
        command += ["--steps", str(STEPS), "--out", str(run), *SETTINGS]
        processes[agent] = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    columns = (
        TextColumn("{task.description:7}"),
        BarColumn(bar_width=8),
        TextColumn("{task.completed:,.0f}/{task.total:,.0f}"),
    )
    bars = Progress(*columns, TimeElapsedColumn(), TextColumn("{task.fields[figures]}"), console=console)
    bars.disable = not console.is_terminal  # lines instead
    said = dict.fromkeys(runs, 0)
    try:
        with bars:
            tasks = {agent: bars.add_task(agent, total=STEPS, figures="") for agent in runs}
            running = True
            while running:
                running = any(p.poll() is None for p in processes.values())
                for agent, run in runs.items():
                    step, figures = _latest(run)
                    bars.update(tasks[agent], completed=step, figures=figures)
                    if bars.disable and step >= said[agent] + STEPS // 4:
                        said[agent] = step
                        console.print(f"{agent:7} step {step:,}/{STEPS:,}  {figures}", highlight=False)
                time.sleep(0.5 if running else 0)
    finally:
        for process in processes.values():
            process.kill() if process.poll() is None else None
    for agent, process in processes.items():
        if process.returncode != 0:
            words = (process.communicate()[1] or "").strip().splitlines()
            raise DsaccError(f"training {agent} failed: {words[-1] if words else f'exit code {process.returncode}'}")


def _latest(run: Path) -> tuple[int, str]:
    """How far a run is and its latest figures, read from its folder."""
    latest: dict[str, Any] = {"step": 0}
    try:
        for row in _rows(run):
            latest |= {k: v for k, v in row.items() if v is not None}
    except OSError:
        pass  # not there yet
    return latest["step"], describe(latest, ("return", "entropy", "lambda"))


def _rows(run: Path) -> list[dict[str, Any]]:
    text = (run / "metrics.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]


def draw_curves(runs: dict[str, Path], path: Path) -> Path:
    """Return, entropy, lambda and the expected-value error over training, and the game itself."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot as plt

    from dsacc.envs import make_env

    figure, axes = plt.subplots(1, 4, figsize=(13, 3), layout="constrained", width_ratios=[0.9, 1, 1, 1])
    game = make_env(ENV)
    game.reset(seed=4)
    for _ in range(5):
        observation = game.step(2)[0]
    axes[0].imshow(observation)
    axes[0].set_title("Catch, as the agent sees it", fontsize=10)
    axes[0].axis("off")
    panels = [("return", "mean return a ball"), ("lambda", "λ, mean over states"), ("expected_error", "|E_φ[Q] - μ_θ|")]
    for axis, (key, title) in zip(axes[1:], panels, strict=True):
        for (agent, run), colour, style in zip(runs.items(), ("#0072b2", "#d55e00"), ("-", "--"), strict=False):
            rows = [r for r in _rows(run) if r.get(key) is not None]
            if rows:
                axis.plot([r["step"] for r in rows], [r[key] for r in rows], style, color=colour, label=agent.upper())
        if key == "lambda":
            axis.set_ylim(0, 1)
        axis.set_title(title, fontsize=10)
        axis.set_xlabel("agent steps")
        axis.grid(alpha=0.3)
        axis.legend(frameon=False, fontsize=9)
    axes[1].axhline(BEST_SCORE, color="grey", lw=0.8, ls=":")
    axes[1].axhline(RANDOM_SCORE, color="grey", lw=0.8, ls=":")
    figure.savefig(path, dpi=110)
    plt.close(figure)
    return path
