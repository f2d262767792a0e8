"""What an agent sees, changed at test time: weather, light and sensors, drawn once and fast to apply."""

from dsacc.shifts import photometric, vector  # noqa: F401 - they register their kinds
from dsacc.shifts.bank import Bank, bank
from dsacc.shifts.kinds import LEVELS, Change, Kind, as_level, find_kind, names, register

__all__ = ["LEVELS", "Bank", "Change", "Kind", "as_level", "bank", "find_kind", "names", "register"]
