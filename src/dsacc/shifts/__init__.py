"""Changes to what an agent sees at test time: weather, light and sensor faults, drawn once and fast to apply."""

from dsacc.shifts import photometric, vector, weather  # noqa: F401 - they register their kinds
from dsacc.shifts.augmentations import Augmenter, augmentation_names, exposure, register_augmentation, resolve
from dsacc.shifts.bank import Bank, bank
from dsacc.shifts.kinds import LEVELS, Change, Drawn, Kind, Severity, as_level, find_kind, names, register
from dsacc.shifts.wrapper import Shift
from dsacc.system.types import MODES

__all__ = [
    "LEVELS",
    "MODES",
    "Augmenter",
    "Bank",
    "Change",
    "Drawn",
    "Kind",
    "Severity",
    "Shift",
    "as_level",
    "augmentation_names",
    "bank",
    "exposure",
    "find_kind",
    "names",
    "register",
    "register_augmentation",
    "resolve",
]
