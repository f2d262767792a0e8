"""The settings as editors and mypy see them, and answers to the names that other libraries give them.

`dsacc.config.Config` is where a setting is defined: default, range, help. Type checkers read keyword arguments from
a list in the source alone, so the names and types are here once more; a test compares them with `Config`.
"""

from typing import Literal, TypedDict


class Settings(TypedDict, total=False):
    """Keywords of `DSAC(env, ...)`: every field of `Config` that is not an argument of its own."""

    envs: int
    random_steps: int
    replay_size: int
    replay_compression: Literal["none", "lz4"]
    train_every: int
    updates: int
    batch_size: int
    n_step: int
    gamma: float
    n_step_final: int | None
    gamma_final: float | None
    learning_rate_final: float | None
    anneal_start: int
    anneal_end: int
    anneal_shape: Literal["exponential", "linear"]
    greedy_share: float
    greedy_period: int
    priority_exponent: float
    priority_correction: float
    reset_every: int
    reset_keep: float
    reset_until: int | None
    clip_rewards: bool
    lost_life_ends: bool
    augment_shift: int
    augment_pictures: Literal["none", "generic", "near"]
    augmented_states: int
    encoder: str
    shared_trunk: bool
    rescale_features: bool
    layer_norm: bool
    picture_filter: Literal["none", "high-pass", "detail"]
    standardise_pictures: bool
    hidden: int
    hidden_layers: int
    learning_rate: float
    actor_learning_rate: float | None
    actor_rate_over_alpha: bool
    adam_eps: float
    actor_adam_eps: float | None
    natural_gradient: bool
    natural_share: float
    grad_clip: float
    weight_decay: float
    critic_loss: Literal["mse", "huber", "hl-gauss"]
    dueling: bool
    value_bins: int
    value_limit: float
    value_sigma: float
    critics: Literal["average", "min"]
    q_clip: float
    target_tau: float
    target_every: int
    average_policy: bool
    alpha: float | None
    alpha_final: float | None
    alpha_scale: Literal["fixed", "range"]
    min_range: float
    initial_alpha: float
    alpha_learning_rate: float | None
    min_alpha: float
    target_entropy_ratio: float
    target_entropy_final: float | None
    target_entropy_steps: int
    critic_entropy: float
    entropy_penalty: float
    multiplier_form: Literal["tempered", "plain"]
    perturbation: Literal["target", "weights", "values", "none"]
    noise_std: float
    noise_relative: bool
    noise_scope: Literal["state", "update"]
    fixed_lambda: float | None
    surrogate_kl: float
    log_every: int
    checkpoint_every: int


# What Stable-Baselines3 calls a setting, and what it is called here.
_CALLED_HERE = {
    "buffer_size": "replay_size",
    "gradient_steps": "updates",
    "learning_starts": "random_steps",
    "max_grad_norm": "grad_clip",
    "n_envs": "envs",
    "n_steps": "n_step",
    "num_envs": "envs",
    "target_update_interval": "target_every",
    "tau": "target_tau",
    "train_freq": "train_every",
}
# What is no setting of the same meaning here, and what to do instead.
_INSTEAD = {
    "ent_coef": 'is alpha here: a number fixes the temperature, alpha=None tunes it as "auto" does',
    "target_entropy": "is target_entropy_ratio here, as a share of log A, the entropy of the uniform policy",
    "policy": 'is not needed here: the network follows from the observation; encoder="mlp" or "nature" chooses one',
    "policy_kwargs": "is several settings here: hidden, hidden_layers and encoder",
    "net_arch": "is two settings here: hidden (units) and hidden_layers",
    "verbose": "is an argument of learn here: learn(..., progress_bar=True)",
    "tensorboard_log": 'is an argument of learn here: learn(..., out="runs/mine", tensorboard=True)',
    "stats_window_size": "is log_every here: a row of metrics has the means of these last steps",
    "optimize_memory_usage": "is always on here: the replay keeps one picture per step",
    "replay_buffer_class": "cannot be replaced here; replay_size and n_step are its settings",
    "replay_buffer_kwargs": "cannot be replaced here; replay_size and n_step are its settings",
    "monitor_wrapper": "is not needed here: returns are always those of the whole, raw episode",
}
_INSTEAD |= dict.fromkeys(
    ("exploration_fraction", "exploration_initial_eps", "exploration_final_eps"),
    "has no counterpart here: actions are drawn from the policy, and target_entropy_ratio says how random it stays",
)
_INSTEAD |= dict.fromkeys(
    ("action_noise", "use_sde", "sde_sample_freq", "use_sde_at_warmup"),
    "is for continuous actions; here actions are discrete and drawn from the policy",
)
_INSTEAD |= dict.fromkeys(
    ("clip_range", "clip_range_vf", "gae_lambda", "n_epochs", "normalize_advantage", "target_kl", "vf_coef"),
    "belongs to PPO and A2C; this agent learns from a replay memory and has no such setting",
)


def answer(name: str) -> str | None:
    """What to write instead of a name that Stable-Baselines3 uses, as a sentence; None where it is not one of those.

    >>> answer("buffer_size")
    "Stable-Baselines3's buffer_size is called replay_size here"
    """
    if name in _CALLED_HERE:
        return f"Stable-Baselines3's {name} is called {_CALLED_HERE[name]} here"
    return f"Stable-Baselines3's {name} {_INSTEAD[name]}" if name in _INSTEAD else None


def is_policy_name(text: object) -> bool:
    """Whether it is a policy of Stable-Baselines3, such as "MlpPolicy", which comes before the environment there."""
    return isinstance(text, str) and text.endswith("Policy") and text.isidentifier()
