"""An agent for others: its policy as an ONNX graph, for deployment, or a small file of the agent itself, to share.

The graph takes raw observations and gives logits: everything between the environment and the network is inside. Before
a file is written, what it holds and the agent act on the same random observations.
"""

import io
import json
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor, nn
from torch.nn import functional as F

from dsacc import __version__
from dsacc.config import ENCODERS
from dsacc.dsac import DSAC
from dsacc.envs import Observations
from dsacc.envs.filters import FLAT, FLOOR, REACH, SPAN, window
from dsacc.envs.pictures import LEVELS, float_pictures
from dsacc.envs.record import noted
from dsacc.errors import ModelError, first_line
from dsacc.play.adapters import OnnxPlayer, OwnPlayer
from dsacc.play.adapters.base import need
from dsacc.runs import model_bytes, parse_model
from dsacc.runs.model_file import with_suffix
from dsacc.system.files import write_atomically
from dsacc.system.types import Array

OPSET = 17  # onnxruntime 1.12 and newer
COMPARED = 1_000  # random observations
CHUNK = 100  # observations at once
ROUNDING = 1e-4  # relative to the logits: more than float32 sums differ by in another order, less than any mistake


@dataclass(frozen=True)
class Exported:
    """What was written."""

    path: Path
    bytes: int
    observation: str  # type and shape of the input
    actions: int
    ties: int  # compared observations in which rounding decided between the two best actions


def export_onnx(model: DSAC, path: str | Path) -> Exported:
    """Write the policy to `path`: input `observation` [batch, ...] as the environment gives it (pictures,
    float32 vectors, int64 indices), output `logits` [batch, actions].

    Refuses to write a graph whose actions differ from the agent's on 1,000 random observations.
    """
    path = Path(path)
    if model.observations.parts:
        raise ModelError("an agent that sees several inputs cannot be exported; only one that sees a single one can")
    dtype, shape = _raw_type(model.observations), model.observations.raw_shape
    example = random_observations(model.observations, 2, np.random.default_rng(0))
    data = _graph(model, torch.as_tensor(example, device=model.learner.device).to(dtype))
    ties = _compare(model, OnnxPlayer(data, path.stem))
    write_atomically(path, data)
    numbers = ", ".join(["batch", *map(str, shape)])
    return Exported(path, len(data), f"{str(dtype).removeprefix('torch.')} [{numbers}]", model.learner.actions, ties)


def export_agent(model: DSAC, path: str | Path) -> Exported:
    """Write a saved agent of an eighth of the size: the networks that play, in half precision.

    `DSAC.load`, `evaluate`, `watch` and `harden` take it like any saved agent. It can learn on too, but not exactly
    where the agent was: the optimisers begin anew.
    """
    small = replace(model.to_file(), tensors=model.learner.small_state())
    data, path = model_bytes(small), with_suffix(path)
    ties = _ties(model, DSAC.from_file(parse_model(data, path)))
    write_atomically(path, data)
    return Exported(path, len(data), "", model.learner.actions, ties)


class _Policy(nn.Module):
    """From raw observations to logits."""

    def __init__(self, model: DSAC) -> None:
        super().__init__()
        learner = model.learner  # the exporter finds weights only in attributes
        self.actor, self.critics = learner.target_actor or learner.actor, learner.critics
        self.target_critics = learner.target_critics
        self.learner, self.encode = model.learner, _encoder(model.observations)
        self.filter = _FILTERS[model.observations.picture_filter] if model.observations.is_image else _FILTERS["none"]

    def forward(self, observation: Tensor) -> Tensor:
        return self.learner.policy_logits(self.filter(self.encode(observation)))


def _graph(model: DSAC, example: Tensor) -> bytes:
    onnx = need("onnx", "onnx")
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch recommends its newer exporter, which needs two more packages
        names: dict[str, Any] = {"input_names": ["observation"], "output_names": ["logits"]}
        names["dynamic_axes"] = {"observation": {0: "batch"}, "logits": {0: "batch"}}
        file: Any = buffer  # a file in memory will do
        try:
            torch.onnx.export(_Policy(model), (example,), file, dynamo=False, opset_version=OPSET, **names)
        except Exception as error:
            if model.config.encoder in ENCODERS:
                raise
            raise ModelError(
                f"torch cannot write the encoder {model.config.encoder!r} as an ONNX graph ({first_line(error)})"
            ) from error
    graph = onnx.load_model_from_string(buffer.getvalue())
    c = model.config
    player = OwnPlayer(model)
    notes = {"dsacc": __version__, "agent": player.agent, "env": c.env, "step": str(model.step)}
    notes |= {"seed": "" if player.train_seed is None else str(player.train_seed)}
    notes |= {"augmented": " ".join(player.augmented)}
    if (seen := noted(model.environment)) is not None:
        notes["environment"] = json.dumps(seen, sort_keys=True)
    if " x " in model.actions_in_words:  # logit i is the combination numpy.unravel_index(i, sizes)
        notes |= {"action_sizes": model.actions_in_words}
    onnx.helper.set_model_props(graph, notes)
    try:
        onnx.checker.check_model(graph, full_check=True)
    except onnx.checker.ValidationError as error:
        raise ModelError(f"this agent cannot be written as a valid ONNX graph ({first_line(error)})") from error
    return bytes(graph.SerializeToString(deterministic=True))


def _raw_type(observations: Observations) -> torch.dtype:
    if observations.spec.kind == "discrete":
        return torch.int64
    return torch.uint8 if observations.space.dtype == np.uint8 else torch.float32


def _encoder(observations: Observations) -> Callable[[Tensor], Tensor]:
    """`Observations.encode` on tensors, so that it can be part of a graph."""
    space, shape = observations.space, observations.raw_shape
    if isinstance(space, spaces.Discrete):
        return lambda x: x[:, None] - int(space.start)
    if isinstance(space, spaces.MultiDiscrete):
        starts = torch.as_tensor(np.asarray(space.start, np.int64).reshape(-1))
        return lambda x: x.flatten(1) - starts.to(x.device)
    if not observations.is_image:
        scale = float(np.float32(1 / 255)) if space.dtype == np.uint8 else 1.0
        return lambda x: x.flatten(1).float() * scale
    floats = float_pictures(space)
    if floats is not None:
        arrange, scale = _arranger(shape), LEVELS / floats.top
        return lambda x: arrange(torch.round(x * scale).clamp(0, LEVELS).to(torch.uint8))
    return _arranger(shape)


def _arranger(shape: tuple[int, ...]) -> Callable[[Tensor], Tensor]:
    """Pictures in the environment's layout to [B, C, H, W]."""
    if len(shape) == 2:
        return lambda x: x[:, None]
    channel_first = shape[-3] < shape[-1]
    if len(shape) == 3:
        return (lambda x: x) if channel_first else (lambda x: x.permute(0, 3, 1, 2))
    if channel_first:
        return lambda x: x.flatten(1, 2)
    return lambda x: x.permute(0, 1, 4, 2, 3).flatten(1, 2)


def _high_pass(x_BCHW: Tensor) -> Tensor:
    """`dsacc.envs.filters.high_pass` on tensors, to the bit."""
    d, area = _difference(x_BCHW)
    n = d.shape[2] * d.shape[3]
    std = torch.sqrt(((d * d).sum((2, 3), keepdim=True) - d.sum((2, 3), keepdim=True) ** 2 / n) / n) / area
    return _shown(d * (127 / REACH / (std + FLOOR) / area))


def _detail(x_BCHW: Tensor) -> Tensor:
    """`dsacc.envs.filters.detail` on tensors, to the bit."""
    d, area = _difference(x_BCHW)
    return _shown(d * (127 / SPAN / area))


def _difference(x_BCHW: Tensor) -> tuple[Tensor, int]:
    """The picture less its local mean, times the area of the neighbourhood, and that area."""
    channels, height, width = (int(n) for n in x_BCHW.shape[1:])
    side = window(height, width)
    x = x_BCHW.float()
    padded = F.pad(x, (side // 2,) * 4, mode="reflect")
    total = F.conv2d(padded, torch.ones(channels, 1, side, side), groups=channels)
    return (x * (side * side) - total).double(), side * side


def _shown(d: Tensor) -> Tensor:
    return (torch.clamp(d, -127, 127) + (FLAT + 0.5)).to(torch.uint8)


_FILTERS: dict[str, Callable[[Tensor], Tensor]] = {"none": lambda x: x, "high-pass": _high_pass, "detail": _detail}


def _ties(model: DSAC, small: DSAC) -> int:
    """On how many random observations the two choose different actions."""
    rng = np.random.default_rng(0)
    seen = [random_observations(model.observations, CHUNK, rng) for _ in range(COMPARED // CHUNK)]
    return sum(int((model.logits(x).argmax(axis=1) != small.logits(x).argmax(axis=1)).sum()) for x in seen)


def _compare(model: DSAC, player: OnnxPlayer) -> int:
    """Let both act on random observations. Returns how often rounding decided between the two best actions."""
    rng, ties = np.random.default_rng(0), 0
    for _ in range(COMPARED // CHUNK):
        seen = random_observations(model.observations, CHUNK, rng)
        ours_BA, theirs_BA = model.logits(seen), player.answer(seen)
        allowed_B1 = ROUNDING * np.abs(ours_BA).max(axis=1, keepdims=True).clip(min=1)
        if theirs_BA.shape != ours_BA.shape or not (np.abs(ours_BA - theirs_BA) <= allowed_B1).all():
            raise ModelError(
                "the ONNX graph and the agent disagree on a random observation, so nothing was written; please report "
                "this with the versions of torch and onnxruntime"
            )
        ties += int((ours_BA.argmax(axis=1) != theirs_BA.argmax(axis=1)).sum())
    return ties


def random_observations(observations: Observations, count: int, rng: np.random.Generator) -> Array:
    """Raw observations [count, ...]: indices of their space, vectors of many sizes, pictures of patches and noise."""
    space, shape = observations.space, observations.raw_shape
    if isinstance(space, spaces.Discrete):
        return rng.integers(space.start, space.start + space.n, count)
    if isinstance(space, spaces.MultiDiscrete):
        return rng.integers(space.start, np.asarray(space.start) + space.nvec, (count, *shape))
    if isinstance(space, spaces.MultiBinary):
        return rng.integers(0, 2, (count, *shape))
    each = (count,) + (1,) * len(shape)
    if not observations.is_image and space.dtype != np.uint8:
        return (rng.normal(size=(count, *shape)) * 10 ** rng.uniform(-1, 1, each)).astype(np.float32)
    picture = rng.random((count, *(-(-n // 7) for n in shape)), np.float32)
    for axis, n in enumerate(shape, start=1):
        picture = picture.repeat(7, axis).take(range(n), axis)
    noise = rng.random((count, *shape), np.float32)
    pixels = (255 * rng.random(each) * (0.7 * picture + 0.3 * noise)).astype(np.uint8)
    floats = float_pictures(space)
    return pixels if floats is None else floats.from_bytes(pixels)
