"""Every setting of a run: one frozen dataclass, checked on construction, with presets and a content hash.

A field is at once a keyword (`DSAC(env, noise_std=0.5)`), an option (`--noise-std 0.5`) and a line of `config.json`.
"""

from dsacc.config.names import AGENTS, ENCODERS, OWN_ENCODERS, ConstraintSetting, agent_name
from dsacc.config.options import GROUPS, choices, field_type
from dsacc.config.presets import EARLIER, PRESETS, default_preset, make_config, present_presets
from dsacc.config.run import Config

__all__ = [
    "AGENTS",
    "EARLIER",
    "ENCODERS",
    "GROUPS",
    "OWN_ENCODERS",
    "PRESETS",
    "Config",
    "ConstraintSetting",
    "agent_name",
    "choices",
    "default_preset",
    "field_type",
    "make_config",
    "present_presets",
]
