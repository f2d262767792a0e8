"""What a plan will take here: memory, disk, and time, measured on a few dozen steps and updates."""

import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from dsacc.config import AGENTS, Config
from dsacc.envs import Observations, checked
from dsacc.experiments.facts import EnvFacts, facts_of, memory_of
from dsacc.experiments.plan import Plan, Run, Stage
from dsacc.experiments.status import Standing, read_standings
from dsacc.experiments.task import is_done
from dsacc.hardening.distil import FILTER
from dsacc.hardening.states import GAMES, STRIDE
from dsacc.hardening.work import AUGMENTED, CLEAN
from dsacc.play.rollout import BATCH
from dsacc.shifts import Augmenter, resolve
from dsacc.system.memory import free_memory
from dsacc.system.text import duration, size
from dsacc.system.threads import use_one_thread
from dsacc.system.types import Array

SECONDS = 2.0  # for each of the two measurements of a kind of run
GROUP_FROM = 30  # with more runs than this, the table has one row per game and agent
# Settings that do not change how long a step or an update takes. Every other one counts. A constraint adds 1 to 3 %,
# less than the error of the measurement. The number of random steps and updates enters later, in `need_of`.
FREE = {
    "env", "seed", "random_steps", "replay_size", "train_every", "updates", "gamma", "clip_rewards", "lost_life_ends",
    "learning_rate", "actor_learning_rate", "alpha_learning_rate", "adam_eps", "actor_adam_eps", "target_tau",
    "target_every", "alpha", "initial_alpha", "min_alpha", "target_entropy_ratio", "target_entropy_final",
    "target_entropy_steps", "critic_entropy", "constraint", "multiplier_form", "perturbation", "noise_std",
    "noise_relative", "noise_scope", "fixed_lambda", "log_every", "checkpoint_every",
    "alpha_scale", "min_range", "gamma_final", "alpha_final", "learning_rate_final", "anneal_start", "anneal_end",
    "anneal_shape", "reset_every", "reset_keep", "reset_until", "weight_decay",
    "priority_exponent", "priority_correction", "greedy_share", "greedy_period",
    "actor_rate_over_alpha",
}  # fmt: skip


@dataclass(frozen=True)
class Pace:
    """How fast a kind of run is here. Times are in seconds."""

    random: float  # per agent step that acts at random
    step: float  # per agent step by the policy
    update: float
    test: float  # per forward pass of a test
    agent_bytes: int  # of an agent on the disk
    student: tuple[float, ...] = ()  # per update of each student


@dataclass(frozen=True)
class Need:
    """What one run and its students take, from the first step."""

    training: float  # seconds
    hardening: tuple[float, ...]  # seconds of each student
    test_seconds: float  # at most; 0 if the environment does not limit a test game
    memory: int
    disk: int

    @property
    def seconds(self) -> float:
        """Of training and hardening, without tests."""
        return self.training + sum(self.hardening)


def kind_of(run: Run) -> tuple[Any, ...]:
    """Runs of one kind take the same time per step."""
    settings = [value for name, value in dataclasses.asdict(run.config).items() if name not in FREE]
    students = [(stage.augment, stage.picture_filter, stage.fresh) for stage in run.harden]
    return (facts_of(run.source or run.env).spec, *settings, *students)


def measure(run: Run) -> Pace:
    """Time some steps and updates of a run, in this process and on one thread."""
    use_one_thread()
    from dsacc.dsac import DSAC

    config, envs = run.config, run.config.envs
    warm = max(2 * config.most_steps * envs, 64)  # random steps, enough to sample minibatches from
    settings = {**run.settings, "random_steps": warm, "replay_size": max(4_096, (config.most_steps + 1) * envs)}
    model = DSAC(run.source or run.env, AGENTS[run.agent], run.preset, run.seed, **settings)
    trainer = model.prepare(1)
    began = time.perf_counter()
    while trainer.step < warm + config.most_steps * envs + envs:
        trainer.collect(envs)
    random = (time.perf_counter() - began) / trainer.step
    step = _seconds(lambda: trainer.collect(envs)) / envs
    update = _seconds(trainer.learn)
    seen = np.stack([checked.reset(model.envs[0], 0)[0]] * BATCH)
    test = _seconds(lambda: model.logits(seen), SECONDS / 4)
    agent_bytes = sum(tensor.nbytes for tensor in model.learner.state().values())
    students = tuple(_student_update(model, stage, seen[0]) for stage in run.harden)  # after all else: they change it
    for env in model.envs:
        env.close()
    return Pace(random, step, update, test, agent_bytes, students)


def _student_update(model: Any, stage: Stage, observation: Array) -> float:
    """Seconds of one update of a student. It learns from copies of one picture here: the time is the same."""
    from dsacc.hardening.student import Student

    states = np.stack([observation] * AUGMENTED)
    seen_through = stage.picture_filter or (FILTER if stage.fresh else model.config.picture_filter)
    see = Observations(model.observations.space, seen_through).encode
    augmenter, rng = Augmenter(resolve(stage.augment), states.shape[1:]), np.random.default_rng(0)
    clean, student, actions = see(np.stack([observation] * CLEAN)), Student(model, 1e-4, 1), model.learner.actions
    policy_BA = np.full((CLEAN + AUGMENTED, actions), 1 / actions, np.float32)
    q_2BA = np.zeros((2, *policy_BA.shape), np.float32)

    def update() -> None:
        student.update(np.concatenate([clean, see(augmenter(states, states, rng))]), policy_BA, q_2BA, 1.0, 0, CLEAN)

    return _seconds(update)


def _seconds(action: Callable[[], object], budget: float = SECONDS) -> float:
    """The median of as many calls as fit into the budget, but at least three. The first call does not count."""
    action()
    times: list[float] = []
    until = time.perf_counter() + budget
    while len(times) < 3 or (time.perf_counter() < until and len(times) < 200):
        began = time.perf_counter()
        action()
        times.append(time.perf_counter() - began)
    return sorted(times)[len(times) // 2]


def need_of(run: Run, plan: Plan, pace: Pace) -> Need:
    config, facts = run.config, facts_of(run.source or run.env)
    random = min(config.random_steps, run.steps)
    learning = run.steps - random
    updates = learning / config.train_every * config.updates
    seconds = random * pace.random + learning * pace.step + updates * pace.update
    played = STRIDE * (pace.random + pace.test / GAMES)  # per state that a student learns from
    students = tuple(s.updates * x + s.states * played for s, x in zip(run.harden, pace.student, strict=True))
    tests = 0.0
    if facts.test_steps is not None:
        on_the_way = 0 if plan.tests.every is None else run.steps // plan.tests.every
        conditions = plan.tests.conditions * (1 + len(students)) + plan.tests.on_the_way.conditions * on_the_way
        rounds = -(-plan.tests.episodes // BATCH)
        games = rounds * pace.test + plan.tests.episodes * pace.random
        tests = conditions * facts.test_steps * games
    disk = _disk(config, facts, run.steps, pace) + len(students) * pace.agent_bytes
    return Need(seconds, students, tests, memory_of(run), disk)


def _disk(config: Config, facts: EnvFacts, steps: int, pace: Pace) -> int:
    """Two checkpoints of the agent, and the replay, whose pictures are compressed on disk."""
    packed = dataclasses.replace(config, replay_compression="lz4" if facts.is_image else "none")
    return 2 * pace.agent_bytes + facts.memory(packed, steps) - facts.memory(packed, 0)


def print_estimate(plan: Plan, out: Path, workers: int, console: Console, only: Sequence[str] = ()) -> None:
    """Print the runs, how many of them are done, and what the rest will take here. Writes nothing. With `only`, what
    the runs take that fit one of these patterns."""
    chosen = plan.fitting(only)
    standings = {s.run: s for s in read_standings(out)} if (out / "plan.json").is_file() else {}
    undone = [run for run in plan.runs if not is_done(run, plan.tests, out)]
    left = [run for run in undone if run.name in chosen]
    paces = {kind: measure(run) for kind, run in {kind_of(run): run for run in reversed(left)}.items()}
    needs = {run.name: need_of(run, plan, paces[kind_of(run)]) for run in left}
    parts = {run.name: _part(run, needs[run.name], standings) for run in left if run.name in standings}
    shown = dataclasses.replace(plan, runs=tuple(run for run in plan.runs if run.name in chosen))
    console.print(_table(shown, needs, parts))
    several = "" if plan.tests.conditions == 1 else "s"
    tests = f"each tested for {plan.tests.episodes} episodes in {plan.tests.conditions} condition{several}"
    others = f", {len(undone) - len(left)} left for another call" if len(left) < len(undone) else ""
    lines = [f"{len(plan.runs)} runs, {len(plan.runs) - len(undone)} done, {len(left)} to do{others}; {tests}"]
    for line in lines + (_sums(needs, parts, workers) if left else []):
        console.print(line, highlight=False, soft_wrap=True)


def _part(run: Run, need: Need, standings: Mapping[str, Standing]) -> float:
    """The share of a run's time that is over."""
    over = need.training * min(standings[run.name].step / run.steps, 1.0)
    for student, seconds in zip(run.students, need.hardening, strict=True):
        if student.name in standings:
            over += seconds * min((standings[student.name].update or 0) / student.stage.updates, 1.0)
    return over / need.seconds


def _sums(needs: Mapping[str, Need], parts: Mapping[str, float], workers: int) -> list[str]:
    work = [need.seconds * (1 - parts.get(name, 0.0)) for name, need in needs.items()]
    most, free = max(need.memory for need in needs.values()), free_memory()
    together = max(min(workers, len(needs), free // most), 1)
    here = max(sum(work) / together, max(work))
    what = "training and hardening" if any(need.hardening for need in needs.values()) else "training"
    tests = sum(need.test_seconds for need in needs.values()) / together
    return [
        f"time: {duration(sum(work))} of {what} on one core, {duration(here)} here with {together} side by side"
        + (f"; tests add {duration(tests)} at most" if tests else ""),
        f"memory: {size(most)} for the largest run; {size(free)} free here",
        f"disk: up to {size(sum(need.disk for need in needs.values()))}",
        "This is an estimate from a few seconds of steps and updates on one core.",
    ]


def _table(plan: Plan, needs: Mapping[str, Need], parts: Mapping[str, float]) -> Table:
    """One row per run, or one row per game and agent if there are many."""
    grouped = len(plan.runs) > GROUP_FROM
    table = Table(title=plan.name, title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    for column in ("environment", "agent"):
        table.add_column(column, overflow="fold")
    for column in ("seeds" if grouped else "seed", "steps", "memory", "disk", "hours", "done"):
        table.add_column(column, justify="right", no_wrap=True)
    groups: dict[tuple[Any, ...], list[Run]] = {}
    for run in plan.runs:
        title = ", then ".join([run.title, *(stage.title for stage in run.harden)])
        groups.setdefault((run.env, title, None if grouped else run.seed), []).append(run)
    for (env, title, seed), runs in groups.items():
        left = [needs[run.name] for run in runs if run.name in needs]
        each = (size(left[0].memory), size(left[0].disk), f"{left[0].seconds / 3600:.2g}") if left else ("", "", "")
        seeds = str(len(runs)) if grouped else str(seed)
        table.add_row(env, title, seeds, f"{runs[0].steps:,}", *each, _progress(runs, needs, parts))
    return table


def _progress(runs: Sequence[Run], needs: Mapping[str, Need], parts: Mapping[str, float]) -> str:
    if len(runs) == 1:
        name = runs[0].name
        return f"{parts.get(name, 0.0):.0%}" if name in needs else "yes"
    begun = sum(parts.get(run.name, 0.0) > 0 for run in runs)
    return f"{sum(run.name not in needs for run in runs)}/{len(runs)}" + (f", {begun} begun" if begun else "")
