"""The side of `weather.py` that runs imgaug 0.4.0, in an environment of its own, and the figures that both sides take.

`figures`: draws of imgaug's weather as figures, one .npz. `serve`: seconds for as many frames as a line of input asks.
At the top this imports NumPy only, so that `weather.py` can take the same figures of ours.
"""

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
SHAPE = (210, 160, 3)
KINDS = ("fog", "snow", "rain")
BLACK, WHITE = np.zeros(SHAPE, np.uint8), np.full(SHAPE, 255, np.uint8)
Draw = Callable[[bool], tuple[Array, Array]]  # a new draw on black, and the same on white if that is asked for


def frame() -> Array:
    """A picture to be timed on."""
    return np.random.default_rng(0).integers(0, 256, SHAPE, dtype=np.uint8)


def correlation(plane: Array, rows: int, columns: int) -> float:
    """Of the levels of pixels that far apart: how long and how wide the streaks are."""
    one, other = plane[rows:, columns:], plane[: plane.shape[0] - rows, : plane.shape[1] - columns]
    return float(np.corrcoef(one.ravel(), other.ravel())[0, 1]) if one.std() * other.std() > 0 else 1.0


def figures(kind: str, black: Array, white: Array) -> dict[str, float]:
    """What is compared of one draw: what it makes of a black picture and, for fog, of a white one."""
    dark, light = black[..., 0].astype(np.float64), white[..., 0].astype(np.float64)
    edge = np.concatenate([part.ravel() for part in (dark[:12], dark[-12:], dark[:, :12], dark[:, -12:])])
    looks = {
        "mean at the edges": edge.mean(),
        "spread within": dark.std(),
        "correlation, 3 down": correlation(dark, 3, 0),
        "correlation, 2 across": correlation(dark, 0, 2),
    }
    if kind == "fog":
        opacity = 1 - (light - dark) / 255
        own = {"mean opacity": opacity.mean(), "mean intensity": (dark / opacity).mean()}
        return {**own, "spread of opacity": opacity.std(), **looks}
    share = 128 if kind == "snow" else 20
    return {"mean level": dark.mean(), f"share above {share}": (dark > share).mean(), **looks}


def many(kind: str, draw: Draw, count: int) -> dict[str, Array]:
    """The figures of many draws, by the name `kind/figure`."""
    rows = [figures(kind, *draw(kind == "fog")) for _ in range(count)]
    return {f"{kind}/{name}": np.array([row[name] for row in rows]) for name in rows[0]}


def augmenters() -> dict[str, Any]:
    """imgaug's three, on one thread.

    The layers of its snow and rain are copies that start on the same random numbers. A fresh augmenter, and a
    deterministic one, lays one layer up to three times over itself; with use the copies drift apart. Here each gets
    numbers of its own, which is where a long-lived augmenter comes to; only fog is made deterministic below.
    """
    import cv2
    import imgaug
    from imgaug import augmenters as iaa

    cv2.setNumThreads(1)
    imgaug.seed(1)
    tools = {"fog": iaa.Fog(), "snow": iaa.Snowflakes(), "rain": iaa.Rain()}
    for seed, layer in enumerate((*tools["snow"], *tools["rain"])):
        layer.random_state = imgaug.random.RNG(seed)
    return tools


def draw_by(augmenter: Any) -> Draw:
    def draw(both: bool) -> tuple[Array, Array]:
        now = augmenter.to_deterministic() if both else augmenter
        return now(image=BLACK), now(image=WHITE) if both else WHITE

    return draw


def serve(tools: dict[str, Any]) -> None:
    """For each line `kind count` of input, the seconds that it took."""
    picture = frame()
    for line in sys.stdin:
        kind, count = line.split()
        start = time.perf_counter()
        for _ in range(int(count)):
            tools[kind](image=picture)
        print(time.perf_counter() - start, flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(augmenters())
    else:
        _, _, path, draws = sys.argv
        taken = [many(kind, draw_by(tool), int(draws)) for kind, tool in augmenters().items()]
        np.savez(path, **{name: values for part in taken for name, values in part.items()})
