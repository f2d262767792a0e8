"""One update of discrete SAC in the paper's setting, by `dsacc`, a plain reference and other libraries, side by side.

Batch 64, uint8 pictures 84x84x4, 18 actions, three separate Nature CNNs, Adam, a tuned temperature, no gradient
clipping. Everyone does the same work in the same order: the target from the target critics and the online actor; both
critics' steps; the critics once more, as they are now, for the actor's step; the temperature's step. Copying critics
into targets happens every 8,000 agent steps in this setting and is left out for all. Medians over interleaved repeats:
this way noise from the machine falls on all alike. What still differs is said at each contender.
"""

import argparse
import statistics
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
from reference import DiscreteSAC, NatureCNN, Transitions
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn
from update import ACTIONS, BATCH, PICTURE, make_batch, timed

from dsacc.agent import Batch, Learner, ObservationSpec
from dsacc.config import make_config

Update = Callable[[], object]
PAPER = make_config("paper")
TARGET_ENTROPY = PAPER.target_entropy_ratio * float(np.log(ACTIONS))
BASELINE, WARM_UPS = "dsac", 2
ONE_TRUNK = {"preset": "efficient", "constraint": "mean"}


def dsacc_update(batch: Batch, **settings: Any) -> Update:
    """`Learner.update`. On top of the work above it refuses losses that are not finite and measures what it logs."""
    config = make_config(**{"preset": "paper", "batch_size": BATCH, **settings})
    learner = Learner(config, ObservationSpec("image", PICTURE), ACTIONS, torch.Generator().manual_seed(0))
    noise = torch.from_numpy(np.random.default_rng(0).standard_normal(learner.noise_shape()))
    return lambda: learner.update(batch, noise, 0)


def reference_update(batch: Batch) -> Update:
    """The same equations in ordinary torch; the only extra is the sampling of actions, as such scripts do it."""
    agent = DiscreteSAC(ACTIONS)
    transitions = Transitions(
        batch.observation, batch.action_B, batch.rewards_BN[:, 0], batch.terminated_B, batch.next_observation
    )
    return lambda: agent.update(transitions)


def torchrl_update(vmap: bool, batch: Batch) -> Update:
    """TorchRL's `DiscreteSACLoss`, its twin critics evaluated by vmap (its default) or one by one.

    Changed: its `forward` computes all three losses before anyone's step, so the actor would see stale critics; here
    its own three parts are called between the steps. That is as many network passes as in `forward`, no more.
    Set: squared error instead of smooth L1; the preset's target entropy.
    Left out: priorities written for replay, the output TensorDict, the target updater's step.
    Left as it is: the minimum of the critics (a reduction of [2, B, A], as cheap as the average); log alpha instead of
    alpha in the temperature's loss. It samples no actions.
    """
    from tensordict import TensorDict
    from tensordict.nn import TensorDictModule
    from torch.distributions import Categorical
    from torchrl.data import Categorical as CategoricalSpec
    from torchrl.modules import ProbabilisticActor
    from torchrl.objectives import DiscreteSACLoss, HardUpdate, ValueEstimators

    def network(out_key: str) -> TensorDictModule:
        return TensorDictModule(NatureCNN(PICTURE[0], ACTIONS), in_keys=["observation"], out_keys=[out_key])

    spec = CategoricalSpec(ACTIONS)
    actor = ProbabilisticActor(
        network("logits"), in_keys=["logits"], out_keys=["action"], spec=spec, distribution_class=Categorical
    )
    loss = DiscreteSACLoss(
        actor,
        network("action_value"),
        action_space=spec,
        num_actions=ACTIONS,
        loss_function="l2",
        target_entropy=TARGET_ENTROPY,
        deactivate_vmap=not vmap,
    )
    loss.make_value_estimator(ValueEstimators.TD0, gamma=PAPER.gamma)
    HardUpdate(loss, value_network_update_interval=PAPER.target_every)  # made, never stepped: the loss asks for one

    def adam(parameters: Any) -> torch.optim.Adam:
        return torch.optim.Adam(parameters, lr=PAPER.learning_rate, eps=PAPER.adam_eps)

    critic_optimizer = adam(loss.qvalue_network_params.values(include_nested=True, leaves_only=True))
    actor_optimizer = adam(loss.actor_network_params.values(include_nested=True, leaves_only=True))
    alpha_optimizer = adam([loss.log_alpha])
    terminated = batch.terminated_B[:, None].bool()
    after = {
        "observation": batch.next_observation,
        "reward": batch.rewards_BN,
        "done": terminated,
        "terminated": terminated,
    }
    data = TensorDict({"observation": batch.observation, "action": batch.action_B, "next": after}, [len(terminated)])

    def minimise(value: Tensor, optimizer: torch.optim.Optimizer) -> float:
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
        return value.item()

    def update() -> dict[str, float]:
        critic_loss = minimise(loss.qvalue_loss(data)[0], critic_optimizer)
        actor_loss, report = loss.actor_loss(data)
        losses = {"critic_loss": critic_loss, "actor_loss": minimise(actor_loss, actor_optimizer)}
        minimise(loss.alpha_loss(report["log_prob"]).mean(), alpha_optimizer)
        return losses | {"entropy": -report["log_prob"].mean().item()}

    return update


class _ArrayCritic(nn.Module):
    """A network with what Tianshou asks of a critic: arrays go in."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, obs: np.ndarray) -> Tensor:
        return self.network(torch.as_tensor(obs))


class _ArrayActor(_ArrayCritic):
    """A network with what Tianshou asks of an actor: arrays go in, and the state of a recurrent network, passed on."""

    def forward(self, obs: np.ndarray, state: Any = None, info: Any = None) -> tuple[Tensor, Any]:
        return super().forward(obs), state


def tianshou_update(batch: Batch) -> Update:
    """Tianshou's `DiscreteSAC`, by its `update` from a replay buffer that holds the batch and nothing else.

    It already works in the order above, each critic with an optimiser of its own.
    Left out: its Polyak averaging of the targets after every update.
    Set: Adam's epsilon and the target entropy of the preset; networks that take uint8 and scale in torch, which is
    less work than its own Atari wrapper's division in NumPy's float64.
    Left as it is: the minimum of the critics; log alpha in the temperature's loss; sampling actions; the n-step return
    in NumPy. Two copies of the batch out of the buffer are part of its `update`, well under 1 % of it.
    """
    from gymnasium.spaces import Discrete
    from tianshou.algorithm.modelfree.discrete_sac import DiscreteSAC as TianshouSAC
    from tianshou.algorithm.modelfree.discrete_sac import DiscreteSACPolicy
    from tianshou.algorithm.modelfree.sac import AutoAlpha
    from tianshou.algorithm.optim import AdamOptimizerFactory
    from tianshou.data import Batch as TianshouBatch
    from tianshou.data import ReplayBuffer
    from tianshou.utils.torch_utils import policy_within_training_step

    class FixedTargets(TianshouSAC):
        def _update_lagged_network_weights(self) -> None:
            pass

    def network() -> NatureCNN:
        return NatureCNN(PICTURE[0], ACTIONS)

    adam = AdamOptimizerFactory(lr=PAPER.learning_rate, eps=PAPER.adam_eps)
    algorithm = FixedTargets(
        policy=DiscreteSACPolicy(actor=_ArrayActor(network()), action_space=Discrete(ACTIONS)),
        policy_optim=adam,
        critic=_ArrayCritic(network()),
        critic_optim=adam,
        critic2=_ArrayCritic(network()),
        gamma=PAPER.gamma,
        alpha=AutoAlpha(TARGET_ENTROPY, 0.0, adam),
    )
    buffer = ReplayBuffer(size=len(batch.action_B))
    for i in range(len(batch.action_B)):
        buffer.add(
            TianshouBatch(
                obs=batch.observation[i].numpy(),
                act=batch.action_B[i].item(),
                rew=batch.rewards_BN[i, 0].item(),
                terminated=bool(batch.terminated_B[i]),
                truncated=False,
                obs_next=batch.next_observation[i].numpy(),
                info={},
            )
        )

    def update() -> object:
        with policy_within_training_step(algorithm.policy):
            return algorithm.update(buffer, sample_size=0)  # 0: all of it, in order

    return update


@dataclass(frozen=True)
class Contender:
    """A row of the table; `build` imports its package only when called."""

    package: str
    build: Callable[..., Update]


CONTENDERS = {
    BASELINE: Contender("dsacc", dsacc_update),
    "dsac-m": Contender("dsacc", partial(dsacc_update, constraint="mean")),
    "reference": Contender("torch", reference_update),
    "torchrl": Contender("torchrl", partial(torchrl_update, True)),
    "torchrl-loop": Contender("torchrl", partial(torchrl_update, False)),
    "tianshou": Contender("tianshou", tianshou_update),
    # Not the same work: what one trunk for actor and critics saves, at the same batch.
    "dsac-m, one Nature trunk": Contender("dsacc", partial(dsacc_update, **ONE_TRUNK, encoder="nature", hidden=512)),
    "dsac-m, one compact trunk": Contender("dsacc", partial(dsacc_update, **ONE_TRUNK)),
}


def measure(calls: dict[str, Update], repeats: int) -> dict[str, list[float]]:
    """Milliseconds of every call, all contenders once a repeat; the first calls, which make buffers, do not count."""
    for call in calls.values():
        for _ in range(WARM_UPS):
            call()
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(repeats):
        for name, call in calls.items():
            times[name].append(timed(call))
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=15, help="interleaved repeats (default: 15)")
    parser.add_argument("--threads", type=int, default=1, help="threads (default: 1)")
    parser.add_argument(
        "--only", nargs="+", choices=CONTENDERS, default=list(CONTENDERS), metavar="NAME", help=", ".join(CONTENDERS)
    )
    args = parser.parse_args()
    chosen = {name: contender for name, contender in CONTENDERS.items() if name in args.only}
    present = {name: contender for name, contender in chosen.items() if find_spec(contender.package) is not None}
    batch = make_batch(np.random.default_rng(0))
    torch.manual_seed(0)
    # Everyone is given the memory order that its own replay hands out: channels last here, channels first elsewhere.
    usual = replace(
        batch, observation=batch.observation.contiguous(), next_observation=batch.next_observation.contiguous()
    )
    calls = {name: c.build(batch if c.package == "dsacc" else usual) for name, c in present.items()}
    torch.set_num_threads(args.threads)  # after the imports, so that no library has the last word
    times = measure(calls, args.repeats)
    median = {name: statistics.median(values) for name, values in times.items()}

    table = Table(
        title=f"one update: batch {BATCH}, {ACTIONS} actions, Nature CNNs, {args.threads} thread(s), "
        f"{args.repeats} repeats"
    )
    for column in ("name", "package"):
        table.add_column(column)
    for column in ("median ms", "fastest ms", f"median / {BASELINE}"):
        table.add_column(column, justify="right")
    for name, contender in chosen.items():
        if name not in present:
            table.add_row(name, f"{contender.package}, not installed", "", "", "")
            continue
        ratio = f"{median[name] / median[BASELINE]:.2f}" if BASELINE in median else ""
        release = f"{contender.package} {version(contender.package)}"
        table.add_row(name, release, f"{median[name]:.1f}", f"{min(times[name]):.1f}", ratio)
    Console().print(table)


if __name__ == "__main__":
    main()
