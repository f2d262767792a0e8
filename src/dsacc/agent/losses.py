"""The losses of critics and actor with every term that the settings ask for, over clean and over augmented states."""

from collections.abc import Callable, Sequence

from torch import Tensor

from dsacc.agent.constraints import Term, penalty
from dsacc.config import Config
from dsacc.maths import (
    Mask,
    actor_loss,
    clipped_critic_loss,
    critic_loss,
    entropy_penalty,
    surrogate_divergence,
    with_augmented,
)
from dsacc.maths.losses import CriticLoss


def clean_and_whole(
    loss: Callable[..., Tensor], said: Sequence[Tensor], known: Sequence[Tensor]
) -> tuple[Tensor, Tensor]:
    """A loss over the clean states, and over all states shown. Without augmented states they are the same.

    `said` is what the networks say, with one row per state shown: B clean states, then M augmented ones. `known` are
    constants with one row per clean state. The first M of these rows are used for the augmented states too.
    """
    shown, states = len(said[0]), len(known[0])
    if shown == states:
        whole = loss(*said, *known)
        return whole, whole
    clean = loss(*(x[:states] for x in said), *known)
    augmented = loss(*(x[states:] for x in said), *(x[: shown - states] for x in known))
    return clean, with_augmented(clean, augmented, states, shown - states)


def loss_of_critics(
    config: Config,
    q1_BA: Tensor,
    q2_BA: Tensor,
    action_B: Tensor,
    target_B: Tensor,
    weight_B: Tensor,
    *anchors: Tensor,
) -> Tensor:
    """Both critics' losses, added. `anchors` are the target critics' Q(s, a), which only `q_clip` needs."""
    predictions = chosen((q1_BA, q2_BA), action_B)
    kind: CriticLoss = "huber" if config.critic_loss == "huber" else "mse"  # bins have a loss of their own
    if config.q_clip == 0:
        losses = [critic_loss(p_B, target_B, kind, weight_B) for p_B in predictions]
    else:
        losses = [
            clipped_critic_loss(p_B, target_B, a_B, config.q_clip, kind, weight_B)
            for p_B, a_B in zip(predictions, anchors, strict=True)
        ]
    return losses[0] + losses[1]


def chosen(critics: tuple[Tensor, Tensor], action_B: Tensor) -> tuple[Tensor, Tensor]:
    """Both critics' Q(s, a) of the actions taken. [B, A] each -> [B] each."""
    q1_B, q2_B = (q_BA.gather(1, action_B[:, None]).squeeze(1) for q_BA in critics)
    return q1_B, q2_B


def loss_of_actor(
    config: Config,
    alpha: Tensor,
    terms: list[Term],
    pi_BA: Tensor,
    log_pi_BA: Tensor,
    entropy_B: Tensor,
    q_BA: Tensor,
    old_entropy_B: Tensor,
    mask: Mask = None,
) -> Tensor:
    """The actor's loss with the penalties of its constraints and the optional terms; the gradient is through pi.

    `mask` is what the states allow. pi is 0 elsewhere already, but the surrogate is made here.
    """
    loss = actor_loss(pi_BA, log_pi_BA, q_BA, alpha) + penalty(terms, pi_BA)
    if config.entropy_penalty > 0:
        loss = loss + config.entropy_penalty * entropy_penalty(entropy_B, old_entropy_B)
    if config.surrogate_kl > 0:
        loss = loss + config.surrogate_kl * surrogate_divergence(log_pi_BA, q_BA, alpha, mask)
    return loss
