"""What changes in the course of a run, worked out by hand."""

import pytest

from dsacc.agent.schedule import cycle_start, gamma_at, n_step_at, rate_factor_at, reset_is_due
from dsacc.config import make_config
from dsacc.maths import exponential_schedule


def test_without_a_final_value_nothing_changes() -> None:
    c = make_config(n_step=7, gamma=0.9)
    assert {n_step_at(c, step) for step in (0, 1, 10_000, 10**9)} == {7}
    assert {gamma_at(c, step) for step in (0, 1, 10_000, 10**9)} == {0.9}
    assert {rate_factor_at(c, step) for step in (0, 1, 10_000, 10**9)} == {1.0}


def test_an_exponential_schedule_changes_by_equal_factors_and_stays_at_its_ends() -> None:
    assert [exponential_schedule(8, 1, x / 3) for x in (-1, 0, 1, 2, 3, 4)] == pytest.approx([8, 8, 4, 2, 1, 1])


def test_n_falls_from_its_start_to_its_end_counted_from_the_end_of_the_random_steps() -> None:
    c = make_config(n_step=8, n_step_final=1, random_steps=100, anneal_start=50, anneal_end=350)
    assert [n_step_at(c, s) for s in (0, 100, 150, 250, 350, 450, 10**6)] == [8, 8, 8, 4, 2, 1, 1]
    straight = make_config(n_step=1, n_step_final=9, random_steps=0, anneal_end=8, anneal_shape="linear")
    assert [n_step_at(straight, s) for s in range(10)] == [1, 2, 3, 4, 5, 6, 7, 8, 9, 9]


def test_the_horizon_of_gamma_grows_by_equal_factors_or_gamma_itself_by_equal_steps() -> None:
    c = make_config(gamma=0.9, gamma_final=0.999, random_steps=0, anneal_end=2)
    assert [gamma_at(c, s) for s in (0, 1, 2, 3)] == pytest.approx([0.9, 0.99, 0.999, 0.999], rel=1e-12)
    straight = make_config(gamma=0.5, gamma_final=1.0, random_steps=0, anneal_end=2, anneal_shape="linear")
    assert [gamma_at(straight, s) for s in (0, 1, 2)] == [0.5, 0.75, 1.0]


def test_learning_rates_fall_by_equal_factors_or_by_equal_steps() -> None:
    falls = {
        "learning_rate": 4e-3,
        "learning_rate_final": 1e-3,
        "random_steps": 10,
        "anneal_start": 10,
        "anneal_end": 30,
    }
    assert [rate_factor_at(make_config(**falls), s) for s in (0, 20, 30, 40, 99)] == pytest.approx(
        [1, 1, 0.5, 0.25, 0.25]
    )
    straight = make_config(**falls, anneal_shape="linear")
    assert rate_factor_at(straight, 30) == pytest.approx(0.625)


def test_resets_come_at_multiples_after_the_random_steps_and_not_after_the_last_one() -> None:
    c = make_config(reset_every=100, random_steps=100, reset_until=350)
    assert [s for s in range(1_000) if reset_is_due(c, s)] == [200, 300]
    assert [s for s in range(501) if reset_is_due(make_config(reset_every=250, random_steps=0), s)] == [250, 500]
    assert not any(reset_is_due(make_config(), s) for s in range(3_000))


def test_annealing_begins_again_at_each_reset_and_goes_on_after_the_last() -> None:
    c = make_config(n_step=8, n_step_final=1, random_steps=50, anneal_end=300, reset_every=200, reset_until=400)
    assert [cycle_start(c, s) for s in (0, 60, 199, 200, 399, 400, 650)] == [50, 50, 50, 200, 200, 400, 400]
    assert [n_step_at(c, s) for s in (50, 150, 199, 200, 300, 399, 400, 500, 600, 700)] == [
        8,
        4,
        3,
        8,
        4,
        2,
        8,
        4,
        2,
        1,
    ]
