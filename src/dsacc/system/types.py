"""Types and names of choices that several rooms use. Cheap to import: the command line needs them for its help."""

from typing import Any, Literal, get_args

import numpy as np

Array = np.ndarray[Any, Any]
Exposure = Literal["unseen", "near", "trained on"]  # what an agent met of a shift before it was tested under it
Mode = Literal["independent", "frozen", "falling"]
Policy = Literal["greedy", "sampled"]  # the most probable action, or one drawn from the policy
Where = Literal["screen", "observation"]  # what a shift changes: the full screen, or what the agent sees

EXPOSURES: tuple[str, ...] = get_args(Exposure)
MODES: tuple[str, ...] = get_args(Mode)  # a new draw per frame, one per episode, one per episode that falls or drifts
POLICIES: tuple[str, ...] = get_args(Policy)
WHERE: tuple[str, ...] = get_args(Where)
