"""Every setting of a run: one frozen dataclass, checked on construction, with presets and a content hash.

A field is at once a keyword (`DSAC(env, noise_std=0.5)`), an option (`--noise-std 0.5`) and a line of `config.json`.
"""

import dataclasses
import difflib
import hashlib
import json
import math
from dataclasses import dataclass, field, fields
from typing import Any, get_args

from dsacc.errors import ConfigError

AGENTS: dict[str, str | None] = {"dsac": None, "dsac-m": "mean", "dsac-v": "variance", "dsac-mv": "both"}


def agent_name(constraint: str | None) -> str:
    """The paper's name for an agent, from its constraint."""
    return next(name for name, value in AGENTS.items() if value == constraint)


def _option(
    default: Any,
    help: str,
    *,
    low: float | None = None,
    high: float | None = None,
    above: float | None = None,
    choices: tuple[str, ...] | None = None,
) -> Any:
    """A field with its explanation and its range: `low` and `high` inclusive, `above` exclusive."""
    return field(default=default, metadata={"help": help, "low": low, "high": high, "above": above, "choices": choices})


@dataclass(frozen=True)
class Config:
    """The settings of one run. Defaults are the preset `classic`."""

    env: str = _option("", "environment id; set by the command or from the environment object")
    constraint: str | None = _option(
        None, "what the actor must share with the critic (none: DSAC)", choices=("mean", "variance", "both")
    )
    seed: int = _option(0, "fixes everything random in the run", low=0, high=2**32 - 1)

    # --- collecting and replaying ---
    envs: int = _option(1, "environments that are stepped together; updates per agent step stay the same", low=1)
    random_steps: int = _option(1_000, "agent steps at the start that act uniformly at random", low=0)
    replay_size: int = _option(100_000, "agent steps kept for replay; the oldest go first", low=2)
    replay_compression: str = _option(
        "none", "lz4 packs stored pictures without loss, 4 to 30 times smaller on Atari", choices=("none", "lz4")
    )
    train_every: int = _option(1, "agent steps between updates", low=1)
    updates: int = _option(1, "gradient updates each time", low=1)
    batch_size: int = _option(64, "states in a minibatch", low=1)
    n_step: int = _option(10, "rewards summed before bootstrapping, in agent steps", low=1, high=1_000)
    gamma: float = _option(0.99, "discount per agent step", low=0.0, high=1.0)
    clip_rewards: bool = _option(False, "learn from the reward's sign; reported returns stay raw")
    lost_life_ends: bool = _option(
        False, "a lost life ends the bootstrap, not the game (where the environment tells of it, as Atari does)"
    )

    augment_shift: int = _option(0, "pixels by which pictures in a minibatch are moved at most; 0 is off", low=0)

    # --- networks ---
    encoder: str = _option(
        "auto",
        "nature (32-64-64 convolutions), compact (16-32, half the filters, for any observation), small (two 5x5 "
        "convolutions), mlp, or auto by the observation",
        choices=("auto", "nature", "compact", "small", "mlp"),
    )
    shared_trunk: bool = _option(False, "one encoder, trained by the critics, for actor and critics alike")
    rescale_features: bool = _option(
        False, "bring each picture's convolution output to [0, 1] by its smallest and largest value"
    )
    standardise_pictures: bool = _option(
        False, "each picture less its mean, divided by its standard deviation: brightness and contrast fall out"
    )
    hidden: int = _option(128, "units of a hidden layer", low=1)
    hidden_layers: int = _option(2, "hidden layers of the mlp encoder", low=1)

    # --- optimiser ---
    learning_rate: float = _option(5e-4, "Adam's step size, for actor, critics and temperature", above=0.0)
    actor_learning_rate: float | None = _option(
        None, "Adam's step size for the actor; none takes learning_rate", above=0.0
    )
    adam_eps: float = _option(1e-8, "Adam's epsilon", above=0.0)
    actor_adam_eps: float | None = _option(
        None,
        "Adam's epsilon for the actor and the temperature, whose gradients are small; none takes adam_eps",
        above=0.0,
    )
    natural_gradient: bool = _option(
        False, "the actor learns by the natural gradient: a policy certain of an action can still unlearn it"
    )
    grad_clip: float = _option(0.0, "largest norm of a network's gradient; 0 is off", low=0.0)

    # --- critics ---
    critic_loss: str = _option("mse", "loss of the critics", choices=("mse", "huber"))
    critics: str = _option("average", "how the twin critics become one Q", choices=("average", "min"))
    q_clip: float = _option(0.0, "Q-clip of Zhou 2022: how far Q may leave its target network; 0 is off", low=0.0)
    target_tau: float = _option(0.01, "share of the critics that goes into their targets", above=0.0, high=1.0)
    target_every: int = _option(1, "agent steps between target updates", low=1)
    average_policy: bool = _option(
        False, "act with averaged weights, target_tau's as the target critics': a policy that does not jump about"
    )

    # --- entropy ---
    alpha: float | None = _option(None, "fixed temperature; none tunes it to the target entropy", low=0.0)
    initial_alpha: float = _option(1.0, "temperature at the start when it is tuned", above=0.0)
    alpha_learning_rate: float | None = _option(
        None, "Adam's step size for the temperature; none takes learning_rate", above=0.0
    )
    min_alpha: float = _option(
        0.0, "a tuned temperature never sinks below this, so that the target entropy is a least one", low=0.0
    )
    target_entropy_ratio: float = _option(0.7, "target entropy as a share of log A, the uniform policy's", low=0.0)
    target_entropy_final: float | None = _option(
        None, "target entropy ratio at the end of a linear schedule; none keeps it constant", low=0.0
    )
    target_entropy_steps: int = _option(100_000, "length of that schedule, in agent steps", low=1)
    critic_entropy: float = _option(
        0.0, "weight of the entropy bonus in the critics' target; 0 decouples them", low=0.0, high=1.0
    )
    entropy_penalty: float = _option(0.0, "weight of Zhou 2022's penalty on changes of entropy; 0 is off", low=0.0)

    # --- constraint ---
    multiplier_form: str = _option(
        "tempered", "1/alpha in the constrained policy (main text) or not (appendix)", choices=("tempered", "plain")
    )
    perturbation: str = _option(
        "target", "where the noise enters the constraint", choices=("target", "weights", "values", "none")
    )
    noise_std: float = _option(1.0, "standard deviation of that noise, in units of Q", low=0.0)
    noise_relative: bool = _option(False, "measure noise_std in units of each state's spread of Q instead")
    noise_scope: str = _option("state", "one draw of the noise per state or per update", choices=("state", "update"))
    fixed_lambda: float | None = _option(
        None, "a constant multiplier in place of the solved one (a control); none solves", low=0.0, high=1.0
    )
    surrogate_kl: float = _option(
        0.0, "weight of alpha KL(surrogate || actor) in the actor's loss (a control); 0 is off", low=0.0
    )

    # --- reporting and saving ---
    log_every: int = _option(500, "agent steps between rows of metrics.jsonl", low=1)
    checkpoint_every: int = _option(10_000, "agent steps between checkpoints of a run folder", low=1)

    def __post_init__(self) -> None:
        for f in fields(self):
            object.__setattr__(self, f.name, _checked(f, getattr(self, f.name)))
        if self.alpha == 0 and self.constraint is not None:
            raise ConfigError(
                f"alpha 0 has no surrogate policy, so it goes only without a constraint; "
                f"use agent dsac, or an alpha above 0 for constraint {self.constraint!r}"
            )
        if self.alpha == 0 and self.surrogate_kl > 0:
            raise ConfigError("alpha 0 has no surrogate policy, so surrogate_kl must be 0 there too")
        if self.natural_gradient and self.surrogate_kl > 0:
            raise ConfigError(
                "surrogate_kl has no bounded natural gradient; turn natural_gradient off, or leave it out"
            )
        if self.alpha is None and self.initial_alpha < self.min_alpha:
            raise ConfigError(f"initial_alpha {self.initial_alpha} is below min_alpha {self.min_alpha}")
        if self.replay_size // self.envs < self.n_step + 1:
            raise ConfigError(
                f"replay_size {self.replay_size} for {self.envs} environment(s) cannot hold n_step {self.n_step} "
                "and a next state"
            )

    @property
    def agent(self) -> str:
        """The paper's name for it: `dsac`, `dsac-m`, `dsac-v` or `dsac-mv`."""
        return agent_name(self.constraint)

    @property
    def run_id(self) -> str:
        """Sixteen hex digits of the settings' content: the same settings, the same id, on any machine.

        Settings at their default are left out, so that an option added later changes no id.
        """
        content = {f.name: getattr(self, f.name) for f in fields(self) if getattr(self, f.name) != f.default}
        text = json.dumps(content, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def run_name(self) -> str:
        """`Breakout-dsac-m-s0-1a2b3c4d`: what the run's folder is called where nobody chose another name."""
        return f"{self.env.replace('/', '-')}-{self.agent}-s{self.seed}-{self.run_id[:8]}"


def field_type(f: "dataclasses.Field[Any]") -> tuple[type, bool]:
    """bool, int, float or str, and whether None is allowed too."""
    alternatives = get_args(f.type) or (f.type,)
    return next(t for t in alternatives if t is not type(None)), type(None) in alternatives


def _checked(f: "dataclasses.Field[Any]", value: Any) -> Any:
    """The value as the field's type and inside its range, or a sentence."""
    name, rule = f.name, f.metadata
    kind, optional = field_type(f)
    if value is None:
        if optional:
            return None
        raise ConfigError(f"{name} must be given; its default is {f.default!r}")
    if kind is bool:
        if not isinstance(value, bool):
            raise ConfigError(f"{name} is True or False, not {value!r}")
        return value
    if kind is str:
        if not isinstance(value, str) or (rule["choices"] and value not in rule["choices"]):
            allowed = ", ".join(rule["choices"]) if rule["choices"] else "a text"
            raise ConfigError(f"{name} is one of {allowed}, not {value!r}")
        return value
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise ConfigError(f"{name} must be a finite number, not {value!r}")
    if kind is int:
        if value != int(value):
            raise ConfigError(f"{name} must be a whole number, not {value!r}")
        value = int(value)
    else:
        value = float(value)
    low, high, above = rule["low"], rule["high"], rule["above"]
    if low is not None and value < low:
        raise ConfigError(f"{name} must be at least {low:g}, not {value:g}")
    if above is not None and value <= above:
        raise ConfigError(f"{name} must be above {above:g}, not {value:g}")
    if high is not None and value > high:
        raise ConfigError(f"{name} must be at most {high:g}, not {value:g}")
    return value


# The first field of each group, for the command line's help.
GROUPS = {
    "envs": "collecting and replaying",
    "encoder": "networks",
    "learning_rate": "optimiser",
    "critic_loss": "critics",
    "alpha": "entropy",
    "multiplier_form": "constraint",
    "log_every": "reporting and saving",
}

PRESETS: dict[str, dict[str, Any]] = {
    # Small problems with vector observations: CartPole and its kind.
    "classic": {},
    # The paper's Atari setting: what it leaves open is CleanRL's.
    "paper": {
        "random_steps": 20_000,
        "replay_size": 1_000_000,
        "train_every": 4,
        "n_step": 1,
        "clip_rewards": True,
        "lost_life_ends": True,
        "hidden": 512,
        "learning_rate": 3e-4,
        "adam_eps": 1e-4,
        "target_tau": 1.0,
        "target_every": 8_000,
        "target_entropy_ratio": 0.89,
        "critic_entropy": 1.0,
        "log_every": 2_000,
    },
    # Pixels from little data: one encoder for all, several-step returns, critics without the entropy bonus, and a small
    # fixed temperature: the policy settles by itself as the values of actions come apart.
    "efficient": {
        "random_steps": 2_000,
        "replay_size": 100_000,
        "batch_size": 32,
        "clip_rewards": True,
        "lost_life_ends": True,
        "augment_shift": 4,
        "encoder": "compact",
        "shared_trunk": True,
        "rescale_features": True,
        "hidden": 256,
        "learning_rate": 1e-4,
        "actor_learning_rate": 1e-3,
        "grad_clip": 10.0,
        "critic_loss": "huber",
        "target_tau": 0.005,
        "average_policy": True,
        "alpha": 0.01,
    },
}


def default_preset(pictures: bool) -> str:
    """The preset where none is named: `efficient` for pictures, `classic` for everything else."""
    return "efficient" if pictures else "classic"


def make_config(preset: str = "classic", **settings: Any) -> Config:
    """A preset with settings laid over it. An unknown name is answered with the nearest known one."""
    if preset not in PRESETS:
        raise ConfigError(f"unknown preset {preset!r}; choose {', '.join(PRESETS)}")
    known = [f.name for f in fields(Config)]
    for name in settings:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            raise ConfigError(f"unknown setting {name!r}" + (f"; did you mean {near[0]!r}?" if near else ""))
    return Config(**{**PRESETS[preset], **settings})
