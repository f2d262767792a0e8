"""Play full episodes under every condition and report raw scores.

Many games run at once, of all conditions, and the agent always sees a batch of the same size, so that neither how many
run together nor in which order they end changes a result: each episode has a seed of its own for its game, its weather
and its actions, and meets every agent with the same.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from dsacc.envs import Observations, env_name, make_env
from dsacc.errors import ConfigError
from dsacc.play.adapters import Player, as_player
from dsacc.play.store import Results, Row, Trial
from dsacc.shifts import MODES, Severity, Shift, as_level, find_kind
from dsacc.system.progress import watcher
from dsacc.system.threads import using_threads

Env = gym.Env[Any, Any]
Tick = Callable[[int, int], None]  # episodes that have ended, steps that were played

BATCH = 16  # rows the agent sees at every step, padded where fewer episodes run
MAX_STEPS = 27_000  # agent steps; a longer episode is cut. Atari names a limit of its own for tests
PAPER_SHIFTS = ("id", "snow", "rain", "fog")


def evaluate(
    agent: Any,
    env: str | Callable[[], Env] | None = None,
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
) -> list[Row]:
    """One row a condition, with every episode's raw return and length.

    - `agent`: a `DSAC`, a Stable-Baselines3 model, a function from a batch of observations to actions or scores, or
      text as on the command line (a run folder, "random", "blind:RUN", "sb3:FILE", "onnx:FILE", "module:function").
      `trust` allows files that can execute code.
    - `env`: a name or a function that makes one; by default the environment that the agent was trained on.
    - `shifts`: kinds of shift, "id" for the clean game. By default the paper's four for pictures, and "id" for others.
      `severity` is "paper", 1 to 5, or several of these; `mode` "independent", "frozen" or "falling"; `where` "screen"
      or "observation" (see `Shift`).
    - `policy`: "greedy", "sampled", or both in a list.
    - `out`: a folder that keeps the rows; what it holds already is not played again, and more episodes add to it.
    - `threads` are torch's while it plays; `tick` is told how many episodes have ended and how many steps were played.
    """
    if episodes < 1:
        raise ConfigError(f"episodes must be at least 1, not {episodes}")
    if seed < 0:
        raise ConfigError(f"seed must be at least 0, not {seed}")
    player = as_player(agent, env=env, trust=trust)
    source = env if env is not None else player.env
    if source is None:
        raise ConfigError(f"{player.agent} does not say which environment it was trained on; name one")
    make = source if callable(source) else lambda: make_env(source)
    first = make()
    player.check_fits(first)
    wanted = list(conditions_of(first, shifts, severity, mode, where, policy))
    about = {
        "env": env_name(first),
        "agent": player.agent,
        "train_seed": player.train_seed,
        "eval_seed": seed,
        "step": player.step,
    }
    results = Results(out, player.fingerprint)
    rows = [results.find(about, trial) for trial in wanted]
    jobs = [Job(i, e) for i, row in enumerate(rows) for e in range(len(row["returns"]), episodes)]
    watch = watcher(len(jobs), label="episodes", unit="episodes") if progress_bar and jobs else None

    def told(ended: int, steps: int) -> None:
        if watch is not None:
            watch.step(ended)
        if tick is not None:
            tick(ended, steps)

    try:
        with using_threads(threads):
            for i, returns, lengths in _play(player, make, first, wanted, jobs, seed, told):
                rows[i]["returns"] += returns
                rows[i]["lengths"] += lengths
                results.save(rows[i])
    finally:
        if watch is not None:
            watch.close()
    return [{**row, "returns": row["returns"][:episodes], "lengths": row["lengths"][:episodes]} for row in rows]


def conditions_of(
    env: Env,
    shifts: Sequence[str] | None,
    severity: Severity | str | Sequence[Severity | str],
    mode: str,
    where: str | None,
    policy: str | Sequence[str],
) -> Iterator[Trial]:
    """Every combination that was asked for, checked before anything is played; "id" has no severity and no mode."""
    picture = Observations(env.observation_space).is_image
    if shifts is None:
        shifts = PAPER_SHIFTS if picture else ("id",)
    severities = [severity] if isinstance(severity, str | int) else list(severity)
    policies = [policy] if isinstance(policy, str) else list(policy)
    for text in policies:
        if text not in ("greedy", "sampled"):
            raise ConfigError(f"policy is 'greedy' or 'sampled', not {text!r}")
    if mode not in MODES:
        raise ConfigError(f"mode is one of {', '.join(MODES)}, not {mode!r}")
    for shift in _once(shifts):
        if shift != "id":
            find_kind(shift, "picture" if picture else "vector")
        levels = [None] if shift == "id" else [as_level(s) or "paper" for s in severities]
        for level in _once(levels):
            for text in _once(policies):
                if shift == "id":
                    yield Trial("id", None, None, text)
                else:
                    yield Trial(shift, level, mode, text, where)


def _once(items: Iterable[Any]) -> list[Any]:
    return list(dict.fromkeys(items))


@dataclass(frozen=True)
class Job:
    """Episode number `episode` of trial number `trial`."""

    trial: int
    episode: int


class Game:
    """One environment under one condition. `base` can serve another one after it: starting an emulator costs 100 ms."""

    def __init__(self, base: Env, trial: Trial, seed: int) -> None:
        self.base, self.env, self.seed = base, base, seed
        self.limit = int(getattr(base.unwrapped, "test_steps", MAX_STEPS))
        if trial.shift != "id":
            severity, mode = trial.severity or "paper", str(trial.mode)
            self.env = Shift(base, trial.shift, severity, mode, seed, where=trial.where)

    def begin(self, job: Job) -> None:
        game, actions = np.random.SeedSequence((self.seed, job.episode)).spawn(2)
        self.job, self.score, self.length = job, 0.0, 0
        self.rng = np.random.default_rng(actions)
        self.observation, _ = self.env.reset(seed=int(game.generate_state(1)[0]))

    def step(self, action: int) -> bool:
        self.observation, reward, terminated, truncated, _ = self.env.step(action)
        self.score += float(reward)
        self.length += 1
        return terminated or truncated or self.length >= self.limit


def _play(
    player: Player,
    make: Callable[[], Env],
    first: Env,
    trials: Sequence[Trial],
    jobs: Sequence[Job],
    seed: int,
    told: Tick,
) -> Iterator[tuple[int, list[float], list[int]]]:
    """Plays all jobs; yields a trial's number and its returns and lengths, by episode, when the last has ended."""
    spare = [np.random.default_rng(0) for _ in range(BATCH)]  # for padded rows, whose actions nobody takes
    ended = steps = 0
    unused: list[Env] = [first]
    scores: dict[Job, tuple[float, int]] = {}
    left = Counter(job.trial for job in jobs)
    for policy in _once(trials[job.trial].policy for job in jobs):
        waiting = [job for job in jobs if trials[job.trial].policy == policy][::-1]
        running: list[Game] = []
        while waiting or running:
            while waiting and len(running) < BATCH:
                job = waiting.pop()
                running.append(Game(unused.pop() if unused else make(), trials[job.trial], seed))
                running[-1].begin(job)
            seen = [game.observation for game in running]
            pad = BATCH - len(seen)
            rngs = [game.rng for game in running] + spare[:pad]
            actions = player.act(np.stack(seen + [seen[0]] * pad), rngs, policy == "greedy")
            steps += len(running)
            going = []
            for game, action in zip(running, actions, strict=False):
                if not game.step(int(action)):
                    going.append(game)
                    continue
                scores[game.job] = (game.score, game.length)
                unused.append(game.base)
                ended += 1
                told(ended, steps)
                number = game.job.trial
                left[number] -= 1
                if left[number] == 0:
                    done = [scores[job] for job in jobs if job.trial == number]
                    yield number, [score for score, _ in done], [length for _, length in done]
            running = going
    for env in unused:
        env.close()
