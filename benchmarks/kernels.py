"""One `paper` update against the floor of its kernels: each convolution and matrix product alone, times its calls.

Three Nature CNNs, batch 64. Forward passes: actor and two targets at s', two critics at s, the critics again after
their step, the actor at s: eight. Backward passes: two critics and the actor. The first convolution needs no gradient
of its input. What the update takes above the sum is ReLUs, Adam, softmaxes, the solve and Python. Run with
`make bench-kernels`.
"""

import argparse
import statistics
from collections.abc import Callable

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor
from torch.nn import functional as F
from update import ACTIONS, BATCH, PICTURE, make_batch, timed

from dsacc.agent import Learner, ObservationSpec
from dsacc.config import make_config

FORWARDS, BACKWARDS = 8, 3
CONVOLUTIONS = [(4, 32, 8, 4, 84), (32, 64, 4, 2, 20), (64, 64, 3, 1, 9)]  # in, out, window, stride, side


def kernels() -> dict[str, tuple[float, int, Callable[[], object]]]:
    """Name: GFLOP of a call, calls an update, the call."""
    out: dict[str, tuple[float, int, Callable[[], object]]] = {}
    for k, (channels, filters, window, stride, side) in enumerate(CONVOLUTIONS, start=1):
        pixels = ((side - window) // stride + 1) ** 2
        gflop = 2 * BATCH * pixels * filters * channels * window**2 / 1e9
        x = torch.randn(BATCH, channels, side, side).contiguous(memory_format=torch.channels_last)
        w = torch.randn(filters, channels, window, window).contiguous(memory_format=torch.channels_last)
        y = F.conv2d(x, w, torch.zeros(filters), stride)

        def backward(wanted: list[bool], x=x, w=w, y=y, stride=stride) -> tuple[Tensor, ...]:
            return torch.ops.aten.convolution_backward(
                y, x, w, [len(w)], [stride] * 2, [0, 0], [1, 1], False, [0, 0], 1, wanted
            )

        bias = torch.zeros(filters)
        forward = lambda x=x, w=w, bias=bias, stride=stride: F.conv2d(x, w, bias, stride)  # noqa: E731
        out[f"convolution {k}, forward"] = (gflop, FORWARDS, forward)
        out[f"convolution {k}, weights' gradient"] = (gflop, BACKWARDS, lambda b=backward: b([False, True, True]))
        if k > 1:
            out[f"convolution {k}, input's gradient"] = (gflop, BACKWARDS, lambda b=backward: b([True, False, False]))
    x, w, g = torch.randn(BATCH, 3136), torch.randn(512, 3136), torch.randn(BATCH, 512)
    gflop = 2 * BATCH * 3136 * 512 / 1e9
    out["wide layer, forward"] = (gflop, FORWARDS, lambda: F.linear(x, w, w[:, 0]))
    out["wide layer, weights' gradient"] = (gflop, BACKWARDS, lambda: g.t() @ x)
    out["wide layer, input's gradient"] = (gflop, BACKWARDS, lambda: g @ w)
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=25, help="interleaved repeats (default: 25)")
    args = parser.parse_args()
    torch.set_num_threads(1)
    learner = Learner(make_config("paper"), ObservationSpec("image", PICTURE), ACTIONS, torch.Generator())
    batch, noise = make_batch(np.random.default_rng(0)), torch.zeros(learner.noise_shape())
    square = torch.randn(1500, 1500)
    parts = kernels()
    calls = {name: call for name, (_, _, call) in parts.items()}
    calls |= {"update": lambda: learner.update(batch, noise, 0), "product": lambda: square @ square}
    times: dict[str, list[float]] = {name: [] for name in calls}
    for repeat in range(args.repeats + 2):
        for name, call in calls.items():
            call()  # its data goes into the cache again, as in the update, where the layer before has just written it
            milliseconds = timed(call)
            if repeat >= 2:
                times[name].append(milliseconds)
    median = {name: statistics.median(values) for name, values in times.items()}

    table = Table(title=f"one paper update, batch {BATCH}, one thread, medians of {args.repeats} interleaved repeats")
    for column in ("kernel", "GFLOP", "ms", "GFLOP/s", "calls", "ms in all"):
        table.add_column(column, justify="left" if column == "kernel" else "right")
    floor = total = 0.0
    for name, (gflop, count, _) in parts.items():
        ms = median[name]
        floor, total = floor + count * ms, total + count * gflop
        table.add_row(name, f"{gflop:.2f}", f"{ms:.2f}", f"{1e3 * gflop / ms:.0f}", str(count), f"{count * ms:.1f}")
    table.add_section()
    table.add_row("all kernels: the floor", f"{total:.1f}", "", f"{1e3 * total / floor:.0f}", "", f"{floor:.1f}")
    update, product = median["update"], 2 * 1500**3 / 1e9
    table.add_row("the update, DSAC", f"{total:.1f}", "", f"{1e3 * total / update:.0f}", "", f"{update:.1f}")
    table.add_row("above the floor", "", "", "", "", f"{update - floor:.1f} ({100 * (update / floor - 1):.0f} %)")
    table.add_row(
        "a 1500 x 1500 product",
        f"{product:.1f}",
        f"{median['product']:.1f}",
        f"{1e3 * product / median['product']:.0f}",
    )
    Console().print(table)


if __name__ == "__main__":
    main()
