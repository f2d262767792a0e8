"""The student: an agent of ours whose networks learn to say, under augmentation, what the teacher says of the clean
picture."""

import torch
from torch import Tensor
from torch.nn import functional as F

from dsacc.dsac import DSAC
from dsacc.errors import TrainingDiverged
from dsacc.system.types import Array

VALUE_WEIGHT = 0.1  # of the values' loss beside the policy's


class Student:
    """Networks of `model`, trained by distillation; `rate` falls to 0 over `updates`.

    loss = KL(teacher || student) + 0.1 mean_i (Q_i - Q_i of the teacher)^2 / scale^2, per state; the second part only
    where the teacher has values. Unlike in RL, the policy trains a trunk that it shares with the critics.
    """

    def __init__(self, model: DSAC, rate: float, updates: int) -> None:
        self.model, self.rate, self.updates = model, rate, updates
        learner = self.learner = model.learner
        if learner.target_actor is not None:  # it starts from the networks that act
            learner.actor.load_state_dict(learner.target_actor.state_dict())
            learner.critics.load_state_dict(learner.target_critics.state_dict())
        for optimizer in (learner.actor_optimizer, learner.critic_optimizer, learner.alpha_optimizer):
            optimizer.state.clear()  # moments of the teacher's training say nothing about the student's networks
        self.parameters = [*learner.critics.parameters(), *learner.actor.parameters()]
        self.optimizer = torch.optim.Adam(self.parameters, lr=rate, fused=learner.device.type != "mps")

    def update(
        self, seen: Array, policy_BA: Array, q_2BA: Array | None, scale: float, update: int, clean: int
    ) -> dict[str, Tensor]:
        """One update from encoded observations [B, ...], of which the first `clean` are not augmented, and the
        teacher's answers. Returns what to log."""
        learner, device = self.learner, self.learner.device
        observation = learner.scaled(torch.from_numpy(seen).to(device))
        features = learner.critics.features(observation)
        encoder = learner.actor.encoder
        log_pi_BA = torch.log_softmax(learner.actor.head(features[0] if encoder is None else encoder(observation)), -1)
        target_BA = torch.from_numpy(policy_BA).to(device)
        divergence_B = F.kl_div(log_pi_BA, target_BA, reduction="none").sum(dim=-1)
        loss = divergence_B.mean()
        logged = {"divergence": loss.detach()}
        if q_2BA is not None:
            q_2BA_student = torch.stack(learner.critics.q_values(features))
            value_loss = ((q_2BA_student - torch.from_numpy(q_2BA).to(device)) / scale).square().mean()
            loss = loss + VALUE_WEIGHT * value_loss
            logged["value_loss"] = value_loss.detach()
        if not torch.isfinite(loss):
            raise TrainingDiverged(f"the student's loss became {loss.item()} at update {update}; please report this")
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.param_groups[0]["lr"] = self.rate * (1 - update / self.updates)
        self.optimizer.step()
        same_B = log_pi_BA.argmax(-1) == target_BA.argmax(-1)
        return logged | {"agreement": same_B[clean:].float().mean()}

    @torch.no_grad()
    def publish(self) -> None:
        """Copy what was learned to the networks that act, and to the target critics."""
        learner = self.learner
        learner.target_critics.load_state_dict(learner.critics.state_dict())
        if learner.target_actor is not None:
            learner.target_actor.load_state_dict(learner.actor.state_dict())

    def moments(self) -> dict[str, Array]:
        """The optimiser's state, by name."""
        state = self.optimizer.state_dict()["state"]
        return {f"{i}.{key}": value.cpu().numpy() for i, values in state.items() for key, value in values.items()}

    def load_moments(self, moments: dict[str, Array]) -> None:
        """The inverse of `moments`, in the memory order of the parameters."""
        state: dict[int, dict[str, Tensor]] = {}
        for name, array in moments.items():
            index, _, key = name.partition(".")
            value = torch.from_numpy(array.copy())
            moment = value.reshape(()) if key == "step" else torch.empty_like(self.parameters[int(index)]).copy_(value)
            state.setdefault(int(index), {})[key] = moment
        self.optimizer.load_state_dict({"state": state, "param_groups": self.optimizer.state_dict()["param_groups"]})
