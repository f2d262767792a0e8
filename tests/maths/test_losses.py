"""The losses against arrays worked out by hand, torch's own, and the policies at which their gradients must vanish."""

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dsacc.maths import (
    actor_loss,
    clipped_critic_loss,
    constraint_penalty,
    critic_loss,
    entropy_penalty,
    surrogate_divergence,
    temperature_loss,
    with_augmented,
)
from dsacc.maths.losses import td_error

LN2 = math.log(2.0)
Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]  # of pi and log pi
ordinary = settings(deadline=None, derandomize=True, max_examples=100)
q_arrays = arrays(np.float64, st.tuples(st.integers(1, 4), st.integers(1, 7)), elements=st.floats(-10.0, 10.0))


def tensor(*rows: list[float]) -> torch.Tensor:
    return torch.tensor(rows, dtype=torch.float64)


def vector(*values: float, grad: bool = False) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64, requires_grad=grad)


def gradient_of_logits(
    loss: Callable[[torch.Tensor, torch.Tensor], torch.Tensor], logits: torch.Tensor
) -> torch.Tensor:
    """d loss(pi, log pi) / d logits at pi = softmax(logits)."""
    logits = logits.clone().requires_grad_()
    log_pi_BA = torch.log_softmax(logits, dim=-1)
    (gradient,) = torch.autograd.grad(loss(log_pi_BA.exp(), log_pi_BA), logits)
    return gradient


# --- critic ----------------------------------------------------------------------------------------------------------


def test_critic_losses_worked_by_hand() -> None:
    prediction_B, target_B = vector(0.0, 1.0, 5.0), vector(0.5, 1.0, 2.0)
    assert td_error(prediction_B, target_B).tolist() == [0.25, 0.0, 9.0]
    assert td_error(prediction_B, target_B, "huber").tolist() == [0.125, 0.0, 2.5]  # 3 - 1/2 beyond the corner
    assert critic_loss(prediction_B, target_B).item() == pytest.approx(9.25 / 3)
    assert critic_loss(prediction_B, target_B, "huber").item() == pytest.approx(2.625 / 3)


def test_critic_losses_equal_torch_s_own() -> None:
    rng = np.random.default_rng(0)
    prediction_B, target_B = torch.from_numpy(rng.normal(0, 3, 64)), torch.from_numpy(rng.normal(0, 3, 64))
    torch.testing.assert_close(critic_loss(prediction_B, target_B), torch.nn.MSELoss()(prediction_B, target_B))
    smooth = torch.nn.SmoothL1Loss(beta=1.0)  # another name for Huber's loss with its corner at 1
    torch.testing.assert_close(critic_loss(prediction_B, target_B, "huber"), smooth(prediction_B, target_B))


def test_weights_multiply_the_losses_of_their_states() -> None:
    prediction_B, target_B, weight_B = vector(0.0, 1.0, 5.0), vector(0.5, 1.5, 2.0), vector(1.0, 0.5, 0.0)
    assert critic_loss(prediction_B, target_B, "mse", weight_B).item() == pytest.approx((0.25 + 0.125) / 3)
    clipped = clipped_critic_loss(prediction_B, target_B, prediction_B, 1.0, "mse", weight_B)
    assert clipped.item() == pytest.approx((0.25 + 0.125) / 3)


def test_an_unknown_critic_loss_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="'mse' or 'huber', not 'l1'"):
        critic_loss(vector(0.0), vector(1.0), "l1")  # type: ignore[arg-type]


# --- Q-clip ----------------------------------------------------------------------------------------------------------


def test_q_clip_stops_the_gradient_once_q_has_moved_c_towards_its_target() -> None:
    # anchor 0, c = 1, y = +-5. Towards y and beyond c: (1 - 5)^2, constant. Away from y: (-2 - 5)^2, slope 2 (-7).
    for sign in (1.0, -1.0):
        prediction_B = vector(sign * 2.0, sign * -2.0, grad=True)
        loss = clipped_critic_loss(prediction_B, vector(sign * 5.0, sign * 5.0), vector(0.0, 0.0), clip=1.0)
        assert loss.item() == pytest.approx((16.0 + 49.0) / 2)
        loss.backward()
        assert prediction_B.grad is not None
        assert prediction_B.grad.tolist() == pytest.approx([0.0, sign * -14.0 / 2])


@pytest.mark.parametrize("kind", ["mse", "huber"])
def test_q_clip_is_the_plain_loss_within_c_of_the_anchor(kind: str) -> None:
    rng = np.random.default_rng(1)
    anchor_B = torch.from_numpy(rng.normal(0, 3, 100))
    prediction_B = (anchor_B + torch.from_numpy(rng.uniform(-0.49, 0.49, 100))).requires_grad_()
    target_B = torch.from_numpy(rng.normal(0, 3, 100))
    clipped = clipped_critic_loss(prediction_B, target_B, anchor_B, 0.5, kind)  # type: ignore[arg-type]
    plain = critic_loss(prediction_B, target_B, kind)  # type: ignore[arg-type]
    torch.testing.assert_close(clipped, plain)
    torch.testing.assert_close(*(torch.autograd.grad(loss, prediction_B)[0] for loss in (clipped, plain)))


@ordinary
@given(values=arrays(np.float64, (3, 5), elements=st.floats(-10.0, 10.0)), clip=st.floats(0.0, 5.0))
def test_q_clip_is_never_below_the_plain_loss(values: np.ndarray, clip: float) -> None:
    prediction_B, target_B, anchor_B = torch.from_numpy(values)
    clipped = clipped_critic_loss(prediction_B, target_B, anchor_B, clip)
    assert clipped >= critic_loss(prediction_B, target_B) - 1e-12
    worst = torch.maximum((prediction_B - target_B).abs(), (anchor_B - target_B).abs())
    assert clipped <= worst.square().mean() + 1e-12  # the second point lies between Q and its anchor


# --- actor -----------------------------------------------------------------------------------------------------------


def test_actor_loss_worked_by_hand() -> None:
    # H = 1.75 ln 2 and E[Q] = 0 in the first row, H = 2 ln 2 and E[Q] = -3 in the second
    pi_BA = tensor([0.5, 0.25, 0.125, 0.125], [0.25, 0.25, 0.25, 0.25])
    q_BA = tensor([2.0, 4.0, -8.0, -8.0], [-3.0, -3.0, -3.0, -3.0])
    expected = ((-2 * 1.75 * LN2 - 0.0) + (-2 * 2 * LN2 + 3.0)) / 2
    assert actor_loss(pi_BA, pi_BA.log(), q_BA, 2.0).item() == pytest.approx(expected)


def test_actor_loss_sums_over_actions_and_averages_over_states() -> None:
    rng = np.random.default_rng(2)
    q_BA = torch.from_numpy(rng.normal(size=(6, 5)))
    pi_BA = torch.from_numpy(rng.dirichlet(np.ones(5), 6))
    once = actor_loss(pi_BA, pi_BA.log(), q_BA, 0.3)
    # every action twice, each with half the mass: E[Q] stays, the entropy grows by ln 2; no factor 1/A anywhere
    twice_pi_BA, twice_q_BA = torch.cat([pi_BA / 2] * 2, dim=1), torch.cat([q_BA] * 2, dim=1)
    assert actor_loss(twice_pi_BA, twice_pi_BA.log(), twice_q_BA, 0.3).item() == pytest.approx(once.item() - 0.3 * LN2)
    batch_pi_BA, batch_q_BA = torch.cat([pi_BA] * 2), torch.cat([q_BA] * 2)
    assert actor_loss(batch_pi_BA, batch_pi_BA.log(), batch_q_BA, 0.3).item() == pytest.approx(once.item())


@ordinary
@given(q=q_arrays, alpha=st.floats(0.1, 10.0))
def test_the_actor_s_loss_is_smallest_at_the_surrogate_policy(q: np.ndarray, alpha: float) -> None:
    q_BA = torch.from_numpy(q)

    def loss(pi_BA: torch.Tensor, log_pi_BA: torch.Tensor) -> torch.Tensor:
        return actor_loss(pi_BA, log_pi_BA, q_BA, alpha)

    logits = q_BA / alpha
    assert gradient_of_logits(loss, logits).abs().max() <= 1e-12
    log_pi_BA = torch.log_softmax(logits, dim=-1)
    smallest = loss(log_pi_BA.exp(), log_pi_BA)
    assert smallest.item() == pytest.approx(-(alpha * torch.logsumexp(logits, dim=-1)).mean().item(), abs=1e-9)
    moved = torch.log_softmax(logits + torch.linspace(-1, 1, q.shape[1]), dim=-1)
    assert loss(moved.exp(), moved) >= smallest - 1e-12


def test_the_actor_s_gradient_is_not_zero_elsewhere() -> None:
    # at the uniform policy of two actions: d/d logit = pi_a ((alpha log pi_a - Q_a) - mean) = -+ (Q_1 - Q_2) / 4
    q_BA = tensor([1.0, 3.0])
    gradient = gradient_of_logits(lambda pi, log_pi: actor_loss(pi, log_pi, q_BA, 0.5), torch.zeros_like(q_BA))
    torch.testing.assert_close(gradient, tensor([0.5, -0.5]))


# --- constraint ------------------------------------------------------------------------------------------------------


def test_constraint_penalty_worked_by_hand() -> None:
    pi_BA, f_BA = tensor([0.25, 0.75], [0.5, 0.5]), tensor([0.0, 4.0], [1.0, 3.0])
    # lambda (E[f] - target): 0.5 (3 - 1) = 1 and 0.25 (2 - 6) = -1, a met constraint counting with its sign
    assert constraint_penalty(pi_BA, f_BA, vector(1.0, 6.0), vector(0.5, 0.25)).item() == 0.0
    assert constraint_penalty(pi_BA, f_BA, vector(1.0, 6.0), vector(0.5, 0.0)).item() == 0.5
    assert constraint_penalty(pi_BA, f_BA, vector(1.0, 6.0), vector(0.0, 1.0)).item() == -2.0


def test_constraint_penalty_sums_over_actions() -> None:
    pi_BA, f_BA = tensor([0.25, 0.75]), tensor([1.0, 5.0])
    halves_BA = torch.cat([pi_BA / 2] * 2, dim=1)
    once = constraint_penalty(pi_BA, f_BA, vector(0.0), vector(1.0))
    assert once.item() == 4.0
    assert constraint_penalty(halves_BA, torch.cat([f_BA] * 2, dim=1), vector(0.0), vector(1.0)).item() == 4.0


@ordinary
@given(q=q_arrays, alpha=st.floats(0.1, 10.0), lam=st.floats(0.0, 1.0), target=st.floats(-5.0, 5.0))
def test_with_a_mean_multiplier_the_actor_aims_for_the_tempered_surrogate(
    q: np.ndarray, alpha: float, lam: float, target: float
) -> None:
    q_BA = torch.from_numpy(q)
    lam_B = torch.linspace(0.0, lam, len(q), dtype=torch.float64)  # each state its own
    target_B = torch.full_like(lam_B, target)

    def loss(pi_BA: torch.Tensor, log_pi_BA: torch.Tensor) -> torch.Tensor:
        penalty = constraint_penalty(pi_BA, q_BA, target_B, lam_B)
        return actor_loss(pi_BA, log_pi_BA, q_BA, alpha) + penalty

    assert gradient_of_logits(loss, (1 - lam_B[:, None]) * q_BA / alpha).abs().max() <= 1e-12


@ordinary
@given(q=q_arrays, alpha=st.floats(0.1, 10.0), lam=st.floats(0.0, 1.0), mu=st.floats(-5.0, 5.0))
def test_with_a_variance_multiplier_the_actor_aims_for_the_variance_constrained_policy(
    q: np.ndarray, alpha: float, lam: float, mu: float
) -> None:
    q_BA = torch.from_numpy(q)
    f_BA = (q_BA - mu) ** 2
    lam_B = torch.linspace(0.0, lam, len(q), dtype=torch.float64)

    def loss(pi_BA: torch.Tensor, log_pi_BA: torch.Tensor) -> torch.Tensor:
        penalty = constraint_penalty(pi_BA, f_BA, torch.ones_like(lam_B), lam_B)
        return actor_loss(pi_BA, log_pi_BA, q_BA, alpha) + penalty

    assert gradient_of_logits(loss, (q_BA - lam_B[:, None] * f_BA) / alpha).abs().max() <= 1e-11


# --- entropy and temperature -----------------------------------------------------------------------------------------


def test_entropy_penalty_worked_by_hand() -> None:
    entropy_B = vector(1.0, 2.0, grad=True)
    loss = entropy_penalty(entropy_B, vector(2.0, 5.0))
    assert loss.item() == (1.0 + 9.0) / 2 / 2
    loss.backward()
    assert entropy_B.grad is not None
    assert entropy_B.grad.tolist() == [-0.5, -1.5]  # (H - H_old) / B: descent moves H towards H_old


@ordinary
@given(q_arrays, st.floats(0.1, 10.0))
def test_surrogate_divergence_is_a_kl_whose_gradient_is_alpha_times_the_difference_of_the_policies(q, alpha) -> None:
    q_BA = torch.from_numpy(q)
    surrogate = torch.distributions.Categorical(logits=q_BA / alpha)
    logits = torch.linspace(-1, 1, q_BA.numel(), dtype=torch.float64).reshape(q_BA.shape)
    kl_B = torch.distributions.kl_divergence(surrogate, torch.distributions.Categorical(logits=logits))
    loss = surrogate_divergence(torch.log_softmax(logits, dim=-1), q_BA, alpha)
    assert loss.item() == pytest.approx(alpha * kl_B.mean().item(), abs=1e-9)
    gradient = gradient_of_logits(lambda _, log_pi_BA: surrogate_divergence(log_pi_BA, q_BA, alpha), logits)
    expected = alpha * (torch.softmax(logits, -1) - surrogate.probs) / len(q_BA)
    torch.testing.assert_close(gradient, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("entropies", "sign"), [((1.5, 2.5), 1.0), ((0.5, 0.5), -1.0), ((0.5, 1.5), 0.0)])
def test_temperature_falls_when_the_entropy_is_above_its_target_and_rises_below(
    entropies: tuple[float, float], sign: float
) -> None:
    log_alpha = vector(LN2, grad=True)
    loss = temperature_loss(log_alpha, vector(*entropies), 1.0)
    (gradient,) = torch.autograd.grad(loss.sum(), log_alpha)
    assert gradient.item() == pytest.approx(2.0 * (np.mean(entropies) - 1.0))  # alpha (H - H_target)
    assert np.sign(gradient.item()) == sign
    assert loss.item() == pytest.approx(gradient.item())


def test_temperature_loss_leaves_the_actor_alone() -> None:
    log_alpha, entropy_B = vector(0.3, grad=True), vector(1.0, 2.0, grad=True)
    temperature_loss(log_alpha, entropy_B, 0.5).sum().backward()
    assert entropy_B.grad is None
    assert log_alpha.grad is not None


def test_a_loss_with_augmented_states_is_the_mean_over_all_states_shown() -> None:
    q_B, again_M, y_B = vector(1.0, 2.0, 6.0), vector(3.0, 0.0), vector(0.0, 4.0, 3.0)
    clean, augmented = critic_loss(q_B, y_B), critic_loss(again_M, y_B[:2])
    assert with_augmented(clean, augmented, 3, 2).item() == pytest.approx((1 + 4 + 9 + 9 + 16) / 5)
