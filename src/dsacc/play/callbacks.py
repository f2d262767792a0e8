"""Ready functions for `learn(every=...)`: test scores during training, keeping the best agent, stopping in time."""

import sys
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dsacc.dsac import DSAC
from dsacc.errors import ConfigError
from dsacc.play.rollout import evaluate
from dsacc.play.store import read_rows
from dsacc.system.text import readable


def mean_scores(rows: Sequence[dict[str, Any]]) -> dict[str, float]:
    """`{"test/snow-3/greedy": 12.5}`: the mean return of each row of `evaluate`, by the name it has in TensorBoard."""
    out = {}
    for row in rows:
        level = "" if row["severity"] in (None, "paper") else f"-{row['severity']}"
        out[f"test/{row['shift']}{level}/{row['policy']}"] = float(np.mean(row["returns"]))
    return out


class MeanScore:
    """A function of the model: the mean raw return of test episodes, over all conditions that are asked for.

    It can be given to `every` as it is, and to several of the functions below; at one step it plays once. The scores
    go to TensorBoard, where `learn` writes events. With `out`, the run's folder, the episodes are kept there, and a run
    that continues knows the scores from before. Otherwise they are in `scores` alone.
    """

    def __init__(
        self,
        env: Any = None,
        *,
        shifts: Sequence[str] = ("id",),
        episodes: int = 10,
        policy: str = "greedy",
        seed: int = 0,
        out: str | Path | None = None,
    ) -> None:
        self.env, self.shifts, self.episodes, self.policy = env, tuple(shifts), episodes, policy
        self.seed, self.out = seed, out
        self.scores: dict[int, float] = {}  # by the model's step
        self._of: Callable[[], DSAC | None] = lambda: None  # whose scores they are

    def __call__(self, model: DSAC) -> float:
        if self._of() is not model:
            self.scores, self._of = self._kept(model.step), weakref.ref(model)
        if model.step not in self.scores:
            self.scores[model.step] = self.measure(model)
        return self.scores[model.step]

    def measure(self, model: DSAC) -> float:
        """Play. A subclass may measure something else."""
        asked: dict[str, Any] = {"shifts": self.shifts, "episodes": self.episodes, "seed": self.seed, "out": self.out}
        rows = evaluate(model, self.env, policy=self.policy, **asked)
        scores = mean_scores(rows)
        model.record(scores)
        return float(np.mean(list(scores.values())))

    def before(self, model: DSAC) -> dict[int, float]:
        """The scores of earlier steps of this run."""
        return {step: score for step, score in sorted(self.scores.items()) if step < model.step}

    def _kept(self, now: int) -> dict[int, float]:
        """Scores of earlier steps, from the episodes in the run's folder."""
        returns: dict[int, dict[str, float]] = {}
        for row in [] if self.out is None else read_rows(Path(self.out) / "evaluations"):
            usual = row.severity in (None, "paper") and row.mode in (None, "independent") and row.where is None
            wanted = row.shift in self.shifts and row.policy == self.policy and row.eval_seed == self.seed
            if usual and wanted and row.step is not None and row.step < now and len(row.returns) >= self.episodes:
                returns.setdefault(row.step, {})[row.shift] = float(np.mean(row.returns[: self.episodes]))
        return {s: float(np.mean(list(r.values()))) for s, r in sorted(returns.items()) if len(r) == len(self.shifts)}


class KeepBest:
    """Saves the agent to `path`.safetensors where its test score is higher than at all earlier tests of the run."""

    def __init__(self, path: str | Path, score: MeanScore | None = None) -> None:
        self.path, self.score = path, score or MeanScore()

    def __call__(self, model: DSAC) -> None:
        now = self.score(model)
        if now > max(self.score.before(model).values(), default=-np.inf):
            model.save(self.path)


class StopWithoutGain:
    """Stops the run where the last `patience` tests gave no higher score than the best before them.

    A gain is more than `least`. No test before step `after` counts. One line on standard error says why it stopped.
    """

    def __init__(
        self, patience: int = 5, score: MeanScore | None = None, *, least: float = 0.0, after: int = 0
    ) -> None:
        if isinstance(patience, bool) or not isinstance(patience, int) or patience < 1:
            raise ConfigError(f"patience must be a whole number of at least 1 test, not {patience!r}")
        self.patience, self.score, self.least, self.after = patience, score or MeanScore(), least, after

    def __call__(self, model: DSAC) -> bool:
        now = self.score(model)
        tests = {s: x for s, x in {**self.score.before(model), model.step: now}.items() if s >= self.after}
        best_step, best, waited = 0, -np.inf, 0
        for step, score in tests.items():
            if score > best + self.least:
                best_step, best, waited = step, score, 0
            else:
                waited += 1
        if waited < self.patience:
            return True
        print(
            f"stopped at step {model.step:,}: {waited} tests without a better score than {readable(best, 4)} "
            f"of step {best_step:,}",
            file=sys.stderr,
        )
        return False
