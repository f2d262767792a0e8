"""When a run acts at random, learns, moves its targets and reports: step by step, worked out by hand."""

import json
import math
import os
import signal
from typing import Any

import numpy as np
import pytest
import torch
from probes import Clock, Pays

from dsacc import DSAC
from dsacc.agent import Batch
from dsacc.errors import Stopped

SMALL = {"hidden": 16, "batch_size": 8, "n_step": 1, "replay_size": 500}


def rows_of(model: DSAC, steps: int) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    model.learn(steps, callback=rows.append)
    return rows


def batches_of(model: DSAC, steps: int) -> list[Batch]:
    """Every minibatch that the learner was given."""
    seen, update = [], model.learner.update

    def watched(batch: Batch, *rest: Any) -> Any:
        seen.append(batch)
        return update(batch, *rest)

    model.learner.update = watched  # type: ignore[method-assign]
    model.learn(steps)
    return seen


def always(model: DSAC, action: int) -> DSAC:
    """The policy takes this action for certain."""
    state = {name: value.clone() for name, value in model.learner.state().items()}
    state["actor.head.weight"].zero_()
    state["actor.head.bias"].zero_()[action] = 1_000.0
    model.learner.load_state(state)
    return model


# --- random steps ---


@pytest.mark.parametrize(("random_steps", "envs", "uniform"), [(0, 1, 0), (7, 1, 7), (7, 3, 9)])
def test_just_the_random_steps_are_uniform(random_steps, envs, uniform):
    """Environments that are stepped together begin their round at random or not at all: 7 steps are 3 rounds of 3."""
    taken = []
    for seed in range(12):
        clocks: list[Clock] = []

        def make(clocks: list[Clock] = clocks) -> Clock:
            clocks.append(Clock())
            return clocks[-1]

        settings = {**SMALL, "random_steps": random_steps, "train_every": 1_000, "envs": envs}
        always(DSAC(make, seed=seed, **settings), 5).learn(18)
        rounds = zip(*(clock.actions_taken for clock in clocks), strict=True)
        taken.append([action for one in rounds for action in one])
    actions = np.array(taken)
    assert actions.shape == (12, 18)
    assert (actions[:, uniform:] == 5).all()
    assert all(len(np.unique(column)) > 3 for column in actions[:, :uniform].T)


def test_the_stored_entropy_is_that_of_the_policy_that_acted():
    model = always(DSAC(Clock(), random_steps=6, learning_rate=1e-9, **SMALL), 5)
    for batch in batches_of(model, 30):
        uniform = batch.observation[:, 0] < 5.5 / 100
        wanted = torch.where(uniform, math.log(Clock.actions), 0.0)
        torch.testing.assert_close(batch.entropy_B.float(), wanted.float(), atol=1e-6, rtol=0)


# --- updates ---


@pytest.mark.parametrize(
    ("settings", "updates"),
    [
        ({"random_steps": 5}, [0, 0, 0, 0, 0, 1, 2, 3, 4, 5]),
        ({"random_steps": 0}, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]),  # the first transition is whole with the second step
        ({"random_steps": 4, "train_every": 3}, [0, 0, 0, 0, 0, 1, 1, 1, 2, 2]),
        ({"random_steps": 4, "train_every": 3, "updates": 2}, [0, 0, 0, 0, 0, 2, 2, 2, 4, 4]),
        # Rounds of three end at steps 3, 6, 9 and 10. The second passes the random steps: steps 4 and 6 are multiples.
        ({"random_steps": 4, "train_every": 2, "envs": 3}, [0, 2, 3, 4]),
        ({"random_steps": 4, "train_every": 1, "envs": 3}, [0, 3, 6, 7]),
        ({"random_steps": 0, "train_every": 1, "envs": 8}, [0, 2]),
        ({"random_steps": 0, "train_every": 5, "envs": 8, "updates": 3}, [0, 3]),
    ],
    ids=str,
)
def test_updates_come_with_every_train_every_th_step_past_the_random_ones(settings, updates):
    rows = rows_of(DSAC(Clock, **{**SMALL, "log_every": 1, **settings}), 10)
    assert [row["updates"] for row in rows] == updates


@pytest.mark.parametrize("target_every", [1, 4])
def test_targets_move_with_every_target_every_th_step_after_its_updates(target_every):
    model = DSAC(Clock(), random_steps=2, target_every=target_every, target_tau=1.0, log_every=1, **SMALL)
    name, copied, changed = "heads.0.weight", [], []
    before = model.learner.state()[f"target_critics.{name}"].clone()

    def look(row: dict[str, Any]) -> None:
        nonlocal before
        state = model.learner.state()
        if not state[f"target_critics.{name}"].equal(before):
            changed.append(row["step"])
            before = state[f"target_critics.{name}"].clone()
        if state[f"target_critics.{name}"].equal(state[f"critics.{name}"]):
            copied.append(row["step"])

    model.learn(10, callback=look)
    assert changed == {1: [3, 4, 5, 6, 7, 8, 9, 10], 4: [4, 8]}[target_every]
    assert copied == [1, 2, *changed]  # both begin alike


def test_several_environments_get_seeds_of_their_own_and_repeat():
    def seeds(seed: int) -> list[int]:
        clocks: list[Clock] = []

        def make() -> Clock:
            clocks.append(Clock())
            return clocks[-1]

        DSAC(make, envs=3, seed=seed, **SMALL).learn(6)
        return [clock.seeds[0] for clock in clocks]

    assert len(set(seeds(0))) == 3
    assert seeds(0) == seeds(0)
    assert not set(seeds(0)) & set(seeds(1))
    runs = [DSAC("CartPole-v1", envs=3, constraint="mean", random_steps=40, **SMALL).learn(150) for _ in range(2)]
    a, b = (model.learner.state() for model in runs)
    assert all(a[name].equal(b[name]) for name in a)


# --- rewards, returns, rows ---


class Wide(Pays):
    """A return of -1.5 in three steps."""

    pays = (2.5, -4.0, 0.0)


@pytest.mark.parametrize(("clip", "learned"), [(True, {1.0, -1.0, 0.0}), (False, {2.5, -4.0, 0.0})])
def test_clipped_rewards_are_learned_from_and_raw_returns_are_reported(clip, learned):
    settings = {**SMALL, "random_steps": 5, "clip_rewards": clip, "log_every": 7}
    rows = rows_of(DSAC(Wide(), **settings), 21)
    assert [row["return"] for row in rows] == [-1.5, -1.5, -1.5]
    assert [row["episodes"] for row in rows] == [2, 4, 7]
    batches = batches_of(DSAC(Wide(), **settings), 21)
    assert {reward for batch in batches for reward in batch.rewards_BN.flatten().tolist()} == learned


def test_a_row_has_the_mean_of_the_returns_since_the_last_one():
    class Rises(Pays):
        """Each episode pays 1 more than the last."""

        pay = 0.0

        def step(self, action):
            observation, _, terminated, truncated, info = super().step(action)
            self.pay += terminated
            return observation, self.pay if terminated else 0.0, terminated, truncated, info

    rows = rows_of(DSAC(Rises(), random_steps=50, log_every=10, **SMALL), 32)
    # Episodes end at steps 3, 6, 9 | 12, 15, 18 | 21, 24, 27, 30 | none
    assert [row["return"] for row in rows] == [2.0, 5.0, 8.5, None]


def test_a_row_has_the_mean_of_what_the_updates_reported_since_the_last_one():
    model = DSAC("CartPole-v1", random_steps=10, log_every=8, **SMALL)
    told, update = [], model.learner.update

    def watched(*arguments: Any) -> Any:
        told.append({name: value.item() for name, value in update(*arguments).items()})
        return {name: torch.tensor(value) for name, value in told[-1].items()}

    model.learner.update = watched  # type: ignore[method-assign]
    rows = rows_of(model, 24)
    assert "critic_loss" not in rows[0]
    for row, stretch in zip(rows[1:], (told[:6], told[6:]), strict=True):
        for name in ("critic_loss", "actor_loss", "alpha", "entropy"):
            assert row[name] == pytest.approx(np.mean([one[name] for one in stretch]), rel=1e-5)


def test_rows_come_once_for_each_stretch_of_log_every_steps():
    rows = rows_of(DSAC("CartPole-v1", envs=7, random_steps=40, log_every=50, **SMALL), 200)
    assert [row["step"] for row in rows] == [56, 105, 154, 200]


def test_a_run_stopped_between_two_rows_writes_the_rows_of_one_that_was_not(tmp_path):
    """What the updates and episodes since the last row have reported is part of a checkpoint."""
    settings = {**SMALL, "random_steps": 20, "log_every": 50, "constraint": "mean"}
    straight = DSAC("CartPole-v1", **settings).learn(200, out=tmp_path / "straight")
    with pytest.raises(Stopped):
        DSAC("CartPole-v1", **settings).learn(
            200, out=tmp_path / "stopped", every={90: lambda model: os.kill(os.getpid(), signal.SIGTERM)}
        )
    assert json.loads((tmp_path / "stopped" / "status.json").read_text())["step"] == 90
    again = DSAC("CartPole-v1", **settings).learn(200, out=tmp_path / "stopped")
    rows = [(tmp_path / run / "metrics.jsonl").read_bytes() for run in ("straight", "stopped")]
    assert rows[0] == rows[1]
    episodes = [(tmp_path / run / "episodes.jsonl").read_bytes() for run in ("straight", "stopped")]
    assert episodes[0] == episodes[1]
    assert len(rows[0].splitlines()) == 4
    a, b = straight.learner.state(), again.learner.state()
    assert all(a[name].equal(b[name]) for name in a)
