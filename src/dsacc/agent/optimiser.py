"""Adam, and what is done around its steps: a loss must be finite, gradients are clipped, weights may decay."""

import math
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn

from dsacc.errors import TrainingDiverged


class Adam(torch.optim.Adam):
    """Adam over the parameters of one network. Before each step the weights `decayed` shrink by themselves:

        w <- (1 - rate * decay) w    (AdamW, Loshchilov and Hutter 2019), then Adam's step

    `clip` is the largest norm of the gradient of all parameters together; 0 is off.
    """

    def __init__(
        self,
        parameters: Iterable[Tensor],
        rate: float,
        eps: float,
        clip: float = 0.0,
        decay: float = 0.0,
        decayed: Sequence[Tensor] = (),
    ) -> None:
        trained = list(parameters)
        super().__init__(trained, lr=rate, eps=eps, fused=trained[0].device.type != "mps")
        self.trained, self.clip, self.rate, self.decay = trained, clip, rate, decay
        self.shrink, self.decayed = 1 - rate * decay, list(decayed) if decay > 0 else []

    def scale_rate(self, factor: float) -> None:
        """Make steps of `factor` times the rate that it was made with. What decays follows the rate."""
        self.param_groups[0]["lr"] = self.rate * factor
        self.shrink = 1 - self.rate * factor * self.decay

    def minimise(self, loss: Tensor, name: str) -> None:
        """One step. A loss that is not finite is refused before it reaches the weights."""
        require_finite(loss, name)
        self.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        if self.clip > 0:
            _clip(self.trained, self.clip)
        if self.decayed:
            with torch.no_grad():
                torch._foreach_mul_(self.decayed, self.shrink)
        self.step()

    def moments(self) -> dict[str, Tensor]:
        """Its state by name: `3.exp_avg` belongs to the fourth parameter."""
        state = self.state_dict()["state"]
        return {f"{index}.{key}": value for index, values in state.items() for key, value in values.items()}

    def load_moments(self, moments: dict[str, Tensor]) -> None:
        """The inverse of `moments`; what is missing begins anew.

        Each is laid out in memory like its parameter: the fused kernel reads both in one pass and does not check.
        """
        state: dict[int, dict[str, Tensor]] = {}
        for name, value in moments.items():
            index, _, key = name.partition(".")
            like = self.trained[int(index)]
            laid_out = value if value.dim() == 0 else torch.empty_like(like).copy_(value)
            state.setdefault(int(index), {})[key] = laid_out
        self.load_state_dict({"state": state, "param_groups": self.state_dict()["param_groups"]})


def matrices(network: nn.Module | None) -> list[Tensor]:
    """The weights of a network that may decay: those of its layers, not biases and not the gains of a normalisation.
    These shift and scale what a layer gives; to pull them towards 0 does not make it simpler."""
    return [] if network is None else [parameter for parameter in network.parameters() if parameter.dim() > 1]


def require_finite(x: Tensor, name: str) -> None:
    """Refuse a number that is infinite or not one, in a sentence for the user."""
    if not math.isfinite(x.item()):
        raise TrainingDiverged(
            f"{name} became {x.item()}, so the run stops here; its last checkpoint is kept. "
            "Try a smaller learning_rate, a grad_clip, or rewards of ordinary size"
        )


def _clip(parameters: list[Tensor], largest: float) -> None:
    """`nn.utils.clip_grad_norm_` to the bit, but gradients below the limit are not rewritten."""
    norm = nn.utils.get_total_norm([p.grad for p in parameters if p.grad is not None])
    if norm.item() + 1e-6 >= largest:
        nn.utils.clip_grads_with_norm_(parameters, largest, norm)
