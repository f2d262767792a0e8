"""Play full episodes under every condition and report raw scores.

Games of all conditions run at once, and the agent always sees a batch of the same size. Each episode has its own seed
for its game, its weather and its actions, the same for every agent. So neither the number of games that run together
nor the order in which they end changes a result.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np

from dsacc.analysis.names import PAPER_SHIFTS
from dsacc.analysis.rows import Row
from dsacc.envs import EnvSource, check_actions, checked, env_name, stacked
from dsacc.envs.masks import MaskReader, stacked_masks
from dsacc.envs.protocol import LimitsTests
from dsacc.envs.record import record_of
from dsacc.envs.spaces import shows_pictures
from dsacc.errors import ConfigError
from dsacc.play.adapters import Player, as_player
from dsacc.play.adapters.base import act_among, takes_masks
from dsacc.play.source import check_same, find_source
from dsacc.play.store import NotKept, RowStore, Trial
from dsacc.shifts import MODES, Severity, Shift, as_level, exposure, find_kind
from dsacc.system.progress import Silent, Watcher, watcher
from dsacc.system.threads import using_threads
from dsacc.system.types import POLICIES, Array, Exposure

Env = gym.Env[Any, Any]
Tick = Callable[[int, int], None]  # episodes that have ended, steps that were played

BATCH = 16  # observations that the agent sees at every step, padded where fewer episodes run
MAX_STEPS = 27_000  # agent steps; a longer episode is cut. Atari has its own limit for tests


def evaluate(
    agent: Any,
    env: EnvSource | None = None,
    *,
    shifts: Sequence[str] | None = None,
    severity: Severity | str | Sequence[Severity | str] = "paper",
    mode: str = "independent",
    where: str | None = None,
    episodes: int = 10,
    seed: int = 0,
    policy: str | Sequence[str] = "greedy",
    out: str | Path | None = None,
    trust: bool = False,
    threads: int = 1,
    progress_bar: bool = False,
    tick: Tick | None = None,
) -> list[dict[str, Any]]:
    """One row per condition, with the raw return and the length of every episode, and the share of its steps that took
    its most frequent action: an agent that does not look has 1.

    - `agent`: a `DSAC`, a Stable-Baselines3 model, a function from a batch of observations to actions or scores, or
      text as on the command line (a run folder, "random", "blind:RUN", "sb3:FILE", "onnx:FILE", "module:function").
      `trust` allows files to choose code: `sb3:` files hold pickles, and any file may name an environment or an encoder
      with a module, `MODULE:name`, which is imported only if you trust the file or pass that name yourself.
    - `env`: a name, an environment, its class, or a function that makes one. By default it is what the agent was
      trained on: copies of the environment that it learned on, wrappers included, or for a saved agent the one of that
      name. Where the name makes another environment than it was trained on, this is refused.
    - `shifts`: kinds of shift, "id" for the clean game. By default the paper's four for pictures, and "id" for others.
      `severity` is "paper", 1 to 5, or several of these; `mode` "independent", "frozen" or "falling"; `where` "screen"
      or "observation" (see `Shift`).
    - `policy`: "greedy", "sampled", or both in a list.
    - `out`: a folder that keeps the rows. Episodes that it holds already are not played again; more are added. A folder
      that cannot be written raises `NotKept`, before anything is played where that shows then.
    - `threads`: of torch while it plays.
    - `tick`: called after each episode with the number of episodes that have ended and of steps that were played.
    """
    for name, value, least in (("episodes", episodes, 1), ("seed", seed, 0)):
        if value < least:
            raise ConfigError(f"{name} must be at least {least}, not {value}")
    player = as_player(agent, env=env, trust=trust)
    source = find_source(player, env, trust=trust)
    with ExitStack() as opened:  # closes every environment, whatever happens

        def make() -> Env:
            made = source.make()
            return made if source.lent else opened.enter_context(closing(made))

        first = make()
        check_same(player, first, asked_for=env is not None)
        player.check_fits(first)
        trials = list(conditions_of(first, shifts, severity, mode, where, policy))
        store = _store(out, player, first)
        about = (env_name(first), player.agent, player.train_seed, seed, player.step)
        rows = store.find([Row(*about, **asdict(trial), exposure=_met(player, trial)) for trial in trials])
        todo = [Episode(i, n) for i, row in enumerate(rows) for n in range(len(row.returns), episodes)]
        if todo:
            store.check()
        shown = progress_bar and todo
        watch: Watcher = watcher(len(todo), label="episodes", unit="episodes") if shown else Silent()
        opened.callback(watch.close)

        def told(ended: int, steps: int) -> None:
            watch.step(ended)
            if tick is not None:
                tick(ended, steps)

        opened.enter_context(using_threads(threads))
        failed: NotKept | None = None
        for i, ended in _play(player, make, first, trials, todo, seed, told, source.alone):
            rows[i] = rows[i].extended(*zip(*ended, strict=True))
            try:
                store.save(rows[i])
            except NotKept as error:  # the scores are worth more than the file
                failed = failed or error
    found = [row.first(episodes).to_json() for row in rows]
    if failed is not None:
        raise NotKept(str(failed), found) from failed
    return found


def conditions_of(
    env: Env,
    shifts: Sequence[str] | None,
    severity: Severity | str | Sequence[Severity | str],
    mode: str,
    where: str | None,
    policy: str | Sequence[str],
) -> Iterator[Trial]:
    """Every combination that was asked for, checked before anything is played. "id" has no severity and no mode."""
    picture = shows_pictures(env.observation_space)
    if shifts is None:
        shifts = PAPER_SHIFTS if picture else ("id",)
    severities = [severity] if isinstance(severity, str | int) else list(severity)
    policies = [policy] if isinstance(policy, str) else list(policy)
    for text in policies:
        if text not in POLICIES:
            raise ConfigError(f"policy is 'greedy' or 'sampled', not {text!r}")
    if mode not in MODES:
        raise ConfigError(f"mode is one of {', '.join(MODES)}, not {mode!r}")
    for shift in _once(shifts):
        if shift == "id":
            yield from (Trial("id", None, None, text) for text in _once(policies))
            continue
        find_kind(shift, "picture" if picture else "vector")
        for level in _once(as_level(s) or "paper" for s in severities):
            yield from (Trial(shift, level, mode, text, where) for text in _once(policies))


def _met(player: Player, trial: Trial) -> Exposure | None:
    """What an agent that was hardened has met of the shift before; None for other agents, and for the clean game."""
    kinds: tuple[str, ...] = getattr(player, "augmented", ())
    return exposure(trial.shift, kinds) if kinds and trial.shift != "id" else None


def _store(out: str | Path | None, player: Player, env: Env) -> RowStore:
    """Where the rows are kept. What a wrapper or a class without a name was made with is not known, so rows of these
    are never taken for those of a later call."""
    record, source = record_of(env), player.fingerprint
    if source is not None and record["settings"]:
        source += json.dumps(record["settings"], sort_keys=True)
    return RowStore(out, source, again=record["id"] is None or bool(record["wrappers"]))


def _once(items: Iterable[Any]) -> list[Any]:
    return list(dict.fromkeys(items))


@dataclass(frozen=True)
class Episode:
    """Episode number `number` of trial number `trial`."""

    trial: int
    number: int


class Outcome(NamedTuple):
    """How an episode ended."""

    score: float
    length: int  # agent steps
    top_action: float  # share of them with the most frequent action


def longest_episode(env: Env) -> int:
    """Agent steps after which an episode is cut."""
    base = env.unwrapped
    return int(base.test_steps) if isinstance(base, LimitsTests) else MAX_STEPS


class Game:
    """One environment under one condition. `base` can serve another condition afterwards: an emulator takes 100 ms to
    start. With `masked`, `mask` is what the environment allows in the state that `observation` shows."""

    def __init__(self, base: Env, trial: Trial, seed: int, masked: bool = False) -> None:
        self.base, self.env, self.seed = base, base, seed
        self.mask: Array | None = None
        self._masks = MaskReader(base, check_actions(base)) if masked else None
        self.limit = longest_episode(base)
        if trial.shift != "id":
            severity, mode = trial.severity or "paper", str(trial.mode)
            self.env = Shift(base, trial.shift, severity, mode, seed, where=trial.where)

    def begin(self, episode: Episode) -> None:
        game, actions = np.random.SeedSequence((self.seed, episode.number)).spawn(2)
        self.episode, self.score, self.length = episode, 0.0, 0
        self.taken: Counter[int] = Counter()  # how often each action was taken
        self.rng = np.random.default_rng(actions)
        self.observation, info = checked.reset(self.env, int(game.generate_state(1)[0]))
        self.mask = self._masks.read(info) if self._masks else None

    def step(self, action: int) -> bool:
        self.observation, reward, terminated, truncated, info = checked.step(self.env, action, self.length + 1)
        self.score += reward
        self.length += 1
        self.taken[action] += 1
        over = terminated or truncated or self.length >= self.limit
        self.mask = self._masks.read(info) if self._masks and not over else None
        return over

    @property
    def outcome(self) -> Outcome:
        """Of the episode that has ended."""
        return Outcome(self.score, self.length, round(max(self.taken.values()) / self.length, 4))


def _play(
    player: Player,
    make: Callable[[], Env],
    first: Env,
    trials: Sequence[Trial],
    todo: Sequence[Episode],
    seed: int,
    told: Tick,
    alone: bool = False,
) -> Iterator[tuple[int, list[Outcome]]]:
    """Plays all episodes, one at a time where the environment must be `alone`. When the last one of a trial has ended,
    yields its number and how its episodes ended."""
    spare = [np.random.default_rng(0) for _ in range(BATCH)]  # for padding, whose actions nobody takes
    ended = steps = 0
    unused: list[Env] = [first]
    outcomes: dict[Episode, Outcome] = {}
    left = Counter(episode.trial for episode in todo)
    for policy in _once(trials[episode.trial].policy for episode in todo):
        waiting = [episode for episode in todo if trials[episode.trial].policy == policy][::-1]
        running: list[Game] = []
        while waiting or running:
            while waiting and len(running) < (1 if alone else BATCH):
                episode = waiting.pop()
                base = unused.pop() if unused else make()
                running.append(Game(base, trials[episode.trial], seed, takes_masks(player)))
                running[-1].begin(episode)
            seen = [game.observation for game in running]
            pad = BATCH - len(seen)
            rngs = [game.rng for game in running] + spare[:pad]
            masks = stacked_masks([game.mask for game in running] + [running[0].mask] * pad)
            actions = act_among(player, stacked(seen + [seen[0]] * pad), rngs, policy == "greedy", masks)
            steps += len(running)
            going = []
            for game, action in zip(running, actions, strict=False):
                if not game.step(int(action)):
                    going.append(game)
                    continue
                outcomes[game.episode] = game.outcome
                unused.append(game.base)
                ended += 1
                told(ended, steps)
                trial = game.episode.trial
                left[trial] -= 1
                if left[trial] == 0:
                    yield trial, [outcomes[episode] for episode in todo if episode.trial == trial]
            running = going
