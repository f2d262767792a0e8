"""The policies against values worked out by hand, scipy, and what must hold of any softmax."""

import math

import numpy as np
import pytest
import scipy.special
import scipy.stats
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dsacc.maths import (
    actor_loss,
    boltzmann,
    entropy,
    linear_schedule,
    mean_constrained,
    natural_softmax,
    target_entropy,
    variance_constrained,
)

LN2, LN3 = math.log(2.0), math.log(3.0)
ordinary = settings(deadline=None, derandomize=True, max_examples=150)
shapes = st.tuples(st.integers(1, 4), st.integers(1, 7))
q_arrays = arrays(np.float64, shapes, elements=st.floats(-1e3, 1e3))
temperatures = st.floats(1e-3, 1e3)
multipliers = st.floats(0.0, 1.0)


def tensor(*rows: list[float], dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.tensor(rows, dtype=dtype)


def every_policy(q_BA: torch.Tensor, lam: float, mu: float, alpha: float) -> dict[str, torch.Tensor]:
    return {
        "boltzmann": boltzmann(q_BA, alpha),
        "mean": mean_constrained(q_BA, lam, alpha),
        "variance": variance_constrained(q_BA, lam, mu, alpha),
    }


# --- worked by hand --------------------------------------------------------------------------------------------------


def test_boltzmann_weighs_actions_by_exp_of_q_over_alpha() -> None:
    torch.testing.assert_close(boltzmann(tensor([0.0, LN2, 2 * LN2]), 1.0), tensor([1 / 7, 2 / 7, 4 / 7]))
    torch.testing.assert_close(boltzmann(tensor([5.0, 5.0 + 2 * LN3]), 2.0), tensor([1 / 4, 3 / 4]))


def test_boltzmann_takes_one_temperature_per_row() -> None:
    q_BA = tensor([0.0, LN3], [0.0, LN3])
    expected = tensor([1 / 4, 3 / 4], [1 / 10, 9 / 10])
    alpha_B = torch.tensor([1.0, 0.5], dtype=torch.float64)
    torch.testing.assert_close(boltzmann(q_BA, alpha_B), expected)
    torch.testing.assert_close(boltzmann(q_BA, alpha_B[:, None]), expected)
    torch.testing.assert_close(boltzmann(q_BA, torch.tensor(1.0)), expected[:1].expand(2, 2))


def test_mean_constrained_scales_q_by_one_minus_lambda() -> None:
    torch.testing.assert_close(mean_constrained(tensor([0.0, 4 * LN3]), 0.5, 2.0), tensor([1 / 4, 3 / 4]))
    lam_B = torch.tensor([0.0, 0.75], dtype=torch.float64)
    q_BA = tensor([0.0, LN3], [0.0, 4 * LN3])
    torch.testing.assert_close(mean_constrained(q_BA, lam_B, 1.0), tensor([1 / 4, 3 / 4], [1 / 4, 3 / 4]))


def test_variance_constrained_lowers_q_by_lambda_times_its_squared_deviation() -> None:
    # Q = 2 with mu = 0: 2 - 0.5 * 4 = 0, so both actions weigh the same; with lambda = 1, 2 - 4 = -2.
    q_BA = tensor([0.0, 2.0], [0.0, 2.0])
    lam_B = torch.tensor([0.5, 1.0], dtype=torch.float64)
    pi_BA = variance_constrained(q_BA, lam_B, 0.0, 2.0 / LN3)
    torch.testing.assert_close(pi_BA, tensor([1 / 2, 1 / 2], [3 / 4, 1 / 4]))
    # around their middle both actions deviate alike, and lambda changes nothing
    mu_B = torch.tensor([1.0, 1.0], dtype=torch.float64)
    torch.testing.assert_close(
        variance_constrained(q_BA, lam_B, mu_B, 2.0 / LN3), tensor([1 / 4, 3 / 4], [1 / 4, 3 / 4])
    )


# --- against scipy ---------------------------------------------------------------------------------------------------


@ordinary
@given(q=q_arrays, lam=multipliers, mu=st.floats(-1e3, 1e3), alpha=temperatures)
def test_policies_equal_scipy_softmax_of_their_exponents(q: np.ndarray, lam: float, mu: float, alpha: float) -> None:
    found = every_policy(torch.from_numpy(q), lam, mu, alpha)
    exponents = {"boltzmann": q / alpha, "mean": (1 - lam) * q / alpha, "variance": (q - lam * (q - mu) ** 2) / alpha}
    for name, exponent in exponents.items():
        tolerance = 1e-15 * (10 + np.abs(exponent).max())  # an exponent is rounded before it is raised
        np.testing.assert_allclose(
            found[name].numpy(), scipy.special.softmax(exponent, axis=-1), rtol=0, atol=tolerance
        )


@ordinary
@given(q=q_arrays, lam=multipliers, mu=st.floats(-1e3, 1e3), alpha=temperatures)
def test_every_policy_is_a_distribution(q: np.ndarray, lam: float, mu: float, alpha: float) -> None:
    for dtype in (torch.float64, torch.float32):
        q_BA = torch.from_numpy(q).to(dtype)
        for pi_BA in every_policy(q_BA, lam, mu, alpha).values():
            assert pi_BA.dtype == dtype
            assert pi_BA.shape == q_BA.shape
            assert (pi_BA >= 0).all()
            assert torch.allclose(pi_BA.sum(dim=-1), torch.ones(len(q), dtype=dtype), atol=1e-6, rtol=0)


# --- invariances and limits ------------------------------------------------------------------------------------------


@ordinary
@given(
    q=arrays(np.int64, shapes, elements=st.integers(-64, 64)),
    offset=st.integers(-(2**18), 2**18),
    lam=multipliers,
    alpha=st.floats(0.05, 50.0),
)
def test_an_offset_of_every_q_changes_no_policy(q: np.ndarray, offset: int, lam: float, alpha: float) -> None:
    # Sixteenths, so that the shifted values are exact even in float32 and only the code under test can round.
    for dtype in (torch.float64, torch.float32):
        here_BA, there_BA = (torch.from_numpy(q / 16 + x).to(dtype) for x in (0, offset))
        assert torch.equal(boltzmann(here_BA, alpha), boltzmann(there_BA, alpha))
        around_here_BA = variance_constrained(here_BA, lam, 0.5, alpha)
        torch.testing.assert_close(variance_constrained(there_BA, lam, 0.5 + offset, alpha), around_here_BA)
    here_BA, there_BA = torch.from_numpy(q / 16), torch.from_numpy(q / 16 + offset)
    difference_BA = mean_constrained(here_BA, lam, alpha) - mean_constrained(there_BA, lam, alpha)
    assert difference_BA.abs().max() <= 1e-8  # (1 - lambda) Q is rounded at the offset's size


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("alpha", [1e-8, 1.0, 1e3])
@pytest.mark.parametrize("lam", [0.0, 0.3, 1.0])
def test_huge_q_and_tiny_alpha_stay_finite(dtype: torch.dtype, alpha: float, lam: float) -> None:
    q_BA = tensor([1e30, 1e30, -1e30], [1e30, 0.0, -1e30], [1e-30, -1e30, 1.0], [-1e30, -1e30, -1e30], dtype=dtype)
    for name, pi_BA in every_policy(q_BA, lam, 0.0, alpha).items():
        assert torch.isfinite(pi_BA).all(), name
        assert torch.allclose(pi_BA.sum(dim=-1), torch.ones(4, dtype=dtype)), name


def test_huge_ties_share_their_mass() -> None:
    for dtype in (torch.float32, torch.float64):
        pi_BA = boltzmann(tensor([1e30, 1e30, -1e30], dtype=dtype), 1e-8)
        torch.testing.assert_close(pi_BA, tensor([0.5, 0.5, 0.0], dtype=dtype))


@ordinary
@given(q=q_arrays, mu=st.floats(-1e3, 1e3), alpha=temperatures)
def test_a_multiplier_of_zero_gives_the_surrogate_policy(q: np.ndarray, mu: float, alpha: float) -> None:
    q_BA = torch.from_numpy(q)
    surrogate_BA = boltzmann(q_BA, alpha)
    assert torch.equal(mean_constrained(q_BA, 0.0, alpha), surrogate_BA)
    assert torch.equal(variance_constrained(q_BA, 0.0, mu, alpha), surrogate_BA)


@ordinary
@given(q=q_arrays, alpha=temperatures)
def test_a_mean_multiplier_of_one_gives_the_uniform_policy(q: np.ndarray, alpha: float) -> None:
    pi_BA = mean_constrained(torch.from_numpy(q), 1.0, alpha)
    torch.testing.assert_close(pi_BA, torch.full_like(pi_BA, 1 / q.shape[1]))


# --- entropy ---------------------------------------------------------------------------------------------------------


def test_entropy_worked_by_hand() -> None:
    pi_BA = tensor([1 / 2, 1 / 4, 1 / 4, 0.0], [1 / 4, 1 / 4, 1 / 4, 1 / 4], [0.0, 1.0, 0.0, 0.0])
    torch.testing.assert_close(entropy(pi_BA), torch.tensor([1.5 * LN2, 2 * LN2, 0.0], dtype=torch.float64))


@ordinary
@given(q=q_arrays, alpha=temperatures)
def test_entropy_lies_between_zero_and_log_a_and_equals_scipy(q: np.ndarray, alpha: float) -> None:
    pi_BA = boltzmann(torch.from_numpy(q), alpha)
    entropy_B = entropy(pi_BA)
    assert (entropy_B >= 0).all()
    assert (entropy_B <= math.log(q.shape[1]) + 1e-12).all()
    np.testing.assert_allclose(entropy_B.numpy(), scipy.stats.entropy(pi_BA.numpy(), axis=-1), atol=1e-12)


def test_zero_log_zero_is_zero() -> None:
    assert entropy(tensor([0.0, 1.0], [1.0, 0.0])).tolist() == [0.0, 0.0]


# --- schedules -------------------------------------------------------------------------------------------------------


def test_target_entropy_is_a_share_of_log_a() -> None:
    assert target_entropy(4, 0.89) == pytest.approx(0.89 * 2 * LN2, rel=1e-15)
    assert target_entropy(18, 1.0) == pytest.approx(
        float(entropy(torch.full((1, 18), 1 / 18, dtype=torch.float64))), rel=1e-12
    )
    assert target_entropy(1, 0.89) == 0.0
    assert target_entropy(6, 0.0) == 0.0


def test_linear_schedule_runs_from_start_to_end_and_stays_there() -> None:
    fractions = [-1.0, 0.0, 0.25, 0.5, 1.0, 7.0]
    assert [linear_schedule(1.0, 0.2, f) for f in fractions] == pytest.approx([1.0, 1.0, 0.8, 0.6, 0.2, 0.2])
    assert [linear_schedule(0.0, 4.0, f) for f in fractions] == pytest.approx([0.0, 0.0, 1.0, 2.0, 4.0, 4.0])


@ordinary
@given(ends=st.tuples(st.floats(-1e3, 1e3), st.floats(-1e3, 1e3)), fraction=st.floats(-2.0, 3.0))
def test_linear_schedule_never_leaves_its_ends(ends: tuple[float, float], fraction: float) -> None:
    value = linear_schedule(*ends, fraction)
    assert min(ends) - 1e-9 <= value <= max(ends) + 1e-9


def test_squares_beyond_float64_do_not_make_nan() -> None:
    pi = variance_constrained(torch.tensor([[1e200, 0.0]], dtype=torch.float64), 0.0, 0.0, 1.0)
    assert pi.tolist() == [[1.0, 0.0]]


def test_a_large_offset_costs_the_mean_form_no_digits_in_float32() -> None:
    q = torch.tensor([[0.0, 0.5, 1.0]])
    torch.testing.assert_close(mean_constrained(q + 2.0**20, 0.3, 0.5), mean_constrained(q, 0.3, 0.5))


def actor_gradient(
    logits: torch.Tensor, q: torch.Tensor, alpha: float, natural: bool, share: float = 1.0
) -> torch.Tensor:
    logits = logits.clone().requires_grad_()
    if natural:
        pi, log_pi = natural_softmax(logits, share=share)
    else:
        log_pi = torch.log_softmax(logits, dim=-1)
        pi = log_pi.exp()
    actor_loss(pi, log_pi, q, alpha).backward()
    return logits.grad


def test_natural_softmax_is_softmax_to_the_bit_with_the_fisher_matrix_divided_out() -> None:
    generator = torch.Generator().manual_seed(0)
    logits, q = (torch.randn(3, 5, generator=generator, dtype=torch.float64) for _ in range(2))
    pi, log_pi = natural_softmax(logits.requires_grad_())
    assert torch.equal(log_pi, torch.log_softmax(logits, dim=-1))
    assert torch.equal(pi, log_pi.exp())
    fisher = torch.diag_embed(pi) - pi[:, :, None] * pi[:, None, :]
    plain = actor_gradient(logits.detach(), q, 0.3, natural=False)
    wanted = (torch.linalg.pinv(fisher) @ plain[:, :, None])[:, :, 0]
    torch.testing.assert_close(actor_gradient(logits.detach(), q, 0.3, natural=True), wanted.detach())


def test_a_share_of_the_natural_gradient_goes_with_the_rest_of_the_ordinary_one() -> None:
    generator = torch.Generator().manual_seed(1)
    logits, q = (torch.randn(3, 5, generator=generator, dtype=torch.float64) for _ in range(2))
    plain, natural = (actor_gradient(logits, q, 0.3, natural=which) for which in (False, True))
    mixed = actor_gradient(logits, q, 0.3, natural=True, share=0.25)
    torch.testing.assert_close(mixed, 0.75 * plain + 0.25 * natural)
    assert torch.equal(natural_softmax(logits, share=0.25)[0], torch.log_softmax(logits, dim=-1).exp())


@pytest.mark.parametrize("share", [1.0, 0.1])
def test_a_policy_certain_of_a_wrong_action_unlearns_it_by_the_natural_gradient_alone(share: float) -> None:
    """Also where the others' probabilities are zero in float32; the plain gradient is zero there."""
    q, alpha = torch.tensor([[0.0, 0.1, 0.2]]), 0.1
    start = torch.tensor([[200.0, 0.0, 0.0]])
    assert actor_gradient(start, q, alpha, natural=False).abs().max() == 0
    logits = start
    for _ in range(round(200 / share)):
        logits = logits - actor_gradient(logits, q, alpha, natural=True, share=share)
    torch.testing.assert_close(torch.softmax(logits, dim=-1), boltzmann(q, alpha), atol=1e-4, rtol=0)
