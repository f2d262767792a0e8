"""Settings for learning from little data, in whole runs: what they do to training, and that a stop changes nothing."""

from typing import Any

import numpy as np
import pytest
import torch
from probes import Clock, DelayedReward

from dsacc import DSAC
from dsacc.agent import Batch

SMALL = {"hidden": 16, "batch_size": 8, "replay_size": 500, "random_steps": 20, "checkpoint_every": 60, "log_every": 50}
CARTPOLE, CATCH = ("CartPole-v1", "classic"), ("dsacc/Catch-v0", "efficient")
RUNS: list[tuple[tuple[str, str], dict[str, Any]]] = [
    (CARTPOLE, {"alpha": 0.1, "alpha_scale": "range", "natural_gradient": True}),
    (CARTPOLE, {"alpha": 0.1, "alpha_final": 0.01, "learning_rate_final": 1e-5, "anneal_start": 40, "anneal_end": 90}),
    (CARTPOLE, {"n_step": 8, "n_step_final": 2, "gamma": 0.9, "gamma_final": 0.99, "anneal_end": 60}),
    (CARTPOLE, {"reset_every": 13, "reset_until": 120, "train_every": 2, "n_step_final": 2, "anneal_end": 10}),
    (CARTPOLE, {"critic_loss": "hl-gauss", "weight_decay": 0.5, "dueling": True}),
    (CARTPOLE, {"priority_exponent": 0.5, "replay_size": 60, "envs": 2}),
    (CARTPOLE, {"priority_exponent": 1.0, "priority_correction": 1.0, "critic_loss": "hl-gauss"}),
    (CARTPOLE, {"greedy_share": 0.5, "greedy_period": 30, "envs": 2}),
    (CATCH, {"layer_norm": True, "rescale_features": False, "encoder": "small", "reset_every": 45}),
]


def observed(model: DSAC, steps: int) -> list[tuple[int, Batch]]:
    """Every minibatch that the learner was given, with its agent step."""
    seen, update = [], model.learner.update

    def watched(batch: Batch, noise: Any, step: int, *rest: Any) -> Any:
        seen.append((step, batch))
        return update(batch, noise, step, *rest)

    model.learner.update = watched  # type: ignore[method-assign]
    model.learn(steps)
    return seen


def state(model: DSAC) -> dict[str, torch.Tensor]:
    return model.get_parameters()


@pytest.mark.parametrize(
    ("where", "settings"),
    RUNS,
    ids=[
        "range",
        "temperature and rate",
        "annealing",
        "resets",
        "bins and decay",
        "priorities",
        "priorities of bins",
        "greedy stretches",
        "norm",
    ],
)
def test_a_run_that_is_stopped_and_continued_ends_with_the_same_weights_and_rows(where, settings, tmp_path):
    def made() -> DSAC:
        env, preset = where
        return DSAC(env, "mean", preset, 1, **{**SMALL, **settings})

    whole: list[Any] = []
    parts: list[Any] = []
    straight = made().learn(130, callback=whole.append)
    # Step 91 is right after a reset, where every second step learns before the next update; more follow.
    made().learn(130, callback=parts.append, out=tmp_path, every={91: lambda model: model.step != 91})
    continued = made().learn(130, callback=parts.append, out=tmp_path)
    assert state(continued).keys() == state(straight).keys()
    for name, tensor in state(straight).items():
        assert tensor.equal(state(continued)[name]), name
    assert parts == whole


def test_the_last_share_of_every_period_is_played_greedily_and_the_rest_is_sampled():
    settings = {**SMALL, "greedy_share": 0.25, "greedy_period": 20, "learning_rate": 1e-12}  # it hardly learns anything
    model = DSAC("CartPole-v1", None, "classic", 1, **settings).learn(420)
    trainer = model.prepare()
    seen = np.random.default_rng(0).normal(size=(200, 4)).astype(np.float32)
    best, _ = model.predict(seen, deterministic=True)
    for step in range(420, 440):
        trainer.step = step
        actions, _ = trainer.act(seen)
        assert (actions == best).all() == (step >= 435), step


def test_minibatches_have_the_steps_of_the_schedule_and_start_again_after_a_reset():
    """The clock shows hundredths of steps: n steps later it shows n more. It pays 1 each step."""
    settings = {**SMALL, "n_step": 4, "n_step_final": 1, "anneal_end": 20, "reset_every": 60, "anneal_shape": "linear"}
    for step, batch in observed(DSAC(Clock(), **settings), 100):
        n = round(4 - 3 * min((step - (20 if step < 60 else 60)) / 20, 1))
        later = batch.next_observation[:, 0] - batch.observation[:, 0]
        assert batch.rewards_BN.shape == (8, n)
        np.testing.assert_allclose(later, n / 100, atol=1e-5)
        assert batch.rewards_BN.sum(1).tolist() == batch.steps_B.tolist() == [n] * 8


def test_the_discount_of_the_critics_is_that_of_the_schedule():
    """Two steps, 1 at the end: Q of the first is gamma, at first the initial one and at last the final one."""
    settings = {"n_step": 1, "hidden": 32, "learning_rate": 5e-3, "random_steps": 50, "alpha": 0.0, "target_tau": 0.1}
    annealed = {"gamma": 0.2, "gamma_final": 0.8, "anneal_start": 300, "anneal_end": 400}
    model = DSAC(DelayedReward(), **settings, **annealed)
    for steps, gamma in ((300, 0.2), (400, 0.8)):
        model.learn(steps)
        q = model.learner.q_values(torch.tensor([[0.0, 1.0], [1.0, 1.0]]))[:, 0]
        assert q.tolist() == pytest.approx([gamma, 1.0], abs=0.05)


@pytest.mark.parametrize("envs", [1, 4])
def test_resets_come_before_what_is_learned_at_their_steps_and_the_run_learns_on(envs):
    model = DSAC(Clock, envs=envs, n_step=1, reset_every=40, reset_until=80, **SMALL)
    reset, at = model.learner.reset, []

    def watched(generator: torch.Generator) -> None:
        at.append((model.step, model.prepare().updates, generator.initial_seed()))
        reset(generator)

    model.learner.reset = watched  # type: ignore[method-assign]
    model.learn(130)
    assert [step for step, _, _ in at] == [40, 80]
    learned = [step - 20 - envs for step in (40, 80)]  # one update per step after the random ones, in rounds of `envs`
    assert [updates for _, updates, _ in at] == learned
    assert model.prepare().updates == 110
    assert at[0][2] != at[1][2]
