"""What `learn` calls on its way: the user's callbacks, checked before a run begins, and two listeners of our own."""

import inspect
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from dsacc.errors import ConfigError
from dsacc.training.loop import Row

Listener = Callable[[Row], object]
Callback = Listener | Sequence[Listener] | None
Hook = Callable[[Any], object]
Every = Mapping[int, Hook | Sequence[Hook]]

ALPHA_RANGE = (1e-8, 1e3)  # outside, the temperature has run away
_INSTEAD_OF = {  # Stable-Baselines3's ready callbacks, by the name of their class
    "EvalCallback": "every={10_000: KeepBest(...)} of dsacc.play",
    "StopTrainingOnNoModelImprovement": "every={10_000: StopWithoutGain(...)} of dsacc.play",
    "CheckpointCallback": 'out="runs/mine", which keeps checkpoints every checkpoint_every steps',
    "ProgressBarCallback": "progress_bar=True",
    "StopTrainingOnMaxEpisodes": 'callback=lambda row: row["episodes"] < N',
}


def wants_to_stop(answer: object) -> bool:
    """A callback stops the run with False, and with nothing else: most return None."""
    return isinstance(answer, bool | np.bool_) and not answer


def as_listeners(callback: Callback) -> list[Listener]:
    """The callbacks of `learn`: none, one or several, each a function of a row of metrics."""
    if callback is None:
        return []
    several = list(callback) if isinstance(callback, Sequence) else [callback]
    for one in several:
        _require_function(one, "a row of metrics", 'callback=lambda row: row["step"] < 50_000')
    return several


def as_hooks(every: Every | None) -> dict[int, list[Hook]]:
    """The functions of `every`, by their interval in agent steps."""
    out: dict[int, list[Hook]] = {}
    for steps, hooks in (every or {}).items():
        if isinstance(steps, bool) or not isinstance(steps, int) or steps < 1:
            raise ConfigError(f"every needs a whole number of at least 1 steps, not {steps!r}")
        out[steps] = list(hooks) if isinstance(hooks, Sequence) else [hooks]
        for hook in out[steps]:
            _require_function(hook, "the model", 'every={10_000: lambda model: model.save(f"at-{model.step}")}')
    return out


def _require_function(given: object, of: str, example: str) -> None:
    """Refuse what cannot be called with one value, and callbacks that need the inside of Stable-Baselines3's loop."""
    if callable(getattr(given, "init_callback", None)) and callable(getattr(given, "on_step", None)):
        names = [kind.__name__ for kind in type(given).__mro__]
        ours = next((_INSTEAD_OF[name] for name in names if name in _INSTEAD_OF), None)
        raise ConfigError(
            f"{names[0]} is a callback of Stable-Baselines3 and needs the inside of its loop; here "
            + (f"learn has {ours}" if ours else f"a callback is a function of a row of metrics: {example}")
        )
    if not callable(given):
        raise ConfigError(f"a callback is a function of {of}, not {given!r}; for example {example}")
    try:
        inspect.signature(given).bind(None)
    except TypeError:
        name = getattr(given, "__name__", type(given).__name__)
        raise ConfigError(
            f"the callback {name} must take one value, {of} (in Stable-Baselines3 two: locals and globals); "
            f"for example {example}"
        ) from None
    except ValueError:  # some built-in functions have no signature to look at
        return


class AlphaWarning:
    """Warns once when the temperature has run away."""

    def __init__(self) -> None:
        self.said = False

    def __call__(self, row: Row) -> None:
        low, high = ALPHA_RANGE
        alpha = row.get("alpha")
        if alpha is not None and not self.said and not low <= alpha <= high and alpha != 0:
            self.said = True
            warnings.warn(
                f"alpha is {alpha:.3g} at step {row['step']}, outside [{low:g}, {high:g}]: "
                "the target entropy may be out of reach; try a lower target_entropy_ratio",
                stacklevel=2,
            )


class EpisodeLines:
    """Prints a line after every `interval` episodes with their mean return and length; None prints nothing."""

    def __init__(self, interval: int | None) -> None:
        if interval is not None and (isinstance(interval, bool) or not isinstance(interval, int) or interval < 1):
            raise ConfigError(f"log_interval must be a whole number of at least 1 episode, not {interval!r}")
        self.interval, self.count = interval, 0
        self.recent: list[Row] = []

    def __call__(self, ended: Sequence[Row]) -> None:
        for episode in ended if self.interval else ():
            self.recent.append(episode)
            self.count += 1
            if len(self.recent) == self.interval:
                returns = np.mean([e["return"] for e in self.recent])
                lengths = [e["length"] for e in self.recent if e["length"] is not None]
                shown = f", length {np.mean(lengths):.1f}" if lengths else ""
                print(f"step {episode['step']:,}: {self.count:,} episodes, return {returns:.2f}{shown}", flush=True)
                self.recent = []
