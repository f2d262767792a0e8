"""Every setting: its type says which values it may have, and the function that makes it the group under which help
lists it."""

from dataclasses import dataclass
from typing import Literal

from dsacc.config import options as o
from dsacc.config.names import ConstraintSetting


@dataclass(frozen=True)
class Fields:
    """Every setting with its type, default, range and help text. Defaults are the preset `classic`."""

    env: str = o.run("", "environment id; set by the command or from the environment object")
    constraint: ConstraintSetting | None = o.run(  # noqa: RUF009
        None, "what the actor must share with the critics (none: DSAC)"
    )
    seed: int = o.run(0, "seed of everything that is random in the run", low=0, high=2**32 - 1)

    envs: int = o.collecting(
        1, "environments stepped together; updates per agent step stay the same", low=1, high=65_536
    )
    random_steps: int = o.collecting(1_000, "agent steps at the start with uniformly random actions", low=0)
    replay_size: int = o.collecting(100_000, "agent steps kept for replay; the oldest are dropped first", low=2)
    replay_compression: Literal["none", "lz4"] = o.collecting(
        "none", "lz4 packs stored pictures without loss, 4 to 30 times smaller on Atari"
    )
    train_every: int = o.collecting(1, "agent steps between updates", low=1)
    updates: int = o.collecting(1, "gradient updates each time", low=1)
    batch_size: int = o.collecting(64, "states per minibatch", low=1)
    n_step: int = o.collecting(10, "rewards summed before bootstrapping, in agent steps", low=1, high=1_000)
    gamma: float = o.collecting(0.99, "discount per agent step", low=0.0, high=1.0)
    n_step_final: int | None = o.candidate(
        None, "n_step changes to this in the course of the run (see anneal_start); none keeps it", low=1, high=1_000
    )
    gamma_final: float | None = o.candidate(
        None, "gamma changes to this at the same time as n_step; none keeps it", low=0.0, high=1.0
    )
    learning_rate_final: float | None = o.candidate(
        None,
        "learning_rate changes to this at the same time, and other step sizes by the same factor; none keeps them",
        above=0.0,
    )
    anneal_start: int = o.candidate(
        0, "agent steps after the random ones, or after a reset, at which these begin to change", low=0
    )
    anneal_end: int = o.candidate(10_000, "and at which they have changed", low=1)
    anneal_shape: Literal["exponential", "linear"] = o.candidate(
        "exponential",
        "n_step, alpha, learning rates and the horizon 1 / (1 - gamma) change by equal factors; or they and gamma by "
        "equal steps",
    )
    greedy_share: float = o.candidate(
        0.0,
        "share of the agent steps at which training takes the most probable action, as a greedy test does",
        low=0.0,
        high=1.0,
    )
    greedy_period: int = o.candidate(200, "these are the last of every so many agent steps, in one piece", low=1)
    priority_exponent: float = o.candidate(
        0.0,
        "draw transitions from the replay in proportion to this power of their last error; 0 draws all alike",
        low=0.0,
        high=2.0,
    )
    priority_correction: float = o.candidate(
        0.5, "how far the critics' loss makes up for that: 0 not at all, 1 in full", low=0.0, high=1.0
    )
    reset_every: int = o.candidate(
        0,
        "agent steps between resets: new heads and dense layers, and convolutions moved towards new ones; 0 is off",
        low=0,
    )
    reset_keep: float = o.candidate(
        0.5,
        "share of the old weights that a reset keeps in the convolutions (of vectors: in the encoder)",
        low=0.0,
        high=1.0,
    )
    reset_until: int | None = o.candidate(
        None,
        "nothing is reset after this agent step, so that the end is not spent on recovering; none has no limit",
        low=0,
    )
    clip_rewards: bool = o.collecting(False, "learn from the sign of the reward; reported returns stay raw")
    lost_life_ends: bool = o.collecting(
        False, "a lost life ends the bootstrap, not the game (where the environment reports lives, as Atari does)"
    )

    augment_shift: int = o.collecting(0, "pixels by which pictures in a minibatch are shifted at most; 0 is off", low=0)
    augment_pictures: Literal["none", "generic", "near"] = o.collecting(
        "none",
        "show part of each minibatch a second time, strongly changed: generic has nothing that looks like weather, "
        "near adds veils, specks and streaks",
    )
    augmented_states: int = o.collecting(
        16, "how many states of a minibatch augment_pictures shows a second time", low=1
    )

    encoder: str = o.networks(
        "auto",
        "nature (32-64-64 convolutions), compact (16-32, half the filters, for any observation), small (two 5x5 "
        "convolutions), cells (16-16, for games drawn in cells of 4x4 pixels, as MinAtar's), mlp, auto: chosen by the "
        "observation, or your own as MODULE:name",
    )
    shared_trunk: bool = o.networks(False, "one encoder for actor and critics, trained by the critics")
    rescale_features: bool = o.networks(
        False, "scale the convolution output of each picture to [0, 1] by its smallest and largest value"
    )
    layer_norm: bool = o.candidate(
        False, "normalise the convolution output of each picture, or each hidden layer of the mlp, by mean and spread"
    )
    picture_filter: Literal["none", "high-pass", "detail"] = o.networks(
        "none",
        "what differs from its surroundings, so that light and fog are mostly removed before the network sees them: "
        "high-pass shows it at one contrast, detail in grey levels",
    )
    standardise_pictures: bool = o.experimental(
        False, "subtract each picture's mean and divide by its standard deviation: removes brightness and contrast"
    )
    hidden: int = o.networks(128, "units per hidden layer", low=1)
    hidden_layers: int = o.networks(2, "hidden layers of the mlp encoder", low=1)

    learning_rate: float = o.optimiser(5e-4, "Adam's step size for actor, critics and temperature", above=0.0)
    actor_learning_rate: float | None = o.optimiser(
        None, "Adam's step size for the actor; none takes learning_rate", above=0.0
    )
    actor_rate_over_alpha: bool = o.candidate(
        False,
        "divide actor_learning_rate by the temperature, so that the logits follow Q / alpha as fast as Q changes "
        "(with a shared trunk and a fixed temperature)",
    )
    adam_eps: float = o.optimiser(1e-8, "Adam's epsilon", above=0.0)
    actor_adam_eps: float | None = o.experimental(
        None,
        "Adam's epsilon for the actor and the temperature, whose gradients are small; none takes adam_eps",
        above=0.0,
    )
    natural_gradient: bool = o.experimental(
        False, "train the actor by the natural gradient: a policy that is certain of an action can still unlearn it"
    )
    natural_share: float = o.candidate(
        1.0,
        "with natural_gradient: how much of the actor's gradient is the natural one; the rest is the ordinary one",
        above=0.0,
        high=1.0,
    )
    grad_clip: float = o.optimiser(
        0.0, "largest norm of the gradient of a network, or of the temperature; 0 is off", low=0.0
    )

    weight_decay: float = o.candidate(
        0.0,
        "share of the weights of critics and encoders that decays per update, times learning_rate (AdamW); 0 is off",
        low=0.0,
    )

    critic_loss: Literal["mse", "huber", "hl-gauss"] = o.critics(
        "mse", "loss of the critics; hl-gauss (not compared yet) has them predict the probabilities of bins of values"
    )
    dueling: bool = o.candidate(
        False, "critics give the value of a state and how much better each action is, which sum to Q"
    )
    value_bins: int = o.candidate(51, "bins of hl-gauss", low=2, high=10_001)
    value_limit: float = o.candidate(
        25.0, "the bins of hl-gauss reach from minus this to this, in units of Q; targets beyond are clipped", above=0.0
    )
    value_sigma: float = o.candidate(0.75, "width of hl-gauss's Gaussian (standard deviation), in bins", above=0.0)
    critics: Literal["average", "min"] = o.critics("average", "how the twin critics are combined into one Q")
    q_clip: float = o.experimental(
        0.0, "Q-clip of Zhou 2022: how far Q may move from its target network; 0 is off", low=0.0
    )
    target_tau: float = o.critics(0.01, "share of the critics mixed into their targets", above=0.0, high=1.0)
    target_every: int = o.critics(1, "agent steps between target updates", low=1)
    average_policy: bool = o.critics(
        False, "act with averaged weights, mixed by target_tau like the target critics: the policy changes smoothly"
    )

    alpha: float | None = o.entropy(None, "fixed temperature; none tunes it to the target entropy", low=0.0)
    alpha_final: float | None = o.candidate(
        None, "a fixed temperature changes to this at the same time as n_step; none keeps it", above=0.0
    )
    alpha_scale: Literal["fixed", "range"] = o.candidate(
        "fixed",
        "range multiplies alpha by how far apart the critics' targets are, so that it suits rewards of any size",
    )
    min_range: float = o.candidate(
        1.0, "the range that alpha is multiplied by is at least this, in units of (clipped) reward", above=0.0
    )
    initial_alpha: float = o.entropy(1.0, "temperature at the start, where it is tuned", above=0.0)
    alpha_learning_rate: float | None = o.experimental(
        None, "Adam's step size for the temperature; none takes learning_rate", above=0.0
    )
    min_alpha: float = o.experimental(
        0.0, "a tuned temperature never falls below this, so that the target entropy becomes a lower limit", low=0.0
    )
    target_entropy_ratio: float = o.entropy(
        0.7, "target entropy as a share of log A, the entropy of the uniform policy", low=0.0
    )
    target_entropy_final: float | None = o.experimental(
        None, "target entropy ratio at the end of a linear schedule; none keeps it constant", low=0.0
    )
    target_entropy_steps: int = o.experimental(100_000, "length of that schedule, in agent steps", low=1)
    critic_entropy: float = o.entropy(
        0.0, "weight of the entropy bonus in the critics' target; 0 decouples actor and critics", low=0.0, high=1.0
    )
    entropy_penalty: float = o.experimental(
        0.0, "weight of Zhou 2022's penalty on changes of entropy; 0 is off", low=0.0
    )

    multiplier_form: Literal["tempered", "plain"] = o.constraint(
        "tempered", "1/alpha in the constrained policy (main text) or not (appendix)"
    )
    perturbation: Literal["target", "weights", "values", "none"] = o.constraint(
        "target", "where the noise enters the constraint"
    )
    noise_std: float = o.constraint(1.0, "standard deviation of that noise, in units of Q", low=0.0)
    noise_relative: bool = o.control(False, "measure noise_std in units of each state's spread of Q instead")
    noise_scope: Literal["state", "update"] = o.constraint("state", "one draw of the noise per state, or per update")
    fixed_lambda: float | None = o.control(
        None, "a constant multiplier instead of the solved one; none solves", low=0.0, high=1.0
    )
    surrogate_kl: float = o.control(
        0.0, "weight of alpha KL(surrogate || actor) in the actor's loss; 0 is off", low=0.0
    )

    log_every: int = o.saving(500, "agent steps between rows of metrics.jsonl", low=1)
    checkpoint_every: int = o.saving(10_000, "agent steps between checkpoints of a run folder", low=1)
