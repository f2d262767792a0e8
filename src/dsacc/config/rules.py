"""Which settings go together. A combination that makes no sense is refused in one sentence."""

from dsacc.config.fields import Fields
from dsacc.config.names import check_encoder
from dsacc.errors import ConfigError
from dsacc.system.text import listed


def check(s: Fields) -> None:
    """Refuse settings that are fine each by itself and not together."""
    check_encoder(s.encoder)
    if s.alpha == 0 and s.constraint is not None:
        raise ConfigError(
            f"alpha 0 has no surrogate policy, which constraint {s.constraint!r} needs; "
            "use agent dsac, or an alpha above 0"
        )
    if s.alpha == 0 and s.surrogate_kl > 0:
        raise ConfigError("alpha 0 has no surrogate policy, which surrogate_kl needs; use an alpha above 0")
    if s.natural_gradient and s.surrogate_kl > 0:
        raise ConfigError(
            "surrogate_kl has no bounded natural gradient; turn natural_gradient off, or leave surrogate_kl at 0"
        )
    if not s.alpha:
        check_without_alpha(s)
    if s.actor_rate_over_alpha and not s.shared_trunk:
        raise ConfigError(
            "actor_rate_over_alpha is for an actor that is one layer on the critics' features; "
            "turn shared_trunk on, or actor_rate_over_alpha off"
        )
    if s.alpha is None and s.initial_alpha < s.min_alpha:
        raise ConfigError(f"initial_alpha {s.initial_alpha} is below min_alpha {s.min_alpha}")
    if s.augment_pictures != "none" and s.picture_filter != "none":
        raise ConfigError(
            "augment_pictures must change pictures before picture_filter does, but the replay memory keeps them "
            "filtered; leave augment_pictures at none and harden the trained agent instead"
        )
    if s.augment_pictures != "none" and s.augmented_states > s.batch_size:
        raise ConfigError(
            f"augmented_states {s.augmented_states} is more than batch_size {s.batch_size}; "
            "at most the whole minibatch can be shown a second time"
        )
    if s.critic_loss == "hl-gauss" and s.q_clip > 0:
        raise ConfigError("q_clip is for critics that give one number; leave it at 0 with critic_loss hl-gauss")
    if s.layer_norm and s.rescale_features:
        raise ConfigError("layer_norm takes the place of rescale_features; turn rescale_features off")
    largest = max(s.learning_rate, s.actor_learning_rate or 0.0)
    if s.weight_decay * largest >= 1:
        raise ConfigError(
            f"weight_decay {s.weight_decay:g} times the learning rate {largest:g} leaves nothing of the weights after "
            f"one update; 0.1 is usual"
        )
    check_schedules(s)


def check_without_alpha(s: Fields) -> None:
    """A temperature that is tuned, or 0, is neither scaled nor annealed, and no rate is divided by it."""
    changes = {
        f"alpha_scale {s.alpha_scale}": ("alpha_scale fixed", s.alpha_scale != "fixed"),
        f"alpha_final {s.alpha_final}": ("alpha_final none", s.alpha_final is not None),
        "actor_rate_over_alpha": ("actor_rate_over_alpha off", s.actor_rate_over_alpha),
    }
    wrong = [name for name, (_, there) in changes.items() if there]
    if wrong:
        what = "none tunes the temperature" if s.alpha is None else "0 is no temperature"
        right = [remedy for remedy, there in changes.values() if there]
        raise ConfigError(
            f"alpha {what}, which does not go with {listed(wrong)}; "
            f"give {listed(right)}, or an alpha above 0, such as 0.01"
        )


def check_schedules(s: Fields) -> None:
    """What changes in the course of a run must be possible at every step of it."""
    most = max(s.n_step, s.n_step_final or 1)
    if s.replay_size // s.envs < most + 1:
        raise ConfigError(
            f"replay_size {s.replay_size} for {s.envs} environment(s) cannot hold n_step {most} and a next state"
        )
    if s.anneal_end <= s.anneal_start:
        raise ConfigError(f"anneal_end {s.anneal_end} must come after anneal_start {s.anneal_start}")
    if s.gamma_final is not None and s.anneal_shape == "exponential" and max(s.gamma, s.gamma_final) == 1:
        raise ConfigError("gamma 1 has an infinite horizon, which cannot change by factors; use anneal_shape linear")
    if s.reset_until is not None and not s.reset_every:
        raise ConfigError(f"reset_until {s.reset_until} has no meaning without resets; give reset_every too")
