"""What a teacher says about a state: the probability of each action, and Q where it has one."""

from dataclasses import dataclass

import numpy as np
import torch

from dsacc.dsac import DSAC
from dsacc.errors import ConfigError
from dsacc.play.adapters import BlindPlayer, CallablePlayer, OnnxPlayer, OwnPlayer, Player, RandomPlayer, SB3Player
from dsacc.play.adapters.base import scores_from
from dsacc.system.types import Array

CHUNK = 64  # observations at once
SHARPNESS = 0.1  # temperature of a policy that is made from values, in units of the mean distance of the best action


@dataclass(frozen=True)
class Answers:
    """A teacher's answers to N states."""

    policy_NA: Array  # probabilities, float32
    q_2NA: Array | None  # of its two critics, or twice its one Q; float32


class Teacher:
    """A player that is asked about clean observations.

    - An agent of ours answers with its policy and both critics.
    - PPO and A2C of Stable-Baselines3 answer with their policy. DQN and QR-DQN have values alone.
    - A function or an ONNX graph answers with actions, which become certain, or with scores. Scores count as logits, as
      in `evaluate`; with `values` they count as Q.

    From values the policy is softmax(Q / T). T is a tenth of the mean distance between the best and the mean Q over the
    first states, so it does not depend on the scale of rewards: nearly greedy, but two equally good actions stay equal.
    """

    def __init__(self, player: Player, actions: int, values: bool = False) -> None:
        if isinstance(player, RandomPlayer | BlindPlayer):
            raise ConfigError(f"{player.agent} does not look at what it plays, so it has no score to keep")
        self.player, self.actions = player, actions
        self.values = values or (isinstance(player, SB3Player) and player.algorithm in ("DQN", "QRDQN"))
        self.temperature: float | None = None  # of a policy that is made from values; set by the first answers
        model = player.model if isinstance(player, OwnPlayer) else None
        self.model = model if isinstance(model, DSAC) else None
        if values and self.model is not None:
            raise ConfigError("values is for functions and ONNX graphs: an agent of dsacc has a policy and values")

    def answer(self, observations: Array) -> Answers:
        """The answers to raw observations [N, ...]."""
        parts = [self._ask(observations[i : i + CHUNK]) for i in range(0, len(observations), CHUNK)]
        scores_NA = np.concatenate([scores for scores, _ in parts])
        if self.values:
            return Answers(self._from_values(scores_NA), np.stack([scores_NA, scores_NA]).astype(np.float32))
        q_2NA = None if parts[0][1] is None else np.concatenate([q for _, q in parts if q is not None], axis=1)
        return Answers(_softmax(scores_NA), q_2NA)

    def _from_values(self, q_NA: Array) -> Array:
        if self.temperature is None:
            distance = float(np.mean(q_NA.max(axis=1) - q_NA.mean(axis=1)))
            self.temperature = max(SHARPNESS * distance, 1e-8)
        return _softmax(q_NA / self.temperature)

    def _ask(self, observations: Array) -> tuple[Array, Array | None]:
        """Scores [B, A] in float64, and the critics' Q [2, B, A] where the agent is ours."""
        player = self.player
        if self.model is not None:
            return self.model.logits(observations), _critics(self.model, observations)
        if isinstance(player, SB3Player):
            return player.scores(observations), None
        if isinstance(player, OwnPlayer):
            return player.model.logits(observations), None
        if isinstance(player, OnnxPlayer | CallablePlayer):
            answer = player.answer(observations)
        else:
            answer = player.act(observations, [np.random.default_rng(0)] * len(observations), greedy=True)
        if self.values and np.ndim(answer) == 1:
            raise ConfigError(f"{player.agent} answers with actions, which are not values; leave values out")
        return scores_from(answer, len(observations), self.actions, player.agent), None


@torch.no_grad()
def _critics(model: DSAC, observations: Array) -> Array:
    """Q_1 and Q_2 of the networks that act, [2, B, A]."""
    learner = model.learner
    critics = learner.critics if learner.target_actor is None else learner.target_critics
    seen = torch.from_numpy(model.observations.encode(observations)).to(learner.device)
    return torch.stack(critics(learner.scaled(seen))).cpu().numpy()


def _softmax(scores_NA: Array) -> Array:
    weights = np.exp(scores_NA - scores_NA.max(axis=1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True), np.float32)
