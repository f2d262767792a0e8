"""Hardening in progress: which states there are, what the teacher said about them, and the next update."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np

from dsacc.dsac import DSAC
from dsacc.envs.pictures import float_pictures
from dsacc.errors import ConfigError
from dsacc.hardening.states import collect
from dsacc.hardening.student import Student
from dsacc.hardening.teacher import Answers, Teacher
from dsacc.play.adapters.base import Rngs, choose
from dsacc.shifts import Augmenter, resolve
from dsacc.system.types import Array
from dsacc.training.loop import Meter

Row = dict[str, Any]
UPDATES = 12_000  # of the student: with the states, five to ten minutes of one core on Atari
STATES = 20_000  # collected in all
ROUNDS = 2  # in which the student plays
CLEAN, AUGMENTED = 16, 24  # states per update
LOG_EVERY = 250  # updates
HARDEN = 0x68617264  # keeps the random streams apart from those of runs and tests with the same seed


@dataclass(frozen=True)
class Recipe:
    """How a student is made. `rounds` is how often the student's own play adds states."""

    augment: tuple[str, ...] = ("generic",)
    updates: int = UPDATES
    states: int = STATES
    rounds: int = ROUNDS
    seed: int = 0

    def __post_init__(self) -> None:
        resolve(self.augment)
        for name, least in (("updates", 1), ("states", 64), ("rounds", 0), ("seed", 0)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise ConfigError(f"{name} must be a whole number of at least {least}, not {value!r}")
        if self.rounds > min(self.updates, self.states // 64):
            raise ConfigError(f"{self.rounds} rounds are too many for {self.updates} updates and {self.states} states")


class Work:
    """A student, its teacher and their states. Its whole state is in `state` and `rounds`, its randomness in `seed`."""

    def __init__(
        self,
        model: DSAC,
        teacher: Teacher,
        make: Callable[[], gym.Env[Any, Any]],
        recipe: Recipe,
        rate: float,
        shown: tuple[int, int] = (CLEAN, AUGMENTED),
    ) -> None:
        self.model, self.teacher, self.recipe, self._make = model, teacher, recipe, make
        self._clean, self._augmented = shown  # states per update
        self.student = Student(model, rate, recipe.updates)
        self.augmenter = Augmenter(resolve(recipe.augment), model.observations.raw_shape)
        self._floats = float_pictures(model.observations.space)
        self.step = 0  # updates
        self.rounds: list[tuple[int, int]] = []  # the update at which each was collected, and how many states it has
        self.meter = Meter()
        streams = [np.random.default_rng(np.random.SeedSequence((recipe.seed, HARDEN, i))) for i in range(2)]
        self.batches, self.augmentation = streams
        self._states: Array = np.empty((0, *model.observations.raw_shape), np.uint8)
        self._encoded: Array | None = None  # what the network sees of them, where a filter takes time
        self._answers: Answers | None = None
        self._scale = 1.0  # standard deviation of the teacher's values over the first states

    # --- the schedule ---

    def steps(self, pause: Callable[[], None]) -> Iterator[Row | None]:
        """Continue to the last update. After each update it gives a row of metrics if one is due, else None.

        `pause` is called during collection; nothing of a round counts before it is complete.
        """
        while self.step < self.recipe.updates:
            if self.step in self._schedule()[len(self.rounds) :]:
                self._collect(pause)
            self._learn()
            due = self.step % LOG_EVERY == 0 or self.step == self.recipe.updates
            yield {"step": self.step, "states": len(self._states), **self.meter.take()} if due else None

    def _schedule(self) -> list[int]:
        """The updates at which states are collected: the teacher's at the start, the student's in the first half."""
        updates, rounds = self.recipe.updates, self.recipe.rounds
        return [updates * r // (rounds + 2) for r in range(rounds + 1)]

    def _count(self) -> int:
        """How many states the next round collects."""
        r, states = self.recipe, self.recipe.states
        of_teacher = states if r.rounds == 0 else states // 2
        if not self.rounds:
            return of_teacher
        first = (states - of_teacher) * (len(self.rounds) - 1) // r.rounds
        return (states - of_teacher) * len(self.rounds) // r.rounds - first

    # --- states ---

    def _collect(self, pause: Callable[[], None]) -> None:
        number = len(self.rounds)
        seed = np.random.SeedSequence((self.recipe.seed, HARDEN, 2, number))
        play, weather = seed.spawn(2)
        rng = np.random.default_rng(weather)

        def student(observations: Array, rngs: Rngs, greedy: bool) -> Array:
            shown = self.augmenter(self._bytes(observations), self._states, rng)
            return choose(self.model.logits(self._raw(shown)), rngs, greedy)

        act = student if number else self.teacher.player.act
        self.student.publish()
        kept = []
        for observation in collect(act, self._make, self._count(), play):
            kept.append(self._bytes(observation))
            pause()
        self.add(self.step, np.stack(kept))

    def _bytes(self, observations: Array) -> Array:
        """Pictures as states are kept."""
        return observations if self._floats is None else self._floats.to_bytes(observations)

    def _raw(self, states: Array) -> Array:
        """States as the environment gives them."""
        return states if self._floats is None else self._floats.from_bytes(states)

    def add(self, update: int, observations: Array) -> None:
        """Take in a round of states that was collected before this update, and ask the teacher about them."""
        new = self.teacher.answer(self._raw(observations))
        encoded = None
        if self.model.config.picture_filter != "none":
            encoded = self.model.observations.encode(self._raw(observations))
        if self._answers is None:
            self._states, self._encoded, self._answers = observations, encoded, new
            self._scale = 1.0 if new.q_2NA is None else max(float(new.q_2NA.std()), 1e-6)
        else:
            old = self._answers
            values = None
            if old.q_2NA is not None and new.q_2NA is not None:
                values = np.concatenate([old.q_2NA, new.q_2NA], axis=1)
            self._states = np.concatenate([self._states, observations])
            self._answers = Answers(np.concatenate([old.policy_NA, new.policy_NA]), values)
            if encoded is not None and self._encoded is not None:
                self._encoded = np.concatenate([self._encoded, encoded])
        self.rounds.append((update, len(observations)))

    def states_of(self, number: int) -> Array:
        """The raw observations of one round."""
        start = sum(count for _, count in self.rounds[:number])
        return self._states[start : start + self.rounds[number][1]]

    # --- updates ---

    def _learn(self) -> None:
        """One update from clean states and, independently drawn, augmented ones."""
        assert self._answers is not None  # the first round comes before the first update
        index = self.batches.integers(len(self._states), size=self._clean + self._augmented)
        clean, changed = index[: self._clean], index[self._clean :]
        encode = self.model.observations.encode
        first = encode(self._raw(self._states[clean])) if self._encoded is None else self._encoded[clean]
        second = encode(self._raw(self.augmenter(self._states[changed], self._states, self.augmentation)))
        answers = self._answers
        q_2BA = None if answers.q_2NA is None else answers.q_2NA[:, index]
        seen = np.concatenate([first, second])
        self.meter.add(self.student.update(seen, answers.policy_NA[index], q_2BA, self._scale, self.step, self._clean))
        self.step += 1

    # --- saving ---

    def state(self) -> dict[str, Any]:
        """Everything the next update depends on, apart from the agent and the states."""
        return {
            "step": self.step,
            "meter": {"sums": self.meter.sums, "count": self.meter.count},
            "batches": self.batches.bit_generator.state,
            "augmentation": self.augmentation.bit_generator.state,
            "moments": self.student.moments(),
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Continue from `state`. The agent and the rounds must have been restored before."""
        self.step = state["step"]
        self.meter.sums, self.meter.count = dict(state["meter"]["sums"]), state["meter"]["count"]
        self.batches.bit_generator.state = state["batches"]
        self.augmentation.bit_generator.state = state["augmentation"]
        self.student.load_moments(state["moments"])
