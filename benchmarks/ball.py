"""How well can the ball of Breakout be found in weather, through which picture filter, by a network of our size?

    python benchmarks/ball.py --filters high-pass none --augment generic --updates 3000
    python benchmarks/ball.py --tracker
    python benchmarks/ball.py --picture ball.png

A network with the trunk of the preset `efficient` learns to say where the ball is, from 16 clean and 16 augmented
stacks of four frames per update, as a student of `dsacc harden` learns what to do. The game's memory tells the truth.
It is tested on other games, clean and in weather: the share of stacks in which it is at most half a paddle (8 of 160
pixels) off to either side. In these games the paddle wanders about: a paddle that follows the ball would tell where the
ball is. What the best constant guess is worth is in each line as `guess`.

`--tracker` asks how much there is to be found: no network, but a search for the straight path through the four frames
along which something bright moves at a speed that the ball may have. It is tested where the ball flies straight, below
the bricks and above the paddle.
"""

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dsacc import Shift, make_env
from dsacc.agent.scaling import rescaled
from dsacc.envs.filters import high_pass
from dsacc.shifts import Augmenter, resolve
from dsacc.system.threads import use_one_thread
from dsacc.system.types import Array

WEATHER = ("snow", "rain", "fog")
BALL_X, BALL_Y, PADDLE_X = 99, 101, 72  # places in the memory of the console
PADDLE_REACH = (56, 191)
HALF_PADDLE = 8  # pixels of the screen
MIDDLE, SPREAD = np.array([128.0, 120.0]), np.array([60.0, 50.0])  # of the ball's place, to learn it in units of one


# --- filters: float pictures [H, W] around 0 --------------------------------------------------------------------------


def _detail(plane: Array) -> Array:
    x = plane.astype(np.float32)
    return np.asarray(x - cv2.boxFilter(x, -1, (9, 9)))


def _shown(d: Array, deviation: Any, reach: float = 3.0) -> Array:
    return np.asarray(np.clip(d / deviation, -reach, reach) / reach, np.float32)


def steady(plane: Array) -> Array:
    """High-pass in fixed units: one deviation is 24 grey levels, whatever else is in the picture."""
    return _shown(_detail(plane), 24.0)


def robust(plane: Array) -> Array:
    """High-pass in units of a deviation that few bright pixels hardly change."""
    d = _detail(plane)
    deviation = d.std()
    for _ in range(3):
        deviation = np.clip(d, -1.5 * deviation, 1.5 * deviation).std() * 1.2
    return _shown(d, deviation + 2, 6.0)


def local(plane: Array) -> Array:
    """Local contrast: in units of the deviation over 21x21 pixels."""
    d = _detail(plane)
    return _shown(d, np.sqrt(cv2.boxFilter(d * d, -1, (21, 21))) + 6)


def median(plane: Array) -> Array:
    """Less the local median in place of the local mean: a flake leaves no dark ring."""
    d = plane.astype(np.float32) - cv2.medianBlur(plane, 9)
    return _shown(d, d.std() + 2)


FILTERS: dict[str, Callable[[Array], Array]] = {
    "none": lambda plane: np.asarray(plane / 255, np.float32),
    "high-pass": lambda plane: np.asarray((high_pass(plane).astype(np.float32) - 128) / 127),
    "steady": steady,
    "robust": robust,
    "local": local,
    "median": median,
}


# --- states -----------------------------------------------------------------------------------------------------------


def collect(count: int, seed: int, shifts: tuple[str, ...]) -> tuple[dict[str, Array], Array]:
    """Stacks of the same games, clean and in weather, and the ball's place [N, 4, 2] in each of the four frames."""
    rng = np.random.default_rng(seed)
    envs: dict[str, Any] = {"id": make_env("Breakout")}
    envs |= {name: Shift(make_env("Breakout"), name, seed=seed) for name in shifts}
    seen = {name: env.reset(seed=seed)[0] for name, env in envs.items()}
    kept: dict[str, list[Array]] = {name: [] for name in envs}
    places: list[list[tuple[int, int]]] = []
    path: list[tuple[int, int]] = []
    games, goal = 0, 120
    while len(places) < count:
        ram = envs["id"].unwrapped.ale.getRAM()
        x, y, paddle = int(ram[BALL_X]), int(ram[BALL_Y]), int(ram[PADDLE_X])
        path = [*path[-3:], (x, y)] if y > 0 else []  # no ball at 0
        if len(path) == 4 and rng.random() < 0.35:
            places.append(path)
            for name, stacks in kept.items():
                stacks.append(np.array(seen[name]))
        if rng.random() < 0.05:
            goal = int(rng.integers(*PADDLE_REACH))
        action = 1 if y == 0 else 2 if goal > paddle + 4 else 3 if goal < paddle - 4 else 0  # fire, or wander
        over = False
        for name, env in envs.items():
            seen[name], _, terminated, truncated, _ = env.step(action)
            over = terminated or truncated
        if over:
            games, path = games + 1, []
            seen = {name: env.reset(seed=1_000 * seed + games)[0] for name, env in envs.items()}
    return {name: np.stack(stacks) for name, stacks in kept.items()}, np.array(places)


# --- the network ------------------------------------------------------------------------------------------------------


TRUNKS = {  # channels in, channels out, window, stride
    "compact": [(4, 16, 8, 4), (16, 32, 4, 2)],
    "nature": [(4, 32, 8, 4), (32, 64, 4, 2), (64, 64, 3, 1)],
    "fine": [(4, 16, 5, 2), (16, 32, 3, 2), (32, 32, 3, 1)],
}


class Finder(nn.Module):
    """A trunk, and two numbers: where the ball is. `fine` looks at every second pixel, at three times the cost."""

    def __init__(self, encoder: str, rescale: bool) -> None:
        super().__init__()
        layers = [layer for size in TRUNKS[encoder] for layer in (nn.Conv2d(*size), nn.ReLU())]
        self.convolutions = nn.Sequential(*layers)
        self.convolutions.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        flat = self.convolutions(torch.zeros(1, 4, 84, 84)).numel()
        self.body = nn.Sequential(nn.Linear(flat, 256), nn.ReLU(), nn.Linear(256, 2))
        self.rescale = rescale

    def forward(self, x: Tensor) -> Tensor:
        features = self.convolutions(x).permute(0, 2, 3, 1)
        return self.body((rescaled(features) if self.rescale else features).flatten(1))  # type: ignore[no-any-return]


def seen_through(stacks: Array, picture_filter: str) -> Tensor:
    through = FILTERS[picture_filter]
    pictures = np.stack([[through(np.ascontiguousarray(plane)) for plane in stack] for stack in stacks])
    return torch.from_numpy(pictures).contiguous(memory_format=torch.channels_last)


def measure(
    train: tuple[Array, Array], test: tuple[dict[str, Array], Array], picture_filter: str, args: argparse.Namespace
) -> dict[str, Any]:
    """Train a finder through one filter; the share of stacks in which it finds the ball, per condition."""
    stacks, places = train[0], train[1][:, -1]
    torch.manual_seed(args.seed)
    rng = np.random.default_rng(args.seed)
    finder = Finder(args.encoder, args.rescale)
    optimizer = torch.optim.Adam(finder.parameters(), lr=1e-3)
    augment = Augmenter(resolve(args.augment), stacks.shape[1:])
    wanted = torch.tensor((places - MIDDLE) / SPREAD, dtype=torch.float32)
    began = time.process_time()
    for update in range(args.updates):
        index = rng.integers(len(stacks), size=32)
        shown = np.concatenate([stacks[index[:16]], augment(stacks[index[16:]], stacks, rng)])
        loss = F.smooth_l1_loss(finder(seen_through(shown, picture_filter)), wanted[index], beta=0.1)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.param_groups[0]["lr"] = 1e-3 * (1 - update / args.updates)
        optimizer.step()
    found, x = {}, test[1][:, -1, 0]
    with torch.no_grad():
        for name, tested in test[0].items():
            off = (finder(seen_through(tested, picture_filter))[:, 0].numpy() * SPREAD[0] + MIDDLE[0]) - x
            found[name] = round(float((np.abs(off) < HALF_PADDLE).mean()), 2)
    found["guess"] = round(max(float((np.abs(x - at) < HALF_PADDLE).mean()) for at in range(*PADDLE_REACH)), 2)
    said = {"filter": picture_filter, "augment": " ".join(args.augment), "encoder": args.encoder}
    return {**said, "updates": args.updates, "CPU s": round(time.process_time() - began), **found}


# --- the tracker ------------------------------------------------------------------------------------------------------


FIELD = (40, 74)  # rows of the picture between bricks and paddle
PER_X, PER_Y = 84 / 160, 84 / 210  # pixels of the picture per unit of the memory
SPEEDS = [(x * PER_X, y * PER_Y) for x in (-6, -4, -3, 3, 4, 6) for y in (-6, -4, 4, 6)]  # seen in games; per step
CLIP = 60  # grey levels above which brightness says nothing more: flakes are brighter than the ball


def pixels(places: Array) -> Array:
    """Places of the memory as x and y in the picture."""
    return np.asarray(places, float) * (PER_X, PER_Y) + (-26.0, 3.2)


def track(stack: Array) -> float:
    """x at which the best straight path through the four frames ends.

    A path is as good as the darkest of its four places, in grey levels of the local detail above its median over time.
    A twentieth of their sum decides between equals.
    """
    rows, columns = np.mgrid[FIELD[0] : FIELD[1] : 0.5, 6:79:0.5].astype(np.float32)
    frames = np.stack([_detail(frame) for frame in stack])
    above = [cv2.blur(frame, (2, 2)) for frame in np.clip(frames - np.median(frames, axis=0), -CLIP, CLIP)]
    best, ends = -np.inf, 0.0
    for x, y in SPEEDS:
        met = [cv2.remap(above[3 - k], columns - k * x, rows - k * y, cv2.INTER_LINEAR) for k in range(4)]
        good = np.min(met, axis=0) + 0.05 * np.sum(met, axis=0)
        if good.max() > best:
            best, ends = float(good.max()), float(columns.flat[good.argmax()])
    return ends


def tracked(stacks: dict[str, Array], places: Array) -> dict[str, Any]:
    """The share of stacks in which the tracker finds the ball, per condition, where it flies freely."""
    at = pixels(places)
    steps = np.diff(at, axis=1)
    free = np.abs(steps - steps[:, :1]).max(axis=(1, 2)) < 0.6
    free &= (at[..., 1].min(axis=1) > FIELD[0]) & (at[..., 1].max(axis=1) < FIELD[1] - 1)
    found = {}
    for name, seen in stacks.items():
        off = np.array([track(stack) for stack in seen[free]]) - at[free, -1, 0]
        found[name] = round(float((np.abs(off) < HALF_PADDLE * PER_X).mean()), 2)
    return {"stacks": int(free.sum()), **found}


# --- the command ------------------------------------------------------------------------------------------------------


def draw(path: Path, stack: int = 500, zoom: int = 3) -> None:
    """The four frames of a state, clean above and the same in each weather below."""
    seen, _ = collect(stack + 1, 11, WEATHER)
    rows = []
    for name in ("id", *WEATHER):
        frames = [cv2.copyMakeBorder(frame, 1, 1, 1, 1, cv2.BORDER_CONSTANT, value=255) for frame in seen[name][stack]]
        rows.append(np.concatenate(frames, axis=1))
    picture = np.concatenate(rows).repeat(zoom, axis=0).repeat(zoom, axis=1)
    cv2.imwrite(str(path), picture)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--filters", nargs="+", choices=list(FILTERS), default=list(FILTERS), help="which filters")
    parser.add_argument("--augment", nargs="+", default=["generic"], help="augmentations and shifts to learn under")
    parser.add_argument("--encoder", choices=list(TRUNKS), default="compact", help="trunk")
    parser.add_argument("--rescale", action="store_true", help="rescale features, as the preset efficient does")
    parser.add_argument("--updates", type=int, default=3_000, help="of 32 stacks")
    parser.add_argument("--states", type=int, default=8_000, help="stacks to learn from")
    parser.add_argument("--seed", type=int, default=0, help="of learning")
    parser.add_argument("--out", type=Path, help="file to which each result is added, as a line of JSON")
    parser.add_argument("--tracker", action="store_true", help="search for straight paths in place of learning")
    parser.add_argument("--picture", type=Path, help="draw the four frames of a state in each weather, and stop")
    args = parser.parse_args()
    use_one_thread()
    if args.picture is not None:
        draw(args.picture)
        return
    if args.tracker:
        print(json.dumps(tracked(*collect(800, 11, WEATHER))))
        return
    (clean, places), test = collect(args.states, 12, ()), collect(800, 11, WEATHER)
    for picture_filter in args.filters:
        line = json.dumps(measure((clean["id"], places), test, picture_filter, args))
        print(line, flush=True)
        if args.out is not None:
            with args.out.open("a") as file:
                file.write(line + "\n")


if __name__ == "__main__":
    main()
