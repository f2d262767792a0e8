"""The equations of the method as pure functions: tensors in, tensors out, one equation each. Noise is an argument."""

from dsacc.maths.categorical import bin_centres, bin_edges, bin_loss, expected_bin, gaussian_bins
from dsacc.maths.losses import (
    actor_loss,
    clipped_critic_loss,
    constraint_penalty,
    critic_loss,
    entropy_penalty,
    surrogate_divergence,
    temperature_loss,
    with_augmented,
)
from dsacc.maths.masks import Mask, allowed_mean, neutral
from dsacc.maths.moments import Targets, expected_value, expected_variance, perturbed_targets, spread
from dsacc.maths.multipliers import joint_multipliers, mean_multiplier, variance_multiplier
from dsacc.maths.newton import Solution
from dsacc.maths.policies import (
    boltzmann,
    entropy,
    exponential_schedule,
    linear_schedule,
    mean_constrained,
    natural_softmax,
    policy_of,
    target_entropy,
    variance_constrained,
)
from dsacc.maths.values import bellman_target, combine_critics, dueling, n_step_return, soft_value, value_range

__all__ = [
    "Mask",
    "Solution",
    "Targets",
    "actor_loss",
    "allowed_mean",
    "bellman_target",
    "bin_centres",
    "bin_edges",
    "bin_loss",
    "boltzmann",
    "clipped_critic_loss",
    "combine_critics",
    "constraint_penalty",
    "critic_loss",
    "dueling",
    "entropy",
    "entropy_penalty",
    "expected_bin",
    "expected_value",
    "expected_variance",
    "exponential_schedule",
    "gaussian_bins",
    "joint_multipliers",
    "linear_schedule",
    "mean_constrained",
    "mean_multiplier",
    "n_step_return",
    "natural_softmax",
    "neutral",
    "perturbed_targets",
    "policy_of",
    "soft_value",
    "spread",
    "surrogate_divergence",
    "target_entropy",
    "temperature_loss",
    "value_range",
    "variance_constrained",
    "variance_multiplier",
    "with_augmented",
]
