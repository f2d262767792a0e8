"""Strong augmentation while learning: what is shown, what it leaves alone, how it continues, what is refused."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

from dsacc import DSAC, evaluate
from dsacc.agent import Batch
from dsacc.cli import main
from dsacc.errors import ConfigError, Stopped
from dsacc.play.adapters import OwnPlayer
from dsacc.shifts import Augmenter, resolve
from dsacc.training.streams import Streams

CATCH = "dsacc/Catch-v0"
SMALL: dict[str, Any] = {"random_steps": 20, "batch_size": 6, "hidden": 16, "replay_size": 500, "augment_shift": 0}
SHOWN = {**SMALL, "augment_pictures": "generic", "augmented_states": 4}


def updates_of(model: DSAC, steps: int) -> list[tuple[Batch, torch.Tensor | None]]:
    """The minibatches that it learns from in these steps, with the augmented states."""
    seen, update = [], model.learner.update

    def watched(batch: Batch, noise: torch.Tensor, step: int, augmented: torch.Tensor | None) -> Any:
        seen.append((batch, augmented))
        return update(batch, noise, step, augmented)

    model.learner.update = watched  # type: ignore[method-assign]
    model.learn(steps)
    return seen


def grey() -> gym.Env:
    return gym.wrappers.GrayscaleObservation(gym.make(CATCH))


@pytest.mark.parametrize("kinds", ["generic", "near"])
@pytest.mark.parametrize(
    ("env", "channels"),
    [
        (lambda: gym.make(CATCH), 3),
        (lambda: gym.wrappers.FrameStackObservation(gym.make(CATCH), 2), 3),
        (lambda: gym.wrappers.FrameStackObservation(grey(), 3), 1),  # three channels, and no colours
    ],
    ids=["colour", "stack of colour", "stack of grey"],
)
def test_the_first_states_are_shown_again_as_the_augmenter_draws_them(env, channels, kinds):
    model = DSAC(env, **{**SHOWN, "augment_pictures": kinds})
    shape = model.observations.spec.shape
    augmenter, rng = Augmenter((kinds,), shape, channels), Streams.from_seed(0, 1).augmentation
    updates = updates_of(model, 24)
    assert len(updates) >= 3
    for batch, augmented in updates:
        assert augmented is not None
        clean = batch.observation.numpy()
        np.testing.assert_array_equal(augmented.numpy(), augmenter(clean[:4], clean, rng))
        assert not np.array_equal(augmented.numpy(), clean[:4])


def test_pictures_are_moved_first_and_then_augmented():
    """The augmented picture is that of the moved state, so that its constants are those of what the critics saw."""
    model = DSAC(CATCH, **{**SHOWN, "augment_shift": 4})
    batch, augmented = updates_of(model, 21)[0]
    rng = Streams.from_seed(0, 1).augmentation
    for _ in range(2):  # the states and those after them
        rng.integers(-4, 5, size=(6, 2))
    clean = batch.observation.numpy()
    wanted = Augmenter(("generic",), (3, 84, 84))(clean[:4], clean, rng)
    assert augmented is not None
    np.testing.assert_array_equal(augmented.numpy(), wanted)


def test_minibatches_are_left_clean_and_nothing_else_that_is_drawn_changes():
    plain, shown = DSAC(CATCH, **SMALL), DSAC(CATCH, **SHOWN)
    (batch, nothing), (same, something) = updates_of(plain, 30)[0], updates_of(shown, 30)[0]
    assert nothing is None
    assert something is not None
    assert all(getattr(same, name).equal(part) for name, part in batch.parts().items())
    for name in ("batches", "noise"):
        states = {str(getattr(model.streams, name).bit_generator.state) for model in (plain, shown)}
        assert len(states) == 1


def test_without_augmentation_its_stream_is_not_drawn_from_and_its_number_of_states_changes_nothing():
    one, other = DSAC(CATCH, **SMALL).learn(40), DSAC(CATCH, **SMALL, augmented_states=3).learn(40)
    assert all(one.learner.state()[name].equal(tensor) for name, tensor in other.learner.state().items())
    assert one.streams.augmentation.bit_generator.state == Streams.from_seed(0, 1).augmentation.bit_generator.state


def test_augmented_states_change_what_is_learned():
    plain, shown = DSAC(CATCH, **SMALL).learn(40), DSAC(CATCH, **SHOWN).learn(40)
    for name in ("critics.encoders.0.convolutions.0.weight", "actor.head.weight"):
        assert not plain.learner.state()[name].equal(shown.learner.state()[name])


@pytest.mark.parametrize("kinds", ["generic", "near"])
def test_a_run_that_was_stopped_ends_with_the_bytes_of_one_that_was_not(tmp_path, kinds):
    settings = {**SHOWN, "augment_pictures": kinds, "augment_shift": 2, "constraint": "mean", "log_every": 15}
    straight = DSAC(CATCH, **settings).learn(60, out=tmp_path / "straight")
    with pytest.raises(Stopped):
        DSAC(CATCH, **settings).learn(
            60, out=tmp_path / "stopped", every={40: lambda model: os.kill(os.getpid(), signal.SIGTERM)}
        )
    assert json.loads((tmp_path / "stopped" / "status.json").read_text())["step"] == 40
    again = DSAC(CATCH, **settings).learn(60, out=tmp_path / "stopped")
    files = [file_of(tmp_path / run, "agent.safetensors") for run in ("straight", "stopped")]
    assert files[0] == files[1]
    rows = [(tmp_path / run / "metrics.jsonl").read_bytes() for run in ("straight", "stopped")]
    assert rows[0] == rows[1]
    drawn = [model.streams.augmentation.bit_generator.state for model in (straight, again)]
    assert drawn[0] == drawn[1]


def file_of(run: Path, name: str) -> bytes:
    """A file of a run's newest checkpoint."""
    return max((run / "checkpoints").glob(f"step-*/{name}"), key=lambda path: int(path.parent.name[5:])).read_bytes()


# --- what is refused ---


class Tiny(gym.Env):
    """Pictures of eight pixels per side."""

    observation_space = gym.spaces.Box(0, 255, (8, 8, 3), np.uint8)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return np.zeros((8, 8, 3), np.uint8), {}


@pytest.mark.parametrize("env", ["CartPole-v1", "FrozenLake-v1"])
def test_observations_that_are_not_pictures_are_refused_when_the_agent_is_made(env):
    with pytest.raises(ConfigError, match=r"^augment_pictures near needs pictures, but this environment shows none; "):
        DSAC(env, augment_pictures="near")


def test_pictures_too_small_to_be_changed_are_refused_before_the_first_step():
    with pytest.raises(ConfigError, match=r"augment_pictures generic is not possible here: .* these pictures are 8x8"):
        DSAC(Tiny(), **SHOWN).learn(10)


def test_a_refused_command_says_one_sentence_and_writes_nothing(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for env, more in (("CartPole-v1", []), (CATCH, ["--picture-filter", "high-pass"])):
        assert main(["train", env, "--steps", "10", "--augment-pictures", "near", *more]) == 2
        assert len(capsys.readouterr().err.strip().splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


# --- what a test says about such an agent ---


def test_an_agent_has_met_what_it_was_trained_under_and_what_it_was_hardened_with():
    model = DSAC(CATCH, **SHOWN)
    assert OwnPlayer(model).augmented == resolve("generic")
    model.hardened = {"train_seed": 0, "name": "dsac hardened", "kinds": ["light", "fog"]}
    assert OwnPlayer(model).augmented == (*resolve("generic"), "fog")
    assert OwnPlayer(DSAC(CATCH, **SMALL)).augmented == ()


@pytest.mark.parametrize(("kinds", "met"), [("none", None), ("generic", "unseen"), ("near", "near")])
def test_rows_say_what_the_agent_has_met_of_a_shift_and_keep_its_name(kinds, met):
    model = DSAC(CATCH, constraint="mean", **{**SHOWN, "augment_pictures": kinds})
    clean, fog = evaluate(model, shifts=["id", "fog"], episodes=1)
    assert (clean.get("exposure"), fog.get("exposure")) == (None, met)
    assert {clean["agent"], fog["agent"]} == {"dsac-m"}
