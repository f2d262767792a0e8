"""What can be read from a player at a state: everything for our own agents, less for others."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

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


Reader = Callable[[Array], list[Readout]]  # from observations [B, ...] to B readouts, called after `act` with the same


def reader_of(player: Player) -> tuple[Player, Reader]:
    """The player that should play, and a function that reads it."""
    if isinstance(player, OwnPlayer) and isinstance(player.model, DSAC):
        return player, _dsac_reader(player.model)
    if isinstance(player, OwnPlayer):
        return player, lambda seen: [Readout(policy_A=row_A) for row_A in softmax(player.model.logits(seen))]
    if isinstance(player, RandomPlayer):
        return player, lambda seen: [Readout(policy_A=np.full(player.actions, 1 / player.actions))] * batch_size(seen)
    if isinstance(player, SB3Player):
        if player.algorithm in ("PPO", "A2C"):
            return player, lambda seen: [Readout(policy_A=row_A) for row_A in softmax(player.scores(seen))]
        return player, lambda seen: [Readout(q_A=row_A) for row_A in player.scores(seen)]
    if isinstance(player, OnnxPlayer):
        return player, lambda seen: _from_answer(player.answer(seen), batch_size(seen))
    if isinstance(player, CallablePlayer):
        return _recorded(player)
    if isinstance(player, BlindPlayer):
        inner, read = reader_of(player.player)
        blind = BlindPlayer(inner)
        return blind, lambda seen: read(blind.shown(seen))
    return player, lambda seen: [Readout()] * batch_size(seen)


def _dsac_reader(model: DSAC) -> Reader:
    c = model.config
    draws = 1 if c.perturbation == "none" or c.fixed_lambda is not None else DRAWS
    shape = noise_shape(c, 1, model.learner.actions)[1:]
    noise = np.random.default_rng(0).standard_normal((draws, *shape))
    chosen = constraints_of(c.constraint)

    def read(seen: Array) -> list[Readout]:
        q_BA, pi_BA, alpha = consult(model, seen)
        surrogate_BA = boltzmann(q_BA, alpha.clamp(min=1e-30))
        lambda_BNK = lambdas_under_noise(c, q_BA, pi_BA, alpha, noise)
        return [
            Readout(
                pi_BA[b].numpy(),
                surrogate_BA[b].numpy(),
                q_BA[b].numpy(),
                float(alpha),
                tuple((x.symbol, lambda_BNK[b, :, k]) for k, x in enumerate(chosen)),
            )
            for b in range(len(pi_BA))
        ]

    return read


def _recorded(player: CallablePlayer) -> tuple[Player, Reader]:
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
