"""Parameters by name, given by a user: checked as a whole before any of them is taken."""

from collections.abc import Mapping

import torch

from dsacc.errors import ModelError

OPTIMISERS = "_optimizer."  # in the names of their moments, which an agent that has not learned does not have


def checked_parameters(
    given: Mapping[str, torch.Tensor], present: Mapping[str, torch.Tensor], exact: bool
) -> dict[str, torch.Tensor]:
    """What to load: `given` alone where it must be `exact`, else laid over what is `present`."""
    needed = {name for name in present if OPTIMISERS not in name}
    for name, tensor in given.items():
        if name not in present and OPTIMISERS not in name:
            raise ModelError(f"this agent has no parameter {name!r}; get_parameters() shows those it has")
        if name in needed and tuple(tensor.shape) != tuple(present[name].shape):
            raise ModelError(
                f"parameter {name!r} has shape {tuple(tensor.shape)}, and this agent needs {tuple(present[name].shape)}"
            )
    missing = sorted(needed - given.keys())
    if exact and missing:
        raise ModelError(
            f"{len(missing)} parameters are missing, {missing[0]!r} among them; exact_match=False takes those given"
        )
    return dict(given) if exact else {**present, **given}
