"""Soft values and Bellman targets against arrays worked out by hand and closed forms."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.special import logsumexp

from dsacc.maths import bellman_target, combine_critics, dueling, n_step_return, soft_value, value_range

LN2 = math.log(2.0)
ordinary = settings(deadline=None, derandomize=True, max_examples=150)
q_arrays = arrays(np.float64, st.tuples(st.integers(1, 4), st.integers(1, 7)), elements=st.floats(-100.0, 100.0))


def tensor(*rows: list[float]) -> torch.Tensor:
    return torch.tensor(rows, dtype=torch.float64)


def vector(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


# --- dueling heads ---------------------------------------------------------------------------------------------------


def test_dueling_keeps_the_differences_of_advantages_and_puts_their_mean_at_the_value() -> None:
    q_BA = dueling(vector(2.0, -1.0), tensor([1.0, 3.0, 2.0], [5.0, 5.0, 5.0]))
    assert q_BA.tolist() == [[1.0, 3.0, 2.0], [-1.0, -1.0, -1.0]]


def test_dueling_of_logits_does_the_same_for_each_bin() -> None:
    value_BK, advantage_BAK = tensor([1.0, 0.0]), torch.tensor([[[2.0, 1.0], [0.0, 5.0]]], dtype=torch.float64)
    assert dueling(value_BK, advantage_BAK).tolist() == [[[2.0, -2.0], [0.0, 2.0]]]


# --- twin critics ----------------------------------------------------------------------------------------------------


def test_critics_are_averaged_by_default_or_their_minimum_is_taken() -> None:
    one, two = tensor([1.0, 5.0], [-2.0, 0.0]), tensor([3.0, -5.0], [-4.0, 0.0])
    assert torch.equal(combine_critics(one, two), tensor([2.0, 0.0], [-3.0, 0.0]))
    assert torch.equal(combine_critics(one, two, "average"), combine_critics(one, two))
    assert torch.equal(combine_critics(one, two, "min"), tensor([1.0, -5.0], [-4.0, 0.0]))


def test_an_unknown_combination_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="'average' or 'min', not 'max'"):
        combine_critics(tensor([1.0]), tensor([2.0]), "max")  # type: ignore[arg-type]


# --- soft value ------------------------------------------------------------------------------------------------------


def test_soft_value_worked_by_hand() -> None:
    # pi = [1/2, 1/4, 1/4], H = 1.5 ln 2; E[Q] = 0.5*2 + 0.25*4 - 0.25*8 = 0
    pi_BA, q_BA = tensor([0.5, 0.25, 0.25]), tensor([2.0, 4.0, -8.0])
    log_pi_BA = pi_BA.log()
    torch.testing.assert_close(soft_value(pi_BA, log_pi_BA, q_BA, 2.0), vector(3 * LN2))
    torch.testing.assert_close(soft_value(pi_BA, log_pi_BA, q_BA + 1, 2.0, entropy_weight=0.5), vector(1 + 1.5 * LN2))


def test_entropy_weight_zero_leaves_the_expected_q_and_one_adds_the_whole_entropy() -> None:
    pi_BA, q_BA = tensor([0.5, 0.5], [0.25, 0.75]), tensor([1.0, 3.0], [4.0, 0.0])
    log_pi_BA = pi_BA.log()
    bare = soft_value(pi_BA, log_pi_BA, q_BA, 10.0, entropy_weight=0.0)
    torch.testing.assert_close(bare, vector(2.0, 1.0))
    entropy = vector(LN2, -(0.25 * math.log(0.25) + 0.75 * math.log(0.75)))
    torch.testing.assert_close(soft_value(pi_BA, log_pi_BA, q_BA, 10.0, entropy_weight=1.0), bare + 10 * entropy)


@ordinary
@given(q=q_arrays, alpha=st.floats(1e-2, 1e2))
def test_the_soft_value_of_the_surrogate_is_alpha_logsumexp(q: np.ndarray, alpha: float) -> None:
    q_BA = torch.from_numpy(q)
    log_pi_BA = torch.log_softmax(q_BA / alpha, dim=-1)
    expected = alpha * logsumexp(q / alpha, axis=-1)
    np.testing.assert_allclose(soft_value(log_pi_BA.exp(), log_pi_BA, q_BA, alpha).numpy(), expected, atol=1e-9)


# --- returns and targets ---------------------------------------------------------------------------------------------


def test_n_step_return_discounts_each_column_once_more() -> None:
    rewards_BN = tensor([1.0, 2.0, 4.0], [8.0, 0.0, 0.0], [0.0, 0.0, -4.0])
    torch.testing.assert_close(n_step_return(rewards_BN, 0.5), vector(3.0, 8.0, -1.0))


def test_n_step_return_at_the_ends_of_gamma() -> None:
    rewards_BN = tensor([1.0, 2.0, 4.0])
    assert n_step_return(rewards_BN, 0.0).tolist() == [1.0]
    assert n_step_return(rewards_BN, 1.0).tolist() == [7.0]
    assert n_step_return(rewards_BN[:, :1], 0.9).tolist() == [1.0]


@ordinary
@given(rewards=arrays(np.float64, st.tuples(st.integers(1, 3), st.integers(1, 8)), elements=st.floats(-10.0, 10.0)))
def test_n_step_return_is_a_polynomial_in_gamma(rewards: np.ndarray) -> None:
    expected = [np.polynomial.polynomial.polyval(0.97, row) for row in rewards]
    np.testing.assert_allclose(n_step_return(torch.from_numpy(rewards), 0.97).numpy(), expected, atol=1e-10)


def test_n_step_return_keeps_float32() -> None:
    assert n_step_return(torch.ones(2, 3), 0.99).dtype == torch.float32


def test_bellman_target_bootstraps_unless_the_episode_terminated() -> None:
    return_B, discount_B = vector(1.0, 1.0, -2.0), vector(0.9, 0.9, 0.5)
    terminated_B, value_B = vector(0.0, 1.0, 0.0), vector(10.0, 10.0, -4.0)
    torch.testing.assert_close(bellman_target(return_B, discount_B, terminated_B, value_B), vector(10.0, 1.0, -4.0))


def test_a_one_step_and_a_three_step_target_agree_on_a_chain_of_known_value() -> None:
    # reward 1 for ever: V = 1 / (1 - gamma) solves the equation with any number of steps
    gamma = 0.9
    value_B = vector(1 / (1 - gamma))
    for n in (1, 3, 7):
        return_B = n_step_return(torch.ones(1, n, dtype=torch.float64), gamma)
        torch.testing.assert_close(bellman_target(return_B, vector(gamma**n), vector(0.0), value_B), value_B)


def test_the_range_of_targets_leaves_out_a_twentieth_on_either_side() -> None:
    y = torch.arange(21.0, dtype=torch.float64) * 3 - 10  # 21 targets: the 2nd is at 5 %, the 20th at 95 %
    assert value_range(y[torch.randperm(21, generator=torch.Generator().manual_seed(0))]) == 3 * 18
    assert value_range(y + 1e3) == 3 * 18
    y[0], y[-1] = -1e6, 1e6
    assert value_range(y) == 3 * 18
    assert value_range(torch.full((8,), 2.5)) == 0
    assert value_range(torch.tensor([0.0, 1.0])) == pytest.approx(0.9)  # between two states: interpolated
