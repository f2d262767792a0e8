"""A policy as an ONNX graph, whether `dsacc export` wrote it or not. It holds no code, and no custom operators are
loaded. Files in which it keeps tensors must be beside it."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from dsacc.envs import check_actions
from dsacc.envs.record import is_record
from dsacc.errors import ModelError, first_line
from dsacc.play.adapters.base import Player, Rngs, actions_from, check_spaces, fingerprint_of, laid_out, need
from dsacc.system.plain import NotPlain, parse_json
from dsacc.system.types import Array

_NAMES = {"uint8": np.uint8, "float": np.float32, "double": np.float64, "int64": np.int64, "int32": np.int32}
_TYPES = {f"tensor({name})": dtype for name, dtype in _NAMES.items()}


class OnnxPlayer(Player):
    """A graph with one input, the observations [B, ...]. Its output named `logits`, or else its first output, is floats
    [B, A] or actions [B].

    Pictures go in as values from 0 to 255, also where the input is float: scaling is left to the graph. A graph with a
    fixed batch size is fed in pieces of that size, the last one padded. It always runs on one thread of the CPU. Masks
    are applied to its logits; the graph itself takes none.
    """

    takes_masks = True

    def __init__(self, source: str | Path | bytes, name: str | None = None) -> None:
        """`source` is a file, or the bytes of one."""
        self.agent = f"onnx:{name or ('graph' if isinstance(source, bytes) else Path(source).stem)}"
        if not isinstance(source, bytes) and not Path(source).is_file():
            raise ModelError(f"there is no file {source}")
        self.fingerprint = fingerprint_of(_content(source, self.agent))
        self._session = _open(source, self.agent)
        inputs, outputs = self._session.get_inputs(), self._session.get_outputs()
        if len(inputs) != 1 or not inputs[0].shape or inputs[0].type not in _TYPES:
            found = ", ".join(f"{i.name} {i.type} {i.shape}" for i in inputs) or "none"
            raise ModelError(f"{self.agent} must have one input, a batch of observations; it has {found}")
        self._input, self._dtype = inputs[0].name, np.dtype(_TYPES[inputs[0].type])
        batch, *shape = inputs[0].shape
        self._batch: int | None = batch if isinstance(batch, int) and batch > 0 else None
        # Axes without a number are left to the graph.
        self._shape: tuple[int, ...] | None = tuple(shape) if all(isinstance(n, int) for n in shape) else None
        output = next((o for o in outputs if o.name == "logits"), outputs[0])
        self._output = output.name
        scores = len(output.shape or ()) == 2 and "int" not in output.type and isinstance(output.shape[1], int)
        self._scores: int | None = output.shape[1] if scores else None
        self._actions = self._scores
        notes = self._session.get_modelmeta().custom_metadata_map
        notes = notes if "dsacc" in notes else {}  # only `dsacc export` is known to write these
        self.env, self.origin = notes.get("env"), "this graph" if isinstance(source, bytes) else str(source)
        self.environment = _record(notes.get("environment"))
        self.augmented = tuple(notes.get("augmented", "").split())
        self.train_seed, self.step = _whole(notes.get("seed")), _whole(notes.get("step"))

    def check_fits(self, env: gym.Env[Any, Any]) -> None:
        self._actions = check_actions(env)
        check_spaces(self.agent, env, self._scores, self._shape, self._dtype)

    def act(self, observations: Array, rngs: Rngs, greedy: bool, masks: Array | None = None) -> Array:
        answer = self.answer(observations)
        return actions_from(answer, len(observations), self._actions, self.agent, rngs, greedy, masks)

    def answer(self, observations: Array) -> Array:
        """The answer of the graph to raw observations [B, ...]: floats [B, A], or actions [B]."""
        seen = observations if self._shape is None else laid_out(observations, self._shape, self.agent)
        seen = np.ascontiguousarray(seen, self._dtype)
        size = self._batch or len(seen)
        parts = []
        for start in range(0, len(seen), size):
            part = seen[start : start + size]
            padded = np.concatenate([part, np.repeat(part[-1:], size - len(part), axis=0)])
            try:
                (answer,) = self._session.run([self._output], {self._input: padded})
            except Exception as error:  # onnxruntime's errors have no common type
                raise ModelError(f"{self.agent} failed on observations {padded.shape}: {first_line(error)}") from error
            parts.append(np.asarray(answer)[: len(part)])
        return np.concatenate(parts)


def _content(source: str | Path | bytes, who: str) -> Iterator[bytes]:
    """The graph's own bytes, and those of the files in which it keeps tensors. Older versions of onnxruntime follow a
    name out of the folder."""
    data = source if isinstance(source, bytes) else Path(source).read_bytes()
    yield data
    onnx = need("onnx", "onnx")
    try:
        graph = onnx.load_model_from_string(data)
    except Exception as error:  # protobuf's errors have no common type
        raise ModelError(f"{who} cannot be read as an ONNX graph ({first_line(error)})") from error
    for name in sorted({name for tensor in _outside(graph) for name in tensor}):
        path = None if isinstance(source, bytes) or Path(name).name != name else Path(source).parent / name
        if path is None or path.is_symlink() or not path.is_file():
            raise ModelError(f"{who} keeps tensors in {name[:100]!r}, and only files beside the graph are read")
        yield path.read_bytes()


def _outside(message: Any) -> Iterator[list[str]]:
    """The files that a graph refers to, wherever in it a tensor may be."""
    for field, value in message.ListFields():
        if field.name == "external_data":
            yield [entry.value for entry in value if entry.key == "location"]
        elif field.message_type is not None:
            for part in [value] if hasattr(value, "ListFields") else value:
                yield from _outside(part)


def _open(source: str | Path | bytes, who: str) -> Any:
    runtime = need("onnxruntime", "onnx")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4  # errors come as exceptions, and are told by us
    try:
        model = source if isinstance(source, bytes) else str(source)
        return runtime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    except Exception as error:
        raise ModelError(f"{who} cannot be read as an ONNX graph ({first_line(error)})") from error


def _record(text: str | None) -> dict[str, Any] | None:
    """What `dsacc export` noted about the environment, where a name is not enough."""
    with suppress(NotPlain):
        content = parse_json(text or "null", finite=False)
        return content if is_record(content) else None
    return None


def _whole(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdigit() else None
