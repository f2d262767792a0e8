"""The pictures of the demo: agents in fog on the same ball, and how they learned."""

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dsacc.analysis.names import display_name
from dsacc.analysis.rows import Row
from dsacc.dsac import DSAC
from dsacc.envs import make_env, require_env
from dsacc.envs.catch import BEST_SCORE, RANDOM_SCORE
from dsacc.play.adapters import OwnPlayer
from dsacc.play.rollout import BATCH, Episode, Game
from dsacc.play.store import Trial
from dsacc.system.types import Array
from dsacc.views.report.logs import read_numbers

INK, GREY, FAINT, BAR = "#1b2430", "#5b6676", "#e3e7ec", "#3b5b86"
MISSED, CAUGHT = "#c8321f", "#14804a"
MARGIN, NAME, FRAME, SEAM, LABELS, BARS = 0.2, 2.2, 1.2, 0.07, 0.62, 2.3  # inches, from left to right
HEAD, ROW, FOOT = 0.62, 1.62, 0.42  # inches, from top to bottom
SAME = "Ball and fog are the same for all."
CONDITIONS = {"id": "clean", "snow": "snow", "rain": "rain", "fog": "fog"}


@dataclass(frozen=True)
class Tested:
    """A trained agent: its folder, and its rows with greedy actions."""

    title: str
    about: str  # a few words on how it was made
    folder: Path
    rows: Sequence[Row]

    def row(self, shift: str) -> Row | None:
        """Its test under a shift."""
        return next((row for row in self.rows if row.shift == shift), None)

    def mean(self, shift: str) -> float:
        """Its mean score under a shift; NaN where it was not tested."""
        row = self.row(shift)
        return float("nan") if row is None else row.mean


def draw_in_fog(agents: Sequence[Tested], path: Path) -> Path:
    """One ball of the test in fog as each agent played it, one row per agent, and each agent's scores beside it.

    The ball is the first of the test that the last agent catches and all others miss, if there is one.
    """
    number, chosen = telling_ball([agent.row("fog") for agent in agents])
    films = [_film(agent, number) for agent in agents]
    page = _Page(len(agents), max(len(film) for film in films))
    for i, (agent, film) in enumerate(zip(agents, films, strict=True)):
        _name(page.axis(i, MARGIN, NAME), agent)
        for j, picture in enumerate(film):
            last = j == len(film) - 1
            _frame(page.axis(i, page.film + j * (FRAME + SEAM), FRAME), picture, _outcome(agent, number, last))
        _bars(page.axis(i, page.bars, BARS), agent)
    balls = len(agents[0].rows[0].returns)
    page.head(page.film, "One ball in the fog, as each agent saw it")
    page.head(page.bars - LABELS, f"Mean score of {balls} balls")
    page.foot(page.film, chosen)
    page.foot(page.bars - LABELS, "best: 1; dotted: a blind player")
    return page.save(path)


class _Page:
    """A figure whose parts are placed in inches from its upper left corner."""

    def __init__(self, rows: int, frames: int) -> None:
        self.film = MARGIN + NAME
        self.bars = self.film + frames * (FRAME + SEAM) + 0.25 + LABELS
        self.width, self.height = self.bars + BARS + MARGIN, HEAD + rows * ROW + FOOT
        self.figure = _pyplot().figure(figsize=(self.width, self.height), facecolor="white")

    def axis(self, row: int, left: float, width: float) -> Any:
        """A place in a row, as high as a picture."""
        bottom = self.height - HEAD - row * ROW - FRAME
        place = (left / self.width, bottom / self.height, width / self.width, FRAME / self.height)
        return self.figure.add_axes(place)

    def head(self, left: float, text: str) -> None:
        look = {"color": INK, "fontsize": 15, "fontweight": "bold", "va": "center"}
        self.figure.text(left / self.width, 1 - 0.31 / self.height, text, **look)

    def foot(self, left: float, text: str) -> None:
        self.figure.text(left / self.width, 0.26 / self.height, text, color=GREY, fontsize=12.5, va="center")

    def save(self, path: Path) -> Path:
        self.figure.savefig(path, dpi=110, facecolor="white")
        _pyplot().close(self.figure)
        return path


def telling_ball(tests: Sequence[Row | None]) -> tuple[int, str]:
    """The number of the ball to show, and a sentence on how it was chosen."""
    if any(test is None for test in tests):
        return 0, ""
    *others, last = [test.returns for test in tests if test is not None]
    for i, score in enumerate(last):
        if score > 0 and all(other[i] < 0 for other in others):
            return i, f"Ball {i + 1} of the test, the first that only the last agent catches. {SAME}"
    return 0, f"Ball 1 of the test. {SAME}"


def _film(agent: Tested, number: int) -> list[Array]:
    """What the agent saw of one ball of the test in fog. It is played again, exactly as in the test."""
    test = agent.row("fog")
    assert test is not None, "an agent of the demo is tested in fog"
    player = OwnPlayer(DSAC.load(agent.folder))
    require_env(test.env, str(agent.folder))
    with closing(make_env(test.env)) as env:
        game = Game(env, Trial("fog", test.severity, test.mode, "greedy"), test.eval_seed or 0)
        game.begin(Episode(0, number))
        seen, going = [np.asarray(game.observation)], True
        while going:
            actions = player.act(np.stack([game.observation] * BATCH), [game.rng] * BATCH, greedy=True)
            going = not game.step(int(actions[0]))
            seen.append(np.asarray(game.observation))
    return seen


def _outcome(agent: Tested, number: int, last: bool) -> bool | None:
    """Whether the ball was caught, for the last picture of a film."""
    test = agent.row("fog")
    return test.returns[number] > 0 if test is not None and last else None


def _name(axis: Any, agent: Tested) -> None:
    axis.axis("off")
    title, _, rest = display_name(agent.title).partition(", ")
    axis.text(0, 0.86, title, fontsize=17, fontweight="bold", color=INK, va="center")
    axis.text(0, 0.62, rest, fontsize=17, fontweight="bold", color=CAUGHT, va="center")
    axis.text(0, 0.45 if rest else 0.68, agent.about, fontsize=13, color=GREY, va="top", linespacing=1.35)


def _frame(axis: Any, picture: Array, caught: bool | None) -> None:
    """A picture. The last one has a border and a word that say how it ended."""
    axis.imshow(picture, interpolation="nearest")
    axis.set_xticks([])
    axis.set_yticks([])
    for spine in axis.spines.values():
        spine.set_visible(caught is not None)
        spine.set(color=CAUGHT if caught else MISSED, linewidth=4)
    if caught is not None:
        word, colour = ("caught", CAUGHT) if caught else ("missed", MISSED)
        axis.set_xlabel(word, color=colour, fontsize=14, fontweight="bold", labelpad=4)


def _bars(axis: Any, agent: Tested) -> None:
    """The mean scores, one bar per condition."""
    names = [name for name in CONDITIONS if agent.row(name) is not None]
    for i, name in enumerate(names):
        mean, fog = agent.mean(name), name == "fog"
        colour = BAR if not fog else CAUGHT if mean > 0.5 else MISSED
        axis.barh(i, 2, left=-1, height=0.66, color=FAINT)
        axis.barh(i, mean + 1, left=-1, height=0.66, color=colour)
        text = {"fontsize": 13, "color": colour if fog else INK, "fontweight": "bold" if fog else "normal"}
        axis.text(1.9, i, f"{mean:.2f}", va="center", ha="right", **text)
        axis.text(-1.1, i, CONDITIONS[name], va="center", ha="right", **text)
    axis.axvline(RANDOM_SCORE, color=INK, linewidth=1, linestyle=":")
    axis.set_ylim(len(names) - 0.5, -0.5)
    axis.set_xlim(-1, 1.9)
    axis.axis("off")


def draw_curves(runs: Mapping[str, Path], env: str, path: Path) -> Path:
    """Return, lambda and the expected-value error over training, and the game itself."""
    plt = _pyplot()
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
        for (agent, run), colour, style in zip(runs.items(), ("#0064c8", "#d95f02"), ("-", "--"), strict=False):
            rows = [row for row in read_numbers(run / "metrics.jsonl")[0] if key in row]
            if rows:
                axis.plot([r["step"] for r in rows], [r[key] for r in rows], style, color=colour, label=agent.upper())
        if key == "lambda":
            axis.set_ylim(0, 1)
        axis.set_title(title, fontsize=10)
        axis.set_xlabel("agent steps")
        axis.grid(alpha=0.3)
        axis.legend(frameon=False, fontsize=9)
    label = {"fontsize": 8.5, "color": GREY, "transform": axes[1].get_yaxis_transform()}
    # The best at the left and the blind player at the right, where no curve is.
    axes[1].axhline(BEST_SCORE, color=GREY, lw=0.8, ls=":")
    axes[1].text(0.02, BEST_SCORE, "best: every ball caught", ha="left", va="top", **label)
    axes[1].axhline(RANDOM_SCORE, color=GREY, lw=0.8, ls=":")
    axes[1].text(0.98, RANDOM_SCORE, "a blind player", ha="right", va="bottom", **label)
    figure.savefig(path, dpi=110)
    plt.close(figure)
    return path


def _pyplot() -> Any:
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    return pyplot
