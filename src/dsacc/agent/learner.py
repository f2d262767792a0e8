"""One gradient update, readable from top to bottom: critics, lambda, actor, temperature, then the target critics."""

import copy
import math
from functools import partial

import torch
from torch import Tensor

from dsacc.agent.batch import Batch
from dsacc.agent.constraints import constraint_terms, exact, noise_shape, report
from dsacc.agent.losses import chosen, clean_and_whole, loss_of_actor, loss_of_critics
from dsacc.agent.networks import Actor, Critics, initialise, seeded
from dsacc.agent.observation import ObservationSpec
from dsacc.agent.optimiser import Adam, matrices, require_finite
from dsacc.agent.resets import shrink_and_perturb
from dsacc.agent.scaling import scaled
from dsacc.agent.schedule import alpha_at, gamma_at, rate_factor_at
from dsacc.agent.temperature import ValueRange
from dsacc.config import Config
from dsacc.errors import ConfigError
from dsacc.maths import (
    Mask,
    bellman_target,
    boltzmann,
    combine_critics,
    expected_value,
    linear_schedule,
    n_step_return,
    natural_softmax,
    neutral,
    policy_of,
    soft_value,
    target_entropy,
    temperature_loss,
)

_OPTIMIZERS = ("actor_optimizer", "critic_optimizer", "alpha_optimizer")


class Learner:
    """Networks, optimisers and the update. It draws nothing: weights come from a generator, noise is passed in."""

    def __init__(
        self, config: Config, spec: ObservationSpec, actions: int, generator: torch.Generator, device: str = "cpu"
    ) -> None:
        if config.augment_pictures != "none" and spec.kind != "image":
            shows = "several inputs" if spec.kind == "dict" else "none"
            raise ConfigError(
                f"augment_pictures {config.augment_pictures} needs pictures, but this environment shows {shows}; "
                "leave augment_pictures at none"
            )
        self.config, self.spec, self.actions, self.device = config, spec, actions, torch.device(device)
        self.error_B: Tensor | None = None  # y - Q(s, a) in the last update, where the replay draws by it
        self.scaled = partial(scaled, centred=config.picture_filter != "none", spec=spec)
        self.critics, self.actor = self._new_networks(generator)
        self.target_critics = copy.deepcopy(self.critics).requires_grad_(False)
        self.target_actor = copy.deepcopy(self.actor).requires_grad_(False) if config.average_policy else None
        self._online_parameters: list[Tensor] = list(self.critics.parameters())
        self._target_parameters: list[Tensor] = list(self.target_critics.parameters())
        if self.target_actor is not None:
            self._online_parameters += self.actor.parameters()
            self._target_parameters += self.target_actor.parameters()
        start = config.initial_alpha if config.alpha is None else config.alpha
        self.log_alpha = torch.tensor(math.log(start) if start > 0 else -math.inf, device=self.device)
        self.log_alpha.requires_grad_(config.alpha is None)
        self.value_range = ValueRange(config, self.device) if config.alpha_scale == "range" else None
        if self.value_range is not None:
            self.log_alpha.add_(math.log(config.min_range))
        rates = (config.learning_rate, config.actor_learning_rate, config.alpha_learning_rate)
        critics, actor, alpha = (rate or config.learning_rate for rate in rates)
        eps, clip, decay = config.adam_eps, config.grad_clip, config.weight_decay
        own = config.actor_adam_eps or eps
        self.critic_optimizer = Adam(self.critics.parameters(), critics, eps, clip, decay, matrices(self.critics))
        # Not the actor's head: its logits have to reach Q / alpha, and pulling them back would be a second temperature.
        self.actor_optimizer = Adam(self.actor.parameters(), actor, own, clip, decay, matrices(self.actor.encoder))
        self.alpha_optimizer = Adam([self.log_alpha], alpha, own, clip)

    def _new_networks(self, generator: torch.Generator) -> tuple[Critics, Actor]:
        with seeded(self.config, generator):
            critics = Critics(self.config, self.spec, self.actions)
            actor = Actor(self.config, self.spec, self.actions, critics.width)
        for network in (critics, actor):
            initialise(network, generator)
            network.to(self.device)
        return critics, actor

    @property
    def alpha(self) -> Tensor:
        return self.log_alpha.detach().exp()

    def noise_shape(self) -> tuple[int, ...]:
        """Shape of the standard normal noise that `update` expects; empty where no constraint is perturbed."""
        c = self.config
        if c.constraint is None or c.perturbation == "none":
            return (0,)
        return noise_shape(c, c.batch_size, self.actions)

    def target_entropy(self, step: int, mask: Mask = None) -> float:
        """H_target at this agent step: constant, or a point of the linear schedule; with a mask, over its states."""
        c = self.config
        end = c.target_entropy_ratio if c.target_entropy_final is None else c.target_entropy_final
        ratio = linear_schedule(c.target_entropy_ratio, end, step / c.target_entropy_steps)
        return target_entropy(self.actions if mask is None else mask.cpu().sum(dim=-1), ratio)

    # --- acting ---

    @torch.no_grad()
    def policy_logits(self, observation: Tensor) -> Tensor:
        """The logits [B, A] of the policy that acts: the actor's, or those of its average."""
        if self.target_actor is None:
            return _logits(self.actor, self.critics, self.scaled(observation))
        return _logits(self.target_actor, self.target_critics, self.scaled(observation))

    @torch.no_grad()
    def q_values(self, observation: Tensor) -> Tensor:
        """The critics' Q [B, A], combined as the settings say."""
        q1_BA, q2_BA = self.critics(self.scaled(observation))
        return combine_critics(q1_BA, q2_BA, self.config.critics)

    # --- learning ---

    def update(
        self, batch: Batch[Tensor], noise: Tensor, step: int, augmented: Tensor | None = None
    ) -> dict[str, Tensor]:
        """One update from `batch`; `step` is the agent step, for schedules. Returns what to log.

        `augmented` [M, ...] are the first M observations of the minibatch, changed. The online networks see all
        S = B + M states in one pass and learn from all of them (`dsacc.maths.with_augmented`). Targets, the actor's Q,
        the constraints, the temperature and everything that is logged come from the B clean states alone.

        Where the batch has masks, every policy below is 0 for actions that its state does not allow. Where it has
        weights, because the replay draws by priorities, they enter the critics' loss alone.
        """
        c, alpha, states, mask = self.config, self.alpha, len(batch.action_B), batch.mask_BA
        gamma = gamma_at(c, step)
        self._set_rates(rate_factor_at(c, step), alpha)
        shown = self.scaled(batch.observation if augmented is None else torch.cat((batch.observation, augmented)))
        observation, next_observation = shown[:states], self.scaled(batch.next_observation)

        # 1. Critics: both regress to R + gamma^m (1 - terminated) V(s'). V comes from the target critics and the policy
        #    that acts.
        with torch.no_grad():
            next_features = self.target_critics.features(next_observation)
            next_q1_BA, next_q2_BA = self.target_critics.q_values(next_features)
            if self.target_actor is None:
                next_logits_BA = _logits(self.actor, self.critics, next_observation)
            else:  # its features were computed above
                next_logits_BA = self.target_actor(next_observation, next_features[0])
            next_pi_BA, next_log_pi_BA = policy_of(next_logits_BA, batch.next_mask_BA)
            next_q_BA = combine_critics(next_q1_BA, next_q2_BA, c.critics)
            next_v_B = soft_value(next_pi_BA, next_log_pi_BA, next_q_BA, alpha, c.critic_entropy)
            return_B = n_step_return(batch.rewards_BN, gamma)
            target_B = bellman_target(return_B, gamma**batch.steps_B, batch.terminated_B, next_v_B)
            anchors = () if c.q_clip == 0 else chosen(self.target_critics(observation), batch.action_B)
        features = self.critics.features(shown)
        outputs, bins = self.critics.outputs(features), self.critics.bins
        q1_SA, q2_SA = self.critics.values(outputs)
        loss = partial(loss_of_critics, c) if bins is None else bins.loss
        weight_B = torch.ones_like(target_B) if batch.weight_B is None else batch.weight_B
        clean_q_loss, q_loss = clean_and_whole(loss, outputs, (batch.action_B, target_B, weight_B, *anchors))
        if batch.slot_B is not None:
            q1_B, q2_B = chosen((q1_SA.detach()[:states], q2_SA.detach()[:states]), batch.action_B)
            self.error_B = target_B - (q1_B + q2_B) / 2
        self.critic_optimizer.minimise(q_loss, "critic_loss")

        # 2. Constraint: targets from the critics, noise, and lambda solved on this minibatch. Separate critics are
        #    evaluated again after their step. A shared trunk runs once, so its Q is the one before the step.
        if not c.shared_trunk:
            with torch.no_grad():
                q1_SA, q2_SA = self.critics(observation)
        q_BA = neutral(combine_critics(q1_SA, q2_SA, c.critics).detach()[:states], mask)
        mask_SA = mask if mask is None or augmented is None else torch.cat((mask, mask[: len(augmented)]))
        softmax = partial(natural_softmax, share=c.natural_share) if c.natural_gradient else policy_of
        pi_SA, log_pi_SA = softmax(self.actor(shown, features[0]), mask_SA)
        require_finite(q_BA.sum(), "Q")
        pi_BA = pi_SA.detach()[:states]
        terms = constraint_terms(c, q_BA, pi_BA, alpha, noise, mask=mask)

        # 3. Actor: gradient through pi alone; Q, targets, lambda, alpha and eps are constants.
        entropy_S = -(pi_SA * log_pi_SA).sum(dim=-1)
        known = (q_BA, batch.entropy_B) if mask is None else (q_BA, batch.entropy_B, mask)
        clean_pi_loss, pi_loss = clean_and_whole(
            partial(loss_of_actor, c, alpha, terms), (pi_SA, log_pi_SA, entropy_S), known
        )
        self.actor_optimizer.minimise(pi_loss, "actor_loss")

        # 4. Temperature: towards the target entropy, but not below its minimum; or with the range of the targets, or
        #    along its schedule, for the next update.
        entropy_B = entropy_S.detach()[:states]
        if c.alpha is None:
            alpha_loss = temperature_loss(self.log_alpha, entropy_B, self.target_entropy(step, mask))
            self.alpha_optimizer.minimise(alpha_loss, "alpha_loss")
            if c.min_alpha > 0:
                self.log_alpha.detach().clamp_(min=math.log(c.min_alpha))
        if self.value_range is not None:
            self.log_alpha.copy_(self.value_range.follow(target_B, alpha_at(c, step)).log())
        elif c.alpha_final is not None:
            self.log_alpha.fill_(math.log(alpha_at(c, step)))

        q64_BA = exact(q_BA)
        surrogate_BA = boltzmann(q64_BA, exact(alpha).clamp(min=1e-30), None if mask is None else mask.cpu())
        error_B = expected_value(exact(pi_BA), q64_BA) - expected_value(surrogate_BA, q64_BA)
        return {
            "critic_loss": clean_q_loss.detach(),
            "actor_loss": clean_pi_loss.detach(),
            "alpha": alpha,
            "entropy": entropy_B.mean(),
            "q_mean": (q_BA if mask is None else q_BA[mask]).mean(),
            "expected_error": error_B.abs().mean(),
            **({} if bins is None else {"targets_outside": bins.outside(target_B)}),
            **report(terms, pi_BA),
        }

    def _set_rates(self, factor: float, alpha: Tensor) -> None:
        """Learning rates at this step. Over alpha, a step of the actor's weights is one of Q's: they are those of Q,
        divided by alpha, so a constant rate would lag behind the critics the more, the lower the temperature."""
        c = self.config
        if c.learning_rate_final is not None:
            for name in _OPTIMIZERS:
                getattr(self, name).scale_rate(factor)
        if c.actor_rate_over_alpha:
            self.actor_optimizer.scale_rate(factor / alpha.item())

    @torch.no_grad()
    def update_targets(self) -> None:
        """5. Target critics, and the averaged actor: Polyak, theta' <- tau theta + (1 - tau) theta'."""
        torch._foreach_lerp_(self._target_parameters, self._online_parameters, self.config.target_tau)

    def reset(self, generator: torch.Generator) -> None:
        """Shrink and perturb all networks (`dsacc.agent.resets`), with new weights from `generator`.

        The target networks are treated alike. Unlike in BBF they get the same new weights: an average of networks with
        different heads would say nothing, and it is the average that acts.
        """
        critics, actor = self._new_networks(generator)
        for online, target, fresh, optimizer in (
            (self.critics, self.target_critics, critics, self.critic_optimizer),
            (self.actor, self.target_actor, actor, self.actor_optimizer),
        ):
            for parameter in shrink_and_perturb(online, fresh, self.config.reset_keep):
                optimizer.state.pop(parameter, None)
            if target is not None:
                shrink_and_perturb(target, fresh, self.config.reset_keep)

    # --- saving ---

    def _networks(self) -> list[str]:
        averaged = [] if self.target_actor is None else ["target_actor"]
        return ["actor", "critics", "target_critics", *averaged]

    def acting(self) -> tuple[str, ...]:
        """The prefixes of the names in `state` that acting depends on."""
        prefix = "" if self.target_actor is None else "target_"
        return f"{prefix}actor.", f"{prefix}critics.encoders."

    def state(self) -> dict[str, Tensor]:
        """Everything learned, by name: networks, temperature, optimisers."""
        out = self._temperature()
        for name in self._networks():
            out |= {f"{name}.{key}": value for key, value in getattr(self, name).state_dict().items()}
        for name in _OPTIMIZERS:
            out |= {f"{name}.{key}": value for key, value in getattr(self, name).moments().items()}
        return out

    def small_state(self) -> dict[str, Tensor]:
        """What plays, alone and in half precision: an eighth of `state`. `load_state` takes it too."""
        prefix = "" if self.target_actor is None else "target_"
        networks = tuple(f"{prefix}{name}." for name in ("actor", "critics"))
        kept = {name: value.half() for name, value in self.state().items() if name.startswith(networks)}
        return {**self._temperature(), **kept}

    def _temperature(self) -> dict[str, Tensor]:
        ranged = {} if self.value_range is None else {"value_range": self.value_range.average}
        return {"log_alpha": self.log_alpha.detach(), **ranged}

    def load_state(self, state: dict[str, Tensor]) -> None:
        """The inverse of `state`. Names and shapes must match; a KeyError or RuntimeError names one that does not.

        From a `small_state`, online and target networks begin alike, and the optimisers anew.
        """
        with torch.no_grad():
            for name, value in self._temperature().items():
                value.copy_(state[name])
        for name in self._networks():
            twin = name.removeprefix("target_") if name.startswith("target_") else f"target_{name}"
            getattr(self, name).load_state_dict(_below(state, name) or _below(state, twin))
        for name in _OPTIMIZERS:
            getattr(self, name).load_moments(_below(state, name))


def _logits(actor: Actor, critics: Critics, observation: Tensor) -> Tensor:
    """An actor's logits [B, A], from its own encoder or from the critics' encoder that it shares."""
    return actor(observation, critics.encoders[0](observation) if actor.encoder is None else observation)


def _below(state: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {key[len(prefix) + 1 :]: value for key, value in state.items() if key.startswith(prefix + ".")}
