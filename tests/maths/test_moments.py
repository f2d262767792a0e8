"""Moments and perturbed targets against arrays worked out by hand and formulas written out in numpy."""

import math
from typing import get_args

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dsacc.maths import Targets, expected_value, expected_variance, perturbed_targets, spread
from dsacc.maths.moments import Perturbation

LN3 = math.log(3.0)
ordinary = settings(deadline=None, derandomize=True, max_examples=150)
shapes = st.tuples(st.integers(1, 4), st.integers(1, 7))
q_arrays = arrays(np.float64, shapes, elements=st.floats(-100.0, 100.0))


def tensor(*rows: list[float]) -> torch.Tensor:
    return torch.tensor(rows, dtype=torch.float64)


def vector(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def case(seed: int = 0, batch: int = 5, actions: int = 4) -> tuple[np.ndarray, float, np.random.Generator]:
    rng = np.random.default_rng(seed)
    return rng.normal(3.0, 2.0, (batch, actions)), 0.7, rng


def weights(exponent: np.ndarray) -> np.ndarray:
    unnormalised = np.exp(exponent)
    return unnormalised / unnormalised.sum(axis=1, keepdims=True)


# --- worked by hand --------------------------------------------------------------------------------------------------


def test_expected_value_and_variance_worked_by_hand() -> None:
    pi_BA = tensor([1 / 4, 3 / 4], [1 / 2, 1 / 2])
    q_BA = tensor([0.0, 4.0], [-1.0, 5.0])
    torch.testing.assert_close(expected_value(pi_BA, q_BA), vector(3.0, 2.0))
    torch.testing.assert_close(expected_variance(pi_BA, q_BA), vector(3.0, 9.0))  # 1/4*9 + 3/4*1;  9


def test_expected_variance_around_another_centre_worked_by_hand() -> None:
    pi_BA = tensor([1 / 4, 3 / 4], [1 / 2, 1 / 2])
    q_BA = tensor([0.0, 4.0], [-1.0, 5.0])
    torch.testing.assert_close(expected_variance(pi_BA, q_BA, 0.0), vector(12.0, 13.0))
    torch.testing.assert_close(expected_variance(pi_BA, q_BA, vector(4.0, 5.0)), vector(4.0, 18.0))


def test_spread_is_the_standard_deviation_of_the_row_itself() -> None:
    assert spread(tensor([1.0, 3.0], [7.0, 7.0])).tolist() == [1.0, 0.0]
    assert spread(tensor([5.0])).tolist() == [0.0]  # one action: no n - 1 to divide by
    q, _, _ = case()
    np.testing.assert_allclose(spread(torch.from_numpy(q)).numpy(), q.std(axis=1))


@ordinary
@given(q=q_arrays, mu=st.floats(-100.0, 100.0), seed=st.integers(0, 2**31))
def test_a_centre_off_the_mean_adds_its_squared_distance(q: np.ndarray, mu: float, seed: int) -> None:
    pi = np.random.default_rng(seed).dirichlet(np.ones(q.shape[1]), len(q))
    pi_BA, q_BA = torch.from_numpy(pi), torch.from_numpy(q)
    mean_B = np.array([np.average(row, weights=w) for row, w in zip(q, pi, strict=True)])
    square_B = np.array([np.average(row**2, weights=w) for row, w in zip(q, pi, strict=True)])
    np.testing.assert_allclose(expected_value(pi_BA, q_BA).numpy(), mean_B, atol=1e-9)
    np.testing.assert_allclose(expected_variance(pi_BA, q_BA).numpy(), square_B - mean_B**2, atol=1e-8)
    around = square_B - 2 * mu * mean_B + mu**2
    np.testing.assert_allclose(expected_variance(pi_BA, q_BA, mu).numpy(), around, atol=1e-8)


# --- the four perturbations, written out -----------------------------------------------------------------------------


def check(targets: Targets, mean: np.ndarray, variance: np.ndarray, shift: np.ndarray) -> None:
    for found, expected in zip(targets, (mean, variance, shift), strict=True):
        assert found.shape == expected.shape
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-12, atol=1e-12)


def test_perturbed_targets_worked_by_hand() -> None:
    # softmax([0, 2 ln 3] / 2) = [1/4, 3/4], under which a gap w between two values has mean 3/4 w and variance 3/16 w^2
    width = 2 * LN3
    noisy = perturbed_targets(tensor([0.0, width]), 2.0, vector(0.5), "target")
    check(noisy, *np.array([[0.75 * width - 0.5], [3 / 16 * width**2], [0.5]]))
    q_BA, eps_BA = tensor([0.0, 1.0]), tensor([0.0, width - 1.0])
    check(perturbed_targets(q_BA, 2.0, eps_BA, "weights"), *np.array([[0.75], [3 / 16], [0.0]]))
    check(perturbed_targets(q_BA, 2.0, eps_BA, "values"), *np.array([[0.75 * width], [3 / 16 * width**2], [0.0]]))


def test_target_noise_moves_the_mean_down_by_eps_and_comes_back_as_the_shift() -> None:
    q, alpha, rng = case(1)
    eps = rng.normal(size=5)
    pi = weights(q / alpha)
    mean = (pi * q).sum(axis=1)
    variance = (pi * q**2).sum(axis=1) - mean**2
    check(perturbed_targets(torch.from_numpy(q), alpha, torch.from_numpy(eps), "target"), mean - eps, variance, eps)


def test_weight_noise_stays_inside_the_softmax() -> None:
    q, alpha, rng = case(2)
    eps = rng.normal(size=(5, 4))
    pi = weights((q + eps) / alpha)
    mean = (pi * q).sum(axis=1)
    variance = (pi * q**2).sum(axis=1) - mean**2
    found = perturbed_targets(torch.from_numpy(q), alpha, torch.from_numpy(eps), "weights")
    check(found, mean, variance, np.zeros(5))


def test_value_noise_is_the_same_in_weights_and_values() -> None:
    q, alpha, rng = case(3)
    noisy = q + (eps := rng.normal(size=(5, 4)))
    pi = weights(noisy / alpha)
    mean = (pi * noisy).sum(axis=1)
    variance = (pi * noisy**2).sum(axis=1) - mean**2
    found = perturbed_targets(torch.from_numpy(q), alpha, torch.from_numpy(eps), "values")
    check(found, mean, variance, np.zeros(5))


def test_without_perturbation_the_noise_is_not_looked_at() -> None:
    q, alpha, _ = case(4)
    pi = weights(q / alpha)
    mean = (pi * q).sum(axis=1)
    variance = (pi * q**2).sum(axis=1) - mean**2
    found = perturbed_targets(torch.from_numpy(q), alpha, torch.full((5,), torch.nan), "none")
    check(found, mean, variance, np.zeros(5))


def test_target_noise_is_the_default() -> None:
    q, alpha, rng = case(5)
    eps = torch.from_numpy(rng.normal(size=5))
    for found, expected in zip(
        perturbed_targets(torch.from_numpy(q), alpha, eps),
        perturbed_targets(torch.from_numpy(q), alpha, eps, "target"),
        strict=True,
    ):
        assert torch.equal(found, expected)


@pytest.mark.parametrize("perturbation", get_args(Perturbation))
def test_a_shared_draw_equals_the_same_draw_for_every_state(perturbation: Perturbation) -> None:
    q, alpha, rng = case(6)
    width = (4,) if perturbation in ("weights", "values") else ()
    shared = torch.from_numpy(rng.normal(size=(1, *width)))
    repeated = shared.expand(5, *width)
    q_BA = torch.from_numpy(q)
    once = perturbed_targets(q_BA, alpha, shared, perturbation)
    each = perturbed_targets(q_BA, alpha, repeated, perturbation)
    for found, expected in zip(once, each, strict=True):
        assert found.shape == (5,)
        assert torch.equal(found, expected)


def test_without_noise_all_perturbations_agree() -> None:
    q, alpha, _ = case(7)
    q_BA = torch.from_numpy(q)
    clean = perturbed_targets(q_BA, alpha, torch.zeros(5), "none")
    for perturbation in get_args(Perturbation):
        eps = torch.zeros(5, 4) if perturbation in ("weights", "values") else torch.zeros(5)
        for found, expected in zip(perturbed_targets(q_BA, alpha, eps, perturbation), clean, strict=True):
            assert torch.equal(found, expected)


@pytest.mark.parametrize("perturbation", get_args(Perturbation))
def test_one_temperature_per_state_acts_on_its_own_row(perturbation: Perturbation) -> None:
    q, _, rng = case(8)
    alpha_B = torch.from_numpy(rng.uniform(0.1, 5.0, 5))
    eps = torch.from_numpy(rng.normal(size=(5, 4) if perturbation in ("weights", "values") else 5))
    q_BA = torch.from_numpy(q)
    together = perturbed_targets(q_BA, alpha_B, eps, perturbation)
    for b in range(5):
        alone = perturbed_targets(q_BA[b : b + 1], float(alpha_B[b]), eps[b : b + 1], perturbation)
        for found, expected in zip(together, alone, strict=True):
            torch.testing.assert_close(found[b : b + 1], expected)


def test_an_unknown_perturbation_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="'target', 'weights', 'values' or 'none', not 'weight'"):
        perturbed_targets(tensor([0.0, 1.0]), 1.0, vector(0.0), "weight")  # type: ignore[arg-type]
