"""One update of a preset against the floor of its kernels: every convolution and matrix product that it calls, alone.

    python benchmarks/kernels.py [--preset efficient] [--agent dsac-m]

The calls are recorded while one update runs, with their own arguments: which they are is not written down here. Then
each is timed alone, beside the whole update, in interleaved repeats. What the update takes above their sum is ReLUs,
Adam, softmaxes, the solve and Python. Run with `make bench-kernels`.
"""

import argparse
import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from update import ACTIONS, PICTURE, make_batch, timed

from dsacc.agent import Learner, ObservationSpec
from dsacc.config import AGENTS, make_config
from dsacc.system.memory import keep_freed_memory

aten = torch.ops.aten
CONVOLUTIONS = (aten.convolution, aten.convolution_backward)
PRODUCTS = (aten.mm, aten.addmm, aten.bmm, aten.baddbmm)


@dataclass
class Kernel:
    """One kind of call: an operation with arguments of these shapes."""

    name: str
    gflop: float
    call: Callable[[], object]
    calls: int = 0


class Recorder(TorchDispatchMode):
    """Keeps every convolution and matrix product that runs inside it, with copies of its arguments."""

    def __init__(self) -> None:
        super().__init__()
        self.found: dict[Any, Kernel] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func.overloadpacket in CONVOLUTIONS + PRODUCTS:
            key = (func, *(_shape(argument) for argument in args))
            if key not in self.found:
                own = [a.detach().clone() if isinstance(a, Tensor) else a for a in args]
                self.found[key] = Kernel(*_described(func, args), lambda: func(*own, **kwargs))
            self.found[key].calls += 1
        return func(*args, **kwargs)


def _shape(argument: Any) -> Any:
    return (argument.shape, argument.stride()) if isinstance(argument, Tensor) else str(argument)


def _described(func: Any, args: Sequence[Any]) -> tuple[str, float]:
    """Its name and GFLOP: two per multiplication."""
    if func.overloadpacket in CONVOLUTIONS:
        backward = func.overloadpacket == aten.convolution_backward
        x, w = args[1:3] if backward else args[:2]
        stride = (args[4] if backward else args[3])[0]
        out = [
            (side + 2 * pad - window) // stride + 1
            for side, pad, window in zip(x.shape[2:], (args[5] if backward else args[4]), w.shape[2:], strict=True)
        ]
        wanted = args[-1][:2] if backward else [True]
        what = {(True, True): "both gradients", (False, True): "weights' gradient", (True, False): "input's gradient"}
        shape = f"{len(x)} x {x.shape[1]} x {x.shape[2]}², {len(w)} of {w.shape[2]}² / {stride}"
        flop = 2 * len(x) * math.prod(out) * w.numel() * sum(wanted)
        return f"convolution, {what[tuple(wanted)] if backward else 'forward'}: {shape}", flop / 1e9
    a, b = [x for x in args if isinstance(x, Tensor)][-2:]
    return f"product: {' x '.join(map(str, a.shape))} by {b.shape[-1]}", 2 * a.numel() * b.shape[-1] / 1e9


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preset", choices=["paper", "efficient"], default="paper", help="(default: paper)")
    parser.add_argument("--agent", choices=list(AGENTS), default="dsac", help="(default: dsac)")
    parser.add_argument("--repeats", type=int, default=25, help="interleaved repeats (default: 25)")
    args = parser.parse_args()
    torch.set_num_threads(1)
    keep_freed_memory()  # as `dsacc train` does
    config = make_config(args.preset, constraint=AGENTS[args.agent])
    learner = Learner(config, ObservationSpec("image", PICTURE), ACTIONS, torch.Generator().manual_seed(0))
    rng = np.random.default_rng(0)
    batch = make_batch(rng, config.batch_size)
    noise = torch.from_numpy(rng.standard_normal(learner.noise_shape()))
    for _ in range(3):
        learner.update(batch, noise, 0)
    with Recorder() as recorder:
        learner.update(batch, noise, 0)
    kernels = sorted(recorder.found.values(), key=lambda kernel: -kernel.calls * kernel.gflop)
    square = torch.randn(1500, 1500)
    calls = [kernel.call for kernel in kernels]
    calls += [lambda: learner.update(batch, noise, 0), learner.update_targets, lambda: square @ square]
    times: list[list[float]] = [[] for _ in calls]
    for repeat in range(args.repeats + 2):
        for call, found in zip(calls, times, strict=True):
            call()  # its data goes into the cache again, as in the update, where the layer before has just written it
            milliseconds = timed(call)
            if repeat >= 2:
                found.append(milliseconds)
    *alone, update, targets, product = (statistics.median(found) for found in times)

    title = (
        f"one update of {args.preset}, {args.agent}, batch {config.batch_size}, one thread, medians of {args.repeats}"
    )
    table = Table(title=title)
    for column in ("kernel", "GFLOP", "ms", "GFLOP/s", "calls", "ms in all"):
        table.add_column(column, justify="left" if column == "kernel" else "right")
    floor, total = 0.0, sum(kernel.calls * kernel.gflop for kernel in kernels)
    small = [0, 0.0, 0.0]  # calls, GFLOP, ms of those that take less than a hundredth of the update
    for kernel, ms in zip(kernels, alone, strict=True):
        in_all = kernel.calls * ms
        floor += in_all
        if in_all < update / 100:
            small = [small[0] + kernel.calls, small[1] + kernel.calls * kernel.gflop, small[2] + in_all]
            continue
        rate = f"{1e3 * kernel.gflop / ms:.0f}"
        table.add_row(kernel.name, f"{kernel.gflop:.3f}", f"{ms:.2f}", rate, str(kernel.calls), f"{in_all:.1f}")
    if small[0]:
        rate = f"{1e3 * small[1] / small[2]:.0f}"
        table.add_row("smaller ones together", f"{small[1]:.3f}", "", rate, str(small[0]), f"{small[2]:.1f}")
    table.add_section()
    table.add_row("all kernels: the floor", f"{total:.2f}", "", f"{1e3 * total / floor:.0f}", "", f"{floor:.1f}")
    table.add_row("the update", f"{total:.2f}", "", f"{1e3 * total / update:.0f}", "", f"{update:.1f}")
    table.add_row("above the floor", "", "", "", "", f"{update - floor:.1f} ({100 * (update / floor - 1):.0f} %)")
    table.add_row("target networks, beside it", "", "", "", "", f"{targets:.1f}")
    gflop = 2 * 1500**3 / 1e9
    table.add_row("a 1500 x 1500 product", f"{gflop:.1f}", f"{product:.1f}", f"{1e3 * gflop / product:.0f}")
    Console().print(table)


if __name__ == "__main__":
    main()
