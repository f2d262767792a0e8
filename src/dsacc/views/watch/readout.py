"""What can be read from a player at a state: everything for our own agents, less for others."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from dsacc.agent.constraints import constraints_of, noise_shape
from dsacc.dsac import DSAC
from dsacc.envs import batch_size
from dsacc.maths import boltzmann
from dsacc.play.adapters import BlindPlayer, CallablePlayer, OnnxPlayer, OwnPlayer, Player, RandomPlayer, SB3Player
from dsacc.system.types import Array
from dsacc.views.insight import consult, lambdas_under_noise

DRAWS = 64  # of the constraint's noise; the same at every state, so that only the state makes lambda move


@dataclass(frozen=True)
class Readout:
    """What is known about a player at one state; None where it is not known."""

    policy_A: Array | None = None  # the probabilities it samples from: the actor's pi_phi
    surrogate_A: Array | None = None  # pi_theta = softmax(Q / alpha)
    q_A: Array | None = None
    alpha: float | None = None
    lambda_KN: tuple[tuple[str, Array], ...] = ()  # name and values of each multiplier, one value per draw of noise
    allowed_A: Array | None = None  # the environment's mask

    def among(self, mask_A: Array) -> "Readout":
        """The same with all probability on what the mask allows, as it is played."""
        policy_A, surrogate_A = (_share(x_A, mask_A) for x_A in (self.policy_A, self.surrogate_A))
        return replace(self, allowed_A=mask_A, policy_A=policy_A, surrogate_A=surrogate_A)


# From observations [B, ...], and masks where there are some, to B readouts. Called after `act` with the same.
Reader = Callable[[Array, Array | None], list[Readout]]


def masked_reader(read: Callable[[Array], list[Readout]]) -> Reader:
    """For a player that knows nothing of masks: its policy, restricted afterwards."""

    def reader(seen: Array, masks: Array | None = None) -> list[Readout]:
        found = read(seen)
        return found if masks is None else [one.among(mask_A) for one, mask_A in zip(found, masks, strict=True)]

    return reader


def _share(policy_A: Array | None, mask_A: Array) -> Array | None:
    """A softmax over fewer actions is the softmax over all, scaled up again."""
    if policy_A is None:
        return None
    kept_A = np.where(mask_A, policy_A, 0.0)
    if not kept_A.any():  # all of it has underflowed
        kept_A = mask_A.astype(float)
    return np.asarray(kept_A / kept_A.sum())


def reader_of(player: Player) -> tuple[Player, Reader]:
    """The player that should play, and a function that reads it."""
    if isinstance(player, OwnPlayer) and isinstance(player.model, DSAC):
        return player, _dsac_reader(player.model)
    if isinstance(player, BlindPlayer):
        inner, reads = reader_of(player.player)
        blind = BlindPlayer(inner)
        return blind, lambda seen, masks=None: reads(blind.shown(seen), masks)
    plays, read = _plain_reader(player)
    return plays, masked_reader(read)


def _plain_reader(player: Player) -> tuple[Player, Callable[[Array], list[Readout]]]:
    if isinstance(player, OwnPlayer):
        return player, lambda seen: [Readout(policy_A=row_A) for row_A in softmax(player.model.logits(seen))]
    if isinstance(player, RandomPlayer):
        return player, lambda seen: [Readout(policy_A=np.full(player.actions, 1 / player.actions))] * batch_size(seen)
    if isinstance(player, SB3Player):
        if player.has_policy:
            return player, lambda seen: [Readout(policy_A=row_A) for row_A in softmax(player.scores(seen))]
        return player, lambda seen: [Readout(q_A=row_A) for row_A in player.scores(seen)]
    if isinstance(player, OnnxPlayer):
        return player, lambda seen: _from_answer(player.answer(seen), batch_size(seen))
    if isinstance(player, CallablePlayer):
        return _recorded(player)
    return player, lambda seen: [Readout()] * batch_size(seen)


def _dsac_reader(model: DSAC) -> Reader:
    c = model.config
    draws = 1 if c.perturbation == "none" or c.fixed_lambda is not None else DRAWS
    shape = noise_shape(c, 1, model.learner.actions)[1:]
    noise = np.random.default_rng(0).standard_normal((draws, *shape))
    chosen = constraints_of(c.constraint)

    def read(seen: Array, masks: Array | None = None) -> list[Readout]:
        mask = None if masks is None else torch.from_numpy(masks)
        q_BA, pi_BA, alpha = consult(model, seen, mask)
        surrogate_BA = boltzmann(q_BA, alpha.clamp(min=1e-30), mask)
        lambda_BNK = lambdas_under_noise(c, q_BA, pi_BA, alpha, noise, mask)
        return [
            Readout(
                pi_BA[b].numpy(),
                surrogate_BA[b].numpy(),
                q_BA[b].numpy(),
                float(alpha),
                tuple((x.symbol, lambda_BNK[b, :, k]) for k, x in enumerate(chosen)),
                None if masks is None else masks[b],
            )
            for b in range(len(pi_BA))
        ]

    return read


def _recorded(player: CallablePlayer) -> tuple[Player, Callable[[Array], list[Readout]]]:
    """A function is called once per step, as in an evaluation, because it may be slow or have a memory."""
    last: list[Any] = [None]

    def function(observations: Array) -> Any:
        last[0] = player.function(observations)
        return last[0]

    return CallablePlayer(function, player.agent), lambda seen: _from_answer(last[0], batch_size(seen))


def _from_answer(answer: Any, count: int) -> list[Readout]:
    """Scores become the policy that is sampled from. A chosen action says nothing about the others."""
    scores = np.asarray(answer)[:count]
    if scores.ndim == 2 and np.issubdtype(scores.dtype, np.floating) and np.isfinite(scores.max(axis=1)).all():
        return [Readout(policy_A=row_A) for row_A in softmax(scores.astype(np.float64))]
    return [Readout()] * count


def softmax(scores_BA: Array) -> Array:
    weights_BA = np.exp(scores_BA - scores_BA.max(axis=1, keepdims=True))
    shares_BA: Array = weights_BA / weights_BA.sum(axis=1, keepdims=True)
    return shares_BA
