"""What an agent's networks say about a state: the actor, the critics, the critics' policy, and lambda with and without
its clip. Videos and the clip figure show it."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dsacc.agent.constraints import Term, constraint_terms, exact, noise_shape
from dsacc.config import Config
from dsacc.dsac import DSAC
from dsacc.errors import ModelError
from dsacc.maths import Mask, boltzmann
from dsacc.system.types import Array

FREE = (-1e4, 1e4)  # bounds of an unclipped lambda; on them, no lambda meets the target
TIE = 1e-9  # probabilities that differ by less than this share of the larger count as equal


@dataclass(frozen=True)
class Insight:
    """What is known at each of B states, in float64. K is the number of constraints: 0 for DSAC, 2 for DSAC-MV.

    `unclipped_BA` is None without a constraint, with a fixed lambda (nothing is solved), and with both constraints
    (they are solved on [0, 1]^2 only).
    """

    policy_BA: Array  # pi_phi, the actor
    q_BA: Array  # both critics combined
    surrogate_BA: Array  # pi_theta = softmax(Q / alpha)
    alpha: float
    names: tuple[str, ...]  # of the constraints: "mean", "variance"
    target_BK: Array  # what the constraints ask for: E[f] at most this, f = Q or (Q - mu_phi + eps)^2
    lambda_BK: Array  # within [0, 1], as in an update
    clipped_BA: Array | None  # the constrained policy at that lambda; None without a constraint
    root_B: Array | None  # lambda without the clip, within FREE
    unclipped_BA: Array | None  # the constrained policy at that root

    @property
    def best_B(self) -> Array:
        """The action with the highest Q."""
        return np.asarray(self.q_BA.argmax(axis=1))

    @property
    def kept(self) -> tuple[Array, Array] | None:
        """Whether that action is still a most probable one with the clip, and without it."""
        if self.clipped_BA is None or self.unclipped_BA is None:
            return None
        return keeps(self.q_BA, self.clipped_BA), keeps(self.q_BA, self.unclipped_BA)

    @property
    def reached_B(self) -> Array | None:
        """Whether any lambda meets the target. The mean of Q under a policy lies between the smallest and largest Q. If
        noise moves the target outside that range, no lambda meets it, and the unclipped lambda diverges."""
        return None if self.root_B is None else (self.root_B > FREE[0]) & (self.root_B < FREE[1])


def keeps(q_BA: Array, policy_BA: Array) -> Array:
    """Whether the action with the highest Q is a most probable one. [B, A], [B, A] -> [B].

    A tie counts as kept: at lambda_1 = 1 the mean-constrained policy is uniform. It has lost its preference but has not
    reversed it.
    """
    at_best_B = np.take_along_axis(policy_BA, q_BA.argmax(axis=1)[:, None], axis=1)[:, 0]
    return np.asarray(at_best_B >= policy_BA.max(axis=1) * (1 - TIE))


def look(model: DSAC, observation: Any, *, noise: Any = None) -> Insight:
    """What `model` computes for one observation or a batch; a single one is a batch of 1.

    `noise` is standard normal of shape [B] (or [B, A] with `perturbation` "weights" or "values"), as an update would
    draw it. Without it the targets are not perturbed. Nothing is drawn here, and the model does not change.
    """
    drawn = None if noise is None else torch.as_tensor(noise, dtype=torch.float64)
    return understand(model.config, *consult(model, observation), drawn)


def consult(model: DSAC, observation: Any, mask: Mask = None) -> tuple[Tensor, Tensor, Tensor]:
    """Q [B, A], the actor's probabilities [B, A] and the temperature, in float64. The rest follows from these. `mask`
    says which actions are allowed."""
    encoded = torch.from_numpy(model.observations.encode(observation)).to(model.learner.device)
    pi_BA = boltzmann(exact(model.learner.policy_logits(encoded)), 1.0, mask)
    return exact(model.learner.q_values(encoded)), pi_BA, exact(model.learner.alpha)


def understand(config: Config, q_BA: Tensor, pi_BA: Tensor, alpha: Tensor, noise: Tensor | None = None) -> Insight:
    """As `look`, from Q, the actor's probabilities and the temperature. [B, A], [B, A], [] -> Insight."""
    q_BA, pi_BA, alpha = exact(q_BA), exact(pi_BA), exact(alpha)
    temperature = alpha.clamp(min=1e-30)  # 0 is allowed without a constraint; the surrogate is then the argmax
    wanted = noise_shape(config, *q_BA.shape)
    if noise is None:
        noise = torch.zeros(wanted, dtype=torch.float64)  # no noise, wherever it would go
    elif noise.shape[1:] != wanted[1:] or noise.dim() != len(wanted) or noise.shape[0] not in (1, len(q_BA)):
        raise ModelError(f"noise of shape {tuple(noise.shape)} does not fit; these states need the shape {wanted}")
    terms = constraint_terms(config, q_BA, pi_BA, temperature, noise)
    tempered = temperature if config.multiplier_form == "tempered" else torch.ones(())
    free = None
    if len(terms) == 1 and config.fixed_lambda is None:
        free = constraint_terms(config, q_BA, pi_BA, temperature, noise, FREE)
    return Insight(
        policy_BA=pi_BA.numpy(),
        q_BA=q_BA.numpy(),
        surrogate_BA=boltzmann(q_BA, temperature).numpy(),
        alpha=float(alpha),
        names=tuple(t.constraint.name for t in terms),
        target_BK=_columns([t.target_B for t in terms], len(q_BA)),
        lambda_BK=_columns([t.lam_B for t in terms], len(q_BA)),
        clipped_BA=_constrained(q_BA, terms, tempered).numpy() if terms else None,
        root_B=free[0].lam_B.numpy() if free else None,
        unclipped_BA=_constrained(q_BA, free, tempered).numpy() if free else None,
    )


def lambdas_under_noise(
    config: Config, q_BA: Tensor, pi_BA: Tensor, alpha: Tensor, noise_N: Array, mask: Mask = None
) -> Array:
    """Lambda per state and draw of noise; N draws, standard normal, [N] or [N, A]. -> [B, N, K].

    This is what an update would find. Training perturbs the targets; without noise lambda_1 is 0 everywhere.
    """
    count, draws = len(q_BA), len(noise_N)
    noise = torch.from_numpy(np.tile(noise_N, (count,) + (1,) * (noise_N.ndim - 1)))
    q_BA, pi_BA = q_BA.repeat_interleave(draws, dim=0), pi_BA.repeat_interleave(draws, dim=0)
    mask = None if mask is None else mask.repeat_interleave(draws, dim=0)
    terms = constraint_terms(config, q_BA, pi_BA, alpha, noise, mask=mask)
    return _columns([t.lam_B for t in terms], count * draws).reshape(count, draws, len(terms))


def _constrained(q_BA: Tensor, terms: list[Term], temperature: Tensor) -> Tensor:
    """pi(a|s) ∝ exp((Q - sum_k lambda_k f_k) / T): the policy under one constraint, or under both."""
    return boltzmann(q_BA - sum((t.lam_B[:, None] * t.f_BA for t in terms), torch.zeros_like(q_BA)), temperature)


def _columns(rows: list[Tensor], count: int) -> Array:
    return np.asarray(torch.stack(rows, dim=1)) if rows else np.zeros((count, 0))
