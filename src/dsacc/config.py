"""Every setting of a run: one frozen dataclass, checked on construction, with presets and a content hash.

A field is at once a keyword (`DSAC(env, noise_std=0.5)`), an option (`--noise-std 0.5`) and a line of `config.json`.
Its type says which values it may have. Its `_option` gives the range, the help text, and the group under which the help
lists it.
"""

import dataclasses
import hashlib
import json
import re
import sys
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Any, Literal, get_args, get_origin

from dsacc.errors import ConfigError
from dsacc.settings import answer
from dsacc.system.text import nearest

ConstraintSetting = Literal["mean", "variance", "both"]
AGENTS: dict[str, ConstraintSetting | None] = {"dsac": None, "dsac-m": "mean", "dsac-v": "variance", "dsac-mv": "both"}

ENCODERS = ("auto", "nature", "compact", "small", "cells", "mlp")
OWN_ENCODERS: set[str] = set()  # names that `dsacc.agent.register_encoder` has added
_IN_MODULE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_][\w-]*")

EXPERIMENTAL = "experimental: tried, and not shown to help so far"
GROUPS = (
    "run",
    "collecting and replaying",
    "networks",
    "optimiser",
    "critics",
    "entropy",
    "constraint",
    "controls for studies of the constraint",
    EXPERIMENTAL,
    "reporting and saving",
)


def agent_name(constraint: str | None) -> str:
    """The paper's name of the agent with this constraint."""
    return next(name for name, value in AGENTS.items() if value == constraint)


def _option(
    group: str,
    default: Any,
    help: str,
    *,
    low: float | None = None,
    high: float | None = None,
    above: float | None = None,
) -> Any:
    """A field with its group, its explanation and its range: `low` and `high` inclusive, `above` exclusive."""
    return field(default=default, metadata={"group": group, "help": help, "low": low, "high": high, "above": above})


(_run, _collecting, _networks, _optimiser, _critics, _entropy, _constraint, _control, _experimental, _saving) = (
    partial(_option, group) for group in GROUPS
)


@dataclass(frozen=True)
class Config:
    """The settings of one run. Defaults are the preset `classic`."""

    env: str = _run("", "environment id; set by the command or from the environment object")
    constraint: ConstraintSetting | None = _run(  # noqa: RUF009
        None, "what the actor must share with the critics (none: DSAC)"
    )
    seed: int = _run(0, "seed of everything that is random in the run", low=0, high=2**32 - 1)

    envs: int = _collecting(
        1, "environments stepped together; updates per agent step stay the same", low=1, high=65_536
    )
    random_steps: int = _collecting(1_000, "agent steps at the start with uniformly random actions", low=0)
    replay_size: int = _collecting(100_000, "agent steps kept for replay; the oldest are dropped first", low=2)
    replay_compression: Literal["none", "lz4"] = _collecting(
        "none", "lz4 packs stored pictures without loss, 4 to 30 times smaller on Atari"
    )
    train_every: int = _collecting(1, "agent steps between updates", low=1)
    updates: int = _collecting(1, "gradient updates each time", low=1)
    batch_size: int = _collecting(64, "states per minibatch", low=1)
    n_step: int = _collecting(10, "rewards summed before bootstrapping, in agent steps", low=1, high=1_000)
    gamma: float = _collecting(0.99, "discount per agent step", low=0.0, high=1.0)
    clip_rewards: bool = _collecting(False, "learn from the sign of the reward; reported returns stay raw")
    lost_life_ends: bool = _collecting(
        False, "a lost life ends the bootstrap, not the game (where the environment reports lives, as Atari does)"
    )

    augment_shift: int = _collecting(0, "pixels by which pictures in a minibatch are shifted at most; 0 is off", low=0)
    augment_pictures: Literal["none", "generic", "near"] = _collecting(
        "none",
        "show part of each minibatch a second time, strongly changed: generic has nothing that looks like weather, "
        "near adds veils, specks and streaks",
    )
    augmented_states: int = _collecting(
        16, "how many states of a minibatch augment_pictures shows a second time", low=1
    )

    encoder: str = _networks(
        "auto",
        "nature (32-64-64 convolutions), compact (16-32, half the filters, for any observation), small (two 5x5 "
        "convolutions), cells (16-16, for games drawn in cells of 4x4 pixels, as MinAtar's), mlp, auto: chosen by the "
        "observation, or your own as MODULE:name",
    )
    shared_trunk: bool = _networks(False, "one encoder for actor and critics, trained by the critics")
    rescale_features: bool = _networks(
        False, "scale the convolution output of each picture to [0, 1] by its smallest and largest value"
    )
    picture_filter: Literal["none", "high-pass"] = _networks(
        "none", "high-pass keeps edges at one contrast: light and fog are mostly removed before the network sees them"
    )
    standardise_pictures: bool = _experimental(
        False, "subtract each picture's mean and divide by its standard deviation: removes brightness and contrast"
    )
    hidden: int = _networks(128, "units per hidden layer", low=1)
    hidden_layers: int = _networks(2, "hidden layers of the mlp encoder", low=1)

    learning_rate: float = _optimiser(5e-4, "Adam's step size for actor, critics and temperature", above=0.0)
    actor_learning_rate: float | None = _optimiser(
        None, "Adam's step size for the actor; none takes learning_rate", above=0.0
    )
    adam_eps: float = _optimiser(1e-8, "Adam's epsilon", above=0.0)
    actor_adam_eps: float | None = _experimental(
        None,
        "Adam's epsilon for the actor and the temperature, whose gradients are small; none takes adam_eps",
        above=0.0,
    )
    natural_gradient: bool = _experimental(
        False, "train the actor by the natural gradient: a policy that is certain of an action can still unlearn it"
    )
    grad_clip: float = _optimiser(
        0.0, "largest norm of the gradient of a network, or of the temperature; 0 is off", low=0.0
    )

    critic_loss: Literal["mse", "huber"] = _critics("mse", "loss of the critics")
    critics: Literal["average", "min"] = _critics("average", "how the twin critics are combined into one Q")
    q_clip: float = _experimental(
        0.0, "Q-clip of Zhou 2022: how far Q may move from its target network; 0 is off", low=0.0
    )
    target_tau: float = _critics(0.01, "share of the critics mixed into their targets", above=0.0, high=1.0)
    target_every: int = _critics(1, "agent steps between target updates", low=1)
    average_policy: bool = _critics(
        False, "act with averaged weights, mixed by target_tau like the target critics: the policy changes smoothly"
    )

    alpha: float | None = _entropy(None, "fixed temperature; none tunes it to the target entropy", low=0.0)
    initial_alpha: float = _entropy(1.0, "temperature at the start, where it is tuned", above=0.0)
    alpha_learning_rate: float | None = _experimental(
        None, "Adam's step size for the temperature; none takes learning_rate", above=0.0
    )
    min_alpha: float = _experimental(
        0.0, "a tuned temperature never falls below this, so that the target entropy becomes a lower limit", low=0.0
    )
    target_entropy_ratio: float = _entropy(
        0.7, "target entropy as a share of log A, the entropy of the uniform policy", low=0.0
    )
    target_entropy_final: float | None = _experimental(
        None, "target entropy ratio at the end of a linear schedule; none keeps it constant", low=0.0
    )
    target_entropy_steps: int = _experimental(100_000, "length of that schedule, in agent steps", low=1)
    critic_entropy: float = _entropy(
        0.0, "weight of the entropy bonus in the critics' target; 0 decouples actor and critics", low=0.0, high=1.0
    )
    entropy_penalty: float = _experimental(
        0.0, "weight of Zhou 2022's penalty on changes of entropy; 0 is off", low=0.0
    )

    multiplier_form: Literal["tempered", "plain"] = _constraint(
        "tempered", "1/alpha in the constrained policy (main text) or not (appendix)"
    )
    perturbation: Literal["target", "weights", "values", "none"] = _constraint(
        "target", "where the noise enters the constraint"
    )
    noise_std: float = _constraint(1.0, "standard deviation of that noise, in units of Q", low=0.0)
    noise_relative: bool = _control(False, "measure noise_std in units of each state's spread of Q instead")
    noise_scope: Literal["state", "update"] = _constraint("state", "one draw of the noise per state, or per update")
    fixed_lambda: float | None = _control(
        None, "a constant multiplier instead of the solved one; none solves", low=0.0, high=1.0
    )
    surrogate_kl: float = _control(0.0, "weight of alpha KL(surrogate || actor) in the actor's loss; 0 is off", low=0.0)

    log_every: int = _saving(500, "agent steps between rows of metrics.jsonl", low=1)
    checkpoint_every: int = _saving(10_000, "agent steps between checkpoints of a run folder", low=1)

    def __post_init__(self) -> None:
        for f in fields(self):
            object.__setattr__(self, f.name, _checked(f, getattr(self, f.name)))
        _check_encoder(self.encoder)
        if self.alpha == 0 and self.constraint is not None:
            raise ConfigError(
                f"alpha 0 has no surrogate policy, which constraint {self.constraint!r} needs; "
                "use agent dsac, or an alpha above 0"
            )
        if self.alpha == 0 and self.surrogate_kl > 0:
            raise ConfigError("alpha 0 has no surrogate policy, which surrogate_kl needs; use an alpha above 0")
        if self.natural_gradient and self.surrogate_kl > 0:
            raise ConfigError(
                "surrogate_kl has no bounded natural gradient; turn natural_gradient off, or leave surrogate_kl at 0"
            )
        if self.alpha is None and self.initial_alpha < self.min_alpha:
            raise ConfigError(f"initial_alpha {self.initial_alpha} is below min_alpha {self.min_alpha}")
        if self.augment_pictures != "none" and self.picture_filter != "none":
            raise ConfigError(
                "augment_pictures must change pictures before picture_filter does, but the replay memory keeps them "
                "filtered; leave augment_pictures at none and harden the trained agent instead"
            )
        if self.augment_pictures != "none" and self.augmented_states > self.batch_size:
            raise ConfigError(
                f"augmented_states {self.augmented_states} is more than batch_size {self.batch_size}; "
                "at most the whole minibatch can be shown a second time"
            )
        if self.replay_size // self.envs < self.n_step + 1:
            raise ConfigError(
                f"replay_size {self.replay_size} for {self.envs} environment(s) cannot hold n_step {self.n_step} "
                "and a next state"
            )

    @property
    def agent(self) -> str:
        """The paper's name of the agent: `dsac`, `dsac-m`, `dsac-v` or `dsac-mv`."""
        return agent_name(self.constraint)

    @property
    def run_id(self) -> str:
        """Sixteen hex digits of the settings' content: the same settings have the same id on any machine.

        Settings at their default are left out, so that a new setting changes no id.
        """
        content = {f.name: getattr(self, f.name) for f in fields(self) if getattr(self, f.name) != f.default}
        text = json.dumps(content, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def run_name(self) -> str:
        """`Breakout-dsac-m-s0-1a2b3c4d`: the name of the run's folder where nobody chose another."""
        return f"{self.env.replace('/', '-')}-{self.agent}-s{self.seed}-{self.run_id[:8]}"


def field_type(f: "dataclasses.Field[Any]") -> tuple[type, bool]:
    """bool, int, float or str, and whether None is allowed too."""
    kind, optional = _declared(f)
    return (str if get_origin(kind) is Literal else kind), optional


def choices(f: "dataclasses.Field[Any]") -> tuple[str, ...] | None:
    """The texts that a setting may have, where its type lists them."""
    kind, _ = _declared(f)
    return get_args(kind) if get_origin(kind) is Literal else None


def _declared(f: "dataclasses.Field[Any]") -> tuple[Any, bool]:
    alternatives = (f.type,) if get_origin(f.type) in (None, Literal) else get_args(f.type)
    return next(t for t in alternatives if t is not type(None)), type(None) in alternatives


def _checked(f: "dataclasses.Field[Any]", value: Any) -> Any:
    """The value in the field's type and inside its range, or a sentence that says what is wrong with it."""
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
        allowed = choices(f)
        if allowed is not None and value not in allowed:
            raise ConfigError(f"{name} is one of {', '.join(allowed)}, not {value!r}")
        if not isinstance(value, str) or not value.isprintable():
            raise ConfigError(f"{name} must be text without control characters, not {value!r}")
        return value
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) <= sys.float_info.max:
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


def _check_encoder(name: str) -> None:
    """A module is not imported here: whether it registers the name is found out when the networks are built."""
    if name in ENCODERS or name in OWN_ENCODERS or _IN_MODULE.fullmatch(name):
        return
    near = nearest(name, [*ENCODERS, *OWN_ENCODERS])
    hint = f"did you mean {near!r}?" if near else "one of your own must be registered first (register_encoder)"
    raise ConfigError(f"encoder is one of {', '.join(ENCODERS)}, or your own as MODULE:name, not {name!r}; {hint}")


PRESETS: dict[str, dict[str, Any]] = {
    # Small problems with vector observations, such as CartPole.
    "classic": {},
    # The paper's Atari setting. What the paper leaves open is taken from CleanRL.
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
    # The same for MinAtar's small pictures and short runs. docs/minatar.md says what differs, and why.
    "paper-minatar": {
        "random_steps": 2_000,
        "replay_size": 100_000,
        "train_every": 4,
        "n_step": 1,
        "clip_rewards": True,
        "lost_life_ends": True,
        "encoder": "cells",
        "hidden": 128,
        "learning_rate": 1e-3,
        "adam_eps": 1e-4,
        "target_tau": 1.0,
        "target_every": 800,
        "initial_alpha": 0.1,
        "target_entropy_ratio": 0.89,
        "critic_entropy": 1.0,
        "log_every": 1_000,
    },
    # Pixels from little data: one shared encoder, several-step returns, critics without the entropy bonus, and a small
    # fixed temperature: the policy becomes certain by itself as the values of actions move apart.
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
    """A preset with settings laid over it. An unknown name is an error that names the nearest known one."""
    if preset not in PRESETS:
        raise ConfigError(f"unknown preset {preset!r}; choose {', '.join(PRESETS)}")
    known = [f.name for f in fields(Config)]
    for name in settings:
        if name not in known:
            if said := answer(name):
                raise ConfigError(said)
            near = nearest(name, known)
            raise ConfigError(f"unknown setting {name!r}" + (f"; did you mean {near!r}?" if near else ""))
    return Config(**{**PRESETS[preset], **settings})
