"""How many threads this process uses."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from dsacc.errors import ConfigError

ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS"), "1")


@contextmanager
def using_threads(threads: int) -> Iterator[None]:
    """Use this many torch threads inside the block, and the previous number after it.

    Inside, numbers below 1e-38 count as 0, if the processor can do that. Adam's moments of weights without a gradient
    decay through such numbers, and computing with them makes its step three times slower. After the block they count
    again: that is torch's default, and torch cannot say what was set before.
    """
    import torch

    if isinstance(threads, bool) or not isinstance(threads, int) or threads < 1:
        raise ConfigError(f"threads must be a whole number of at least 1, not {threads!r}")
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)
        torch.set_num_threads(before)


def use_one_thread() -> None:
    """One thread per run: results do not depend on the machine, and parallel runs do not compete for cores."""
    os.environ.update(ONE_THREAD)
    import cv2
    import torch

    torch.set_num_threads(1)
    cv2.setNumThreads(1)
