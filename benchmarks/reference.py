"""Discrete SAC in the paper's Atari setting, written plainly: what `dsacc` is compared with, in time and in numbers.

The shape of a single-file script as CleanRL's, from the equations, with torch alone and no thought for speed. Where
CleanRL and the paper part, it follows the paper: critics averaged instead of their minimum, actions summed instead of
averaged. `tests/benchmarks/test_reference.py` holds it and `dsacc.agent.Learner` to the same numbers.
"""

import copy
import math
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.distributions import Categorical
from torch.nn import functional as F


class Transitions(NamedTuple):
    """A minibatch as a replay buffer hands it over: pictures uint8 [B, C, 84, 84], actions int64 [B], the rest [B]."""

    observations: Tensor
    actions: Tensor
    rewards: Tensor
    terminated: Tensor
    next_observations: Tensor


class NatureCNN(nn.Module):
    """Mnih 2015: pictures with values in 0..255 to one number an action. Every network scales the pictures itself."""

    def __init__(self, channels: int, actions: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(channels, 32, kernel_size=8, stride=4),
            nn.ReLU(),
            nn.Conv2d(32, 64, kernel_size=4, stride=2),
            nn.ReLU(),
            nn.Conv2d(64, 64, kernel_size=3, stride=1),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(64 * 7 * 7, 512),
            nn.ReLU(),
            nn.Linear(512, actions),
        )
        for layer in self.layers:
            if isinstance(layer, (nn.Conv2d, nn.Linear)):
                nn.init.kaiming_normal_(layer.weight)
                nn.init.zeros_(layer.bias)

    def forward(self, observations: Tensor) -> Tensor:
        return self.layers(observations / 255.0)


class Actor(NatureCNN):
    """The policy; its one method serves acting and learning alike, so the update samples actions that it drops."""

    def get_action(self, observations: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """A sampled action [B], and log pi and pi of all actions [B, A]."""
        logits = self(observations)
        policy = Categorical(logits=logits)
        return policy.sample(), F.log_softmax(logits, dim=1), policy.probs


class DiscreteSAC:
    """Actor, twin critics, their targets, the tuned temperature and one Adam each for actor, critics, temperature."""

    def __init__(
        self,
        actions: int,
        channels: int = 4,
        gamma: float = 0.99,
        learning_rate: float = 3e-4,
        adam_eps: float = 1e-4,
        target_entropy_ratio: float = 0.89,
    ) -> None:
        self.gamma = gamma
        self.target_entropy = target_entropy_ratio * math.log(actions)
        self.actor = Actor(channels, actions)
        self.q1, self.q2 = NatureCNN(channels, actions), NatureCNN(channels, actions)
        self.q1_target, self.q2_target = copy.deepcopy(self.q1), copy.deepcopy(self.q2)
        self.log_alpha = torch.zeros(1, requires_grad=True)
        self.alpha = 1.0
        q_parameters = [*self.q1.parameters(), *self.q2.parameters()]
        self.q_optimizer = torch.optim.Adam(q_parameters, lr=learning_rate, eps=adam_eps)
        self.actor_optimizer = torch.optim.Adam(self.actor.parameters(), lr=learning_rate, eps=adam_eps)
        self.alpha_optimizer = torch.optim.Adam([self.log_alpha], lr=learning_rate, eps=adam_eps)

    def update(self, batch: Transitions) -> dict[str, float]:
        """One update of critics, actor and temperature, in this order. Returns what a script would log."""
        observations, next_observations = batch.observations.float(), batch.next_observations.float()
        alpha = self.alpha

        # Critics.
        with torch.no_grad():
            _, next_log_pi, next_pi = self.actor.get_action(next_observations)
            next_q = (self.q1_target(next_observations) + self.q2_target(next_observations)) / 2
            next_value = (next_pi * (next_q - alpha * next_log_pi)).sum(dim=1)
            target = batch.rewards + (1 - batch.terminated) * self.gamma * next_value
        actions = batch.actions.unsqueeze(1)
        q1_taken = self.q1(observations).gather(1, actions).squeeze(1)
        q2_taken = self.q2(observations).gather(1, actions).squeeze(1)
        q_loss = F.mse_loss(q1_taken, target) + F.mse_loss(q2_taken, target)
        self.q_optimizer.zero_grad()
        q_loss.backward()
        self.q_optimizer.step()

        # Actor, against the critics as they are after their step.
        _, log_pi, pi = self.actor.get_action(observations)
        with torch.no_grad():
            q = (self.q1(observations) + self.q2(observations)) / 2
        actor_loss = (pi * (alpha * log_pi - q)).sum(dim=1).mean()
        self.actor_optimizer.zero_grad()
        actor_loss.backward()
        self.actor_optimizer.step()

        # Temperature.
        entropy = -(pi * log_pi).sum(dim=1).mean().detach()
        alpha_loss = (self.log_alpha.exp() * (entropy - self.target_entropy)).sum()
        self.alpha_optimizer.zero_grad()
        alpha_loss.backward()
        self.alpha_optimizer.step()
        self.alpha = self.log_alpha.exp().item()

        return {
            "critic_loss": q_loss.item(),
            "actor_loss": actor_loss.item(),
            "alpha": alpha,
            "entropy": entropy.item(),
        }

    def update_targets(self) -> None:
        """The targets become the critics; every 8,000 agent steps in the paper's setting."""
        self.q1_target.load_state_dict(self.q1.state_dict())
        self.q2_target.load_state_dict(self.q2.state_dict())
