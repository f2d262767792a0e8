"""A mask gives what removing the columns gives, in every equation."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from dsacc.maths import (
    actor_loss,
    boltzmann,
    constraint_penalty,
    entropy,
    expected_value,
    expected_variance,
    joint_multipliers,
    mean_constrained,
    mean_multiplier,
    natural_softmax,
    neutral,
    perturbed_targets,
    policy_of,
    soft_value,
    spread,
    surrogate_divergence,
    target_entropy,
    variance_constrained,
    variance_multiplier,
)

B, A = 24, 6
G = torch.Generator().manual_seed(0)
Q = torch.randn(B, A, generator=G, dtype=torch.float64)
LOGITS, EPS_A = (torch.randn(B, A, generator=G, dtype=torch.float64) for _ in range(2))
EPS, TARGET = (torch.randn(B, generator=G, dtype=torch.float64) for _ in range(2))
MASK = torch.rand(B, A, generator=G) < 0.5
MASK[torch.arange(B), torch.randint(A, (B,), generator=G)] = True
MASK[0], MASK[1] = False, True
MASK[0, 3] = True  # a single action; and all of them
MASK[2], MASK[3] = torch.arange(A) < 2, torch.arange(A) > 3
WILD = torch.where(MASK, Q, 1e30)  # values of actions that are not allowed must not matter, whatever they are
ALPHA = 0.4

Equation = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor | None], Tensor]


def targets(perturbation: Any, part: str) -> Equation:
    noise = (lambda eps, eps_A: eps_A) if perturbation in ("weights", "values") else (lambda eps, eps_A: eps)
    return lambda q, logits, eps_A, eps, target, mask: getattr(
        perturbed_targets(q, ALPHA, noise(eps, eps_A), perturbation, mask), part
    )


# q, logits, noise per action, noise, a target, and the mask; [n, A] or [n]
EQUATIONS: dict[str, Equation] = {
    "boltzmann": lambda q, *_, mask: boltzmann(q, ALPHA, mask),
    "mean constrained": lambda q, *_, mask: mean_constrained(q, 0.3, ALPHA, mask),
    "variance constrained": lambda q, *_, mask: variance_constrained(q, 0.3, 0.1, ALPHA, mask),
    "policy": lambda q, logits, *_, mask: policy_of(logits, mask)[0],
    "log policy": lambda q, logits, *_, mask: policy_of(logits, mask)[1],
    "natural policy": lambda q, logits, *_, mask: natural_softmax(logits, mask)[0],
    "spread": lambda q, *_, mask: spread(q, mask),
    "entropy": lambda q, logits, *_, mask: entropy(policy_of(logits, mask)[0]),
    "mean of Q": lambda q, logits, *_, mask: expected_value(policy_of(logits, mask)[0], q),
    "variance of Q": lambda q, logits, *_, mask: expected_variance(policy_of(logits, mask)[0], q),
    "value": lambda q, logits, *_, mask: soft_value(*policy_of(logits, mask), q, ALPHA),
    **{
        f"{part} of {name}": targets(name, part)
        for name in ("target", "weights", "values", "none")
        for part in ("mean_B", "variance_B", "shift_B")
    },
    **{
        f"lambda of the {form} mean": lambda q, logits, a, eps, target, mask, form=form: (
            mean_multiplier(q, 0.5 * target, ALPHA, form=form, mask=mask).value
        )
        for form in ("tempered", "plain")
    },
    **{
        f"lambda of the {form} variance": lambda q, logits, a, eps, target, mask, form=form: (
            variance_multiplier(q, 0.2 * target.abs(), 0.3 * eps, ALPHA, form=form, mask=mask).value
        )
        for form in ("tempered", "plain")
    },
    "lambda without bounds": lambda q, logits, a, eps, target, mask: (
        mean_multiplier(q, 0.5 * target, ALPHA, bounds=(-50.0, 50.0), mask=mask).value
    ),
    "residual": lambda q, logits, a, eps, target, mask: mean_multiplier(q, 0.5 * target, ALPHA, mask=mask).residual,
    "policy of both lambdas": lambda q, logits, a, eps, target, mask: joint_policy(q, target, eps, mask),
}


def joint_policy(q: Tensor, target: Tensor, eps: Tensor, mask: Tensor | None) -> Tensor:
    """With two actions the multipliers are not unique, but the policy is."""
    mu, lam = 0.3 * eps, joint_multipliers(q, 0.3 * target, 0.2 * target.abs(), 0.3 * eps, ALPHA, mask=mask).value
    return boltzmann(q - lam[:, :1] * q - lam[:, 1:] * (q - mu[:, None]) ** 2, ALPHA, mask)


@pytest.mark.parametrize("name", EQUATIONS)
def test_a_masked_problem_is_the_problem_without_these_actions(name):
    wild = WILD if "of Q" not in name and name not in ("value", "spread") else Q  # a weight of 0 times 1e30 squared
    found = EQUATIONS[name](wild, LOGITS, EPS_A, EPS, TARGET, mask=MASK)
    for b, some in enumerate(MASK):
        row = slice(b, b + 1)
        wanted = EQUATIONS[name](
            Q[row][:, some], LOGITS[row][:, some], EPS_A[row][:, some], EPS[row], TARGET[row], mask=None
        )
        got = found[b][some] if found.dim() == 2 else found[b]
        torch.testing.assert_close(got, wanted[0], rtol=1e-8, atol=1e-9, msg=f"{name}, row {b}")
        if found.dim() == 2:
            assert (found[b][~some] == 0).all(), name


LOSSES: dict[str, Callable[[Tensor, Tensor, Tensor, Tensor | None], Tensor]] = {
    "actor": lambda pi, log_pi, q, mask: actor_loss(pi, log_pi, q, ALPHA),
    "penalty": lambda pi, log_pi, q, mask: constraint_penalty(pi, q, TARGET[: len(q)], EPS[: len(q)].abs()),
    "divergence": lambda pi, log_pi, q, mask: surrogate_divergence(log_pi, q, ALPHA, mask),
}


@pytest.mark.parametrize("softmax", [policy_of, natural_softmax])
@pytest.mark.parametrize("name", LOSSES)
def test_losses_and_their_gradients_are_those_without_these_actions(name, softmax):
    if softmax is natural_softmax and name == "divergence":
        pytest.skip("log pi is a constant there")
    some = torch.tensor([True, False, True, True, False, True])
    whole, part = LOGITS.clone().requires_grad_(), LOGITS[:, some].clone().requires_grad_()
    mask = some.expand(B, A)
    losses = [
        LOSSES[name](*softmax(whole, mask), Q, mask),
        LOSSES[name](*softmax(part), Q[:, some], None),
    ]
    for loss in losses:
        loss.backward()
    torch.testing.assert_close(losses[0], losses[1])
    assert whole.grad is not None
    torch.testing.assert_close(whole.grad[:, some], part.grad)
    assert (whole.grad[:, ~some] == 0).all()


def test_the_target_entropy_is_a_share_of_what_the_allowed_actions_can_have():
    counts = torch.tensor([1, 2, 4])
    assert target_entropy(counts, 0.5) == pytest.approx(0.5 * (0 + math.log(2) + math.log(4)) / 3)
    assert target_entropy(4, 0.5) == 0.5 * math.log(4)


def test_neutral_values_are_the_row_s_largest_allowed_one():
    x_BA = torch.tensor([[1.0, 5.0, -2.0], [4.0, 3.0, 2.0]])
    mask = torch.tensor([[True, False, True], [False, True, True]])
    assert neutral(x_BA, mask).tolist() == [[1.0, 1.0, -2.0], [3.0, 3.0, 2.0]]
    assert neutral(x_BA, None) is x_BA


ONE_ROW_WITHOUT = torch.arange(B)[:, None].expand(B, A) != 3


@pytest.mark.parametrize(
    "bad", [torch.zeros(B, A).bool(), torch.ones(B, A - 1).bool(), torch.ones(B, A), ONE_ROW_WITHOUT]
)
def test_a_mask_that_cannot_be_is_refused(bad):
    with pytest.raises(ValueError, match="at least one allowed action"):
        mean_multiplier(Q, TARGET, ALPHA, mask=bad)
