"""Values as bins, against scipy's normal distribution and by properties."""

import numpy as np
import pytest
import torch
from scipy.stats import norm

from dsacc.maths import bin_centres, bin_edges, bin_loss, expected_bin, gaussian_bins

EDGES = bin_edges(10.0, 51).double()
WIDTH = 20 / 51


def bins_of(*values: float, sigma: float = 0.75 * WIDTH) -> torch.Tensor:
    return gaussian_bins(torch.tensor(values, dtype=torch.float64), EDGES, sigma)


def test_bins_have_one_width_and_lie_symmetrically() -> None:
    assert (len(EDGES), len(bin_centres(EDGES))) == (52, 51)
    np.testing.assert_allclose(np.diff(EDGES.numpy()), WIDTH, rtol=1e-5)
    np.testing.assert_allclose(bin_centres(EDGES), -bin_centres(EDGES).flip(0), atol=1e-6)
    assert bin_edges(3.0, 2).tolist() == [-3, 0, 3]


@pytest.mark.parametrize("y", [-9.0, -0.3, 0.0, 0.123, 7.7])
@pytest.mark.parametrize("sigma", [0.2, 0.75 * WIDTH, 2.0])
def test_a_bin_has_the_mass_of_a_truncated_gaussian(y: float, sigma: float) -> None:
    cdf = norm(y, sigma).cdf(EDGES.numpy())
    np.testing.assert_allclose(bins_of(y, sigma=sigma)[0], np.diff(cdf) / (cdf[-1] - cdf[0]), atol=1e-9)


def test_the_mean_of_a_values_bins_is_the_value_away_from_the_ends() -> None:
    y = np.linspace(-8.5, 8.5, 101)
    means = bins_of(*y) @ bin_centres(EDGES)
    np.testing.assert_allclose(means, y, atol=1e-4 * WIDTH)


def test_values_beyond_the_ends_count_as_the_ends() -> None:
    assert bins_of(10.0, 11.0, 1e30)[1:].equal(bins_of(10.0, 10.0))
    far = bins_of(-1e30, 1e30)
    assert far.isfinite().all()
    torch.testing.assert_close(far.sum(dim=1), torch.ones(2, dtype=torch.float64))
    assert far.argmax(dim=1).tolist() == [0, 50]


def test_the_expected_bin_of_equal_logits_is_zero_and_of_a_certain_one_its_centre() -> None:
    logits = torch.zeros(2, 3, 51, dtype=torch.float64)
    logits[1, 2, 7] = 1e3
    q = expected_bin(logits, bin_centres(EDGES))
    assert q.shape == (2, 3)
    np.testing.assert_allclose(q, [[0, 0, 0], [0, 0, float(bin_centres(EDGES)[7])]], atol=1e-6)


def test_the_loss_is_least_where_the_prediction_is_the_target() -> None:
    goal = bins_of(1.3, -4.0)
    logits = goal.clamp(min=1e-300).log().requires_grad_()
    loss = bin_loss(logits, goal)
    (slope,) = torch.autograd.grad(loss, logits)
    assert slope.abs().max() < 1e-12
    entropy = -torch.special.xlogy(goal, goal).sum(dim=1).mean()
    torch.testing.assert_close(loss.detach(), entropy)
    assert bin_loss(torch.zeros(2, 51, dtype=torch.float64), goal) == pytest.approx(np.log(51))
