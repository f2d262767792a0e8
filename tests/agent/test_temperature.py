"""A temperature in proportion to the range of the critics' targets, or along a schedule."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from probes import Probe, RewardIsObservation

from dsacc import DSAC
from dsacc.agent import Batch, Learner, ObservationSpec
from dsacc.agent.schedule import alpha_at
from dsacc.agent.temperature import RATE
from dsacc.config import make_config
from dsacc.maths import value_range

SIZE = 9


def learner(**settings: Any) -> Learner:
    ranged = {"hidden": 8, "batch_size": SIZE, "alpha": 0.3, "alpha_scale": "range", **settings}
    config = make_config("classic", **ranged)
    return Learner(config, ObservationSpec("vector", (4,)), 3, torch.Generator().manual_seed(0))


def last_steps(rewards: list[float]) -> Batch:
    """Steps that end their episodes: a target is its reward, whatever the critics say."""
    return Batch(
        observation=torch.randn(SIZE, 4, generator=torch.Generator().manual_seed(1)),
        action_B=torch.zeros(SIZE, dtype=torch.int64),
        rewards_BN=torch.tensor(rewards)[:, None],
        steps_B=torch.ones(SIZE, dtype=torch.int64),
        terminated_B=torch.ones(SIZE),
        next_observation=torch.zeros(SIZE, 4),
        entropy_B=torch.zeros(SIZE),
    )


def test_the_range_is_that_of_the_percentiles_five_and_ninety_five() -> None:
    for count in (1, 2, 9, 32, 101):
        values = np.random.default_rng(count).normal(size=count) * 5 + 3
        low, high = np.percentile(values, [5, 95])
        torch.testing.assert_close(value_range(torch.from_numpy(values)), torch.tensor(high - low))
    few = torch.zeros(101)
    few[:5], few[5:10] = 1_000.0, -1_000.0
    assert value_range(few) == 0  # a twentieth on either side does not count


def test_the_temperature_follows_the_slow_average_of_the_range_one_update_later() -> None:
    model, average = learner(min_range=0.5), 0.5
    rewards = [[float(k * i) for i in range(SIZE)] for k in (1, 40, 3, 0)]
    for some in rewards:
        used = model.update(last_steps(some), torch.zeros(0), 0)["alpha"]
        assert used.item() == pytest.approx(0.3 * average, rel=1e-5)
        low, high = np.percentile(some, [5, 95])
        average += RATE * (high - low - average)
        assert model.alpha.item() == pytest.approx(0.3 * average, rel=1e-5)


def test_the_temperature_of_a_schedule_is_used_by_the_next_update_and_multiplies_the_range() -> None:
    annealed = {"alpha": 0.1, "alpha_final": 0.001, "random_steps": 100, "anneal_start": 10, "anneal_end": 30}
    plain, ranged = learner(alpha_scale="fixed", **annealed), learner(min_range=2.0, **annealed)
    for step, alpha in ((100, 0.1), (110, 0.1), (120, 0.01), (130, 0.001), (500, 0.001)):
        for model, factor in ((plain, 1.0), (ranged, 2.0)):
            model.update(last_steps([0.0] * SIZE), torch.zeros(0), step)
            assert model.alpha.item() == pytest.approx(alpha * factor, rel=1e-5)
            used = model.update(last_steps([0.0] * SIZE), torch.zeros(0), step)["alpha"]
            assert used.item() == pytest.approx(alpha * factor, rel=1e-5)
    straight = make_config(alpha=0.1, alpha_final=0.02, random_steps=0, anneal_end=20, anneal_shape="linear")
    assert alpha_at(straight, 5) == pytest.approx(0.08)
    assert alpha_at(make_config(alpha=0.1), 5) == 0.1


def test_the_step_sizes_of_an_update_are_those_of_its_agent_step() -> None:
    falls = {"learning_rate": 1e-2, "learning_rate_final": 1e-4, "anneal_end": 20, "random_steps": 0}
    model = learner(alpha_scale="fixed", alpha=None, actor_learning_rate=2e-2, alpha_learning_rate=3e-2, **falls)
    steps = {"actor_optimizer": 2e-2, "critic_optimizer": 1e-2, "alpha_optimizer": 3e-2}
    for step, factor in ((0, 1.0), (10, 0.1), (20, 0.01), (5, 10**-0.5)):  # nothing depends on the updates before
        model.update(last_steps([1.0] * SIZE), torch.zeros(0), step)
        rates = {name: getattr(model, name).param_groups[0]["lr"] for name in steps}
        assert rates == pytest.approx({name: rate * factor for name, rate in steps.items()})


def test_over_alpha_the_actors_step_size_is_one_of_q_and_follows_the_temperature() -> None:
    settings = {"actor_learning_rate": 1e-3, "actor_rate_over_alpha": True, "shared_trunk": True, "min_range": 2.0}
    falls = {"learning_rate": 1e-2, "learning_rate_final": 1e-4, "anneal_end": 20, "random_steps": 0}
    model = learner(**settings, **falls)
    for step, factor in ((0, 1.0), (10, 0.1), (20, 0.01)):
        before = model.actor.head.bias.detach().clone()
        used = model.update(last_steps([9.0, *[0.0] * (SIZE - 1)]), torch.zeros(0), step)["alpha"].item()
        rate = 1e-3 * factor / used
        assert model.actor_optimizer.param_groups[0]["lr"] == pytest.approx(rate)
        if step == 0:  # the first step of Adam is its rate, whatever the gradient
            assert (model.actor.head.bias - before).abs().max().item() == pytest.approx(rate, rel=1e-3)
        assert model.critic_optimizer.param_groups[0]["lr"] == pytest.approx(1e-2 * factor)


def test_over_alpha_an_actor_keeps_up_with_its_critics_where_a_constant_rate_lags() -> None:
    settings = {
        "shared_trunk": True,
        "natural_gradient": True,
        "alpha_scale": "fixed",
        "alpha": 0.01,
        "grad_clip": 10.0,
    }
    errors = {}
    for over in (False, True):
        model = learner(**settings, learning_rate=1e-3, actor_learning_rate=1e-3, actor_rate_over_alpha=over)
        for _ in range(300):
            metrics = model.update(last_steps([float(i) for i in range(SIZE)]), torch.zeros(0), 0)
        errors[over] = metrics["expected_error"].item()
    assert errors[True] < 0.1 * errors[False]


def test_below_the_lower_limit_the_temperature_is_alpha_times_the_limit_and_the_average_goes_on() -> None:
    model = learner(min_range=2.0)
    for _ in range(50):
        model.update(last_steps([0.0] * SIZE), torch.zeros(0), 0)
    assert model.alpha.item() == pytest.approx(0.6)
    assert model.state()["value_range"].item() == pytest.approx(2.0 * (1 - RATE) ** 50, rel=1e-4)


def test_the_average_is_saved_and_a_learner_that_takes_it_goes_on_alike() -> None:
    model, other = learner(), learner()
    for _ in range(3):
        model.update(last_steps([float(7 * i) for i in range(SIZE)]), torch.zeros(0), 0)
    for state in (model.state(), model.small_state()):
        other.load_state({name: value.clone().float() for name, value in state.items()})
        assert other.alpha.equal(model.alpha)
        assert other.state()["value_range"].equal(model.state()["value_range"])
    assert "value_range" not in learner(alpha_scale="fixed").state()


class LargeRewards(RewardIsObservation):
    """The same with a hundred times the reward."""

    def step(self, action: Any) -> Any:
        seen, reward, *rest = super().step(action)
        return seen, 100 * reward, *rest


@pytest.mark.parametrize(("env", "size"), [(RewardIsObservation, 1.0), (LargeRewards, 100.0)])
def test_where_rewards_are_a_hundred_times_as_large_so_is_the_temperature(env: type[Probe], size: float) -> None:
    settings = {"alpha": 0.01, "alpha_scale": "range", "min_range": 1e-3, "random_steps": 100, "hidden": 8}
    model = DSAC(env(), preset="classic", **settings).learn(400)
    updates = model.prepare().updates
    expected = math.log(0.01 * (2 * size * (1 - (1 - RATE) ** updates)))
    assert model.learner.log_alpha.item() == pytest.approx(expected, abs=0.01)
