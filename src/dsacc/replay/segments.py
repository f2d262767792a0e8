"""A replay on disk, in segments: each holds what was added since the last one, so that saving costs only what is new.

A segment holds, per environment, the slots of a range of ages (an age is the count at which a slot was written).
Pictures are packed by LZ4 in chunks, each as its exclusive-or with the one before it. The rest is stored as it is.
"""

from collections.abc import Iterable, Iterator

import lz4.block
import numpy as np

from dsacc.errors import RunError
from dsacc.replay.ring import MASKS, Replay
from dsacc.system.types import Array

CHUNK = 256  # pictures that are packed together


def export_segment(replay: Replay, start_E: Array) -> dict[str, Array]:
    """All slots written since `start_E` that are still there, as arrays to save."""
    stop_E = replay.written_E.copy()
    start_E = np.maximum(start_E, stop_E - replay.ring)
    slots = np.concatenate([_slots(replay, e, start_E, stop_E) for e in range(replay.envs)])
    out = {"start_E": start_E.astype(np.int64), "stop_E": stop_E}
    out |= {name: column[slots] for name, column in replay.columns.items()}
    if not replay.spec.has_pictures:
        return out | {"frames": replay.store.take(slots)}
    packed = [_pack(replay.store.take(chunk)) for chunk in _chunks(slots)]
    sizes = np.array([len(p) for p in packed], np.int64)
    return out | {"packed": np.frombuffer(b"".join(packed), np.uint8), "packed_sizes": sizes}


def restore_segments(replay: Replay, segments: Iterable[dict[str, Array]]) -> None:
    """Put segments back, from the oldest to the newest, into an empty replay; a gap is refused."""
    first_E = None
    try:
        for arrays in segments:
            if first_E is None:
                first_E = replay.written_E[:] = arrays["start_E"]
                if MASKS not in arrays:  # the run began without masks, and continues without them
                    replay.keep_masks(0)
            _restore(replay, arrays)
        if first_E is not None and (first_E > needed_from(replay)).any():
            raise ValueError("its oldest steps are missing")
    except (KeyError, ValueError, IndexError, TypeError, lz4.block.LZ4BlockError) as error:
        raise RunError(f"the saved replay does not fit this run ({error})") from error


def _restore(replay: Replay, arrays: dict[str, Array]) -> None:
    start_E, stop_E = arrays["start_E"], arrays["stop_E"]
    if start_E.shape != (replay.envs,) or stop_E.shape != (replay.envs,):
        raise ValueError("it is of another number of environments")
    if (start_E < 0).any() or (stop_E < start_E).any() or (stop_E - start_E > replay.ring).any():
        raise ValueError("a range of steps cannot be")
    if (start_E > replay.written_E).any():
        raise ValueError("steps in between are missing")
    slots = np.concatenate([_slots(replay, e, start_E, stop_E) for e in range(replay.envs)])
    for name, column in replay.columns.items():
        if arrays[name].shape != (len(slots), *column.shape[1:]) or arrays[name].dtype != column.dtype:
            raise ValueError(f"{name} has another shape or type")
        column[slots] = arrays[name]
    if not replay.spec.has_pictures:
        replay.store.put_many(slots, arrays["frames"].reshape(len(slots), *replay.spec.shape))
    else:
        ends = np.concatenate([[0], np.cumsum(arrays["packed_sizes"])])
        chunks = list(_chunks(slots))
        if len(chunks) != len(arrays["packed_sizes"]) or ends[-1] != len(arrays["packed"]):
            raise ValueError("pictures are missing")
        for chunk, a, b in zip(chunks, ends, ends[1:], strict=False):
            replay.store.put_many(chunk, _unpack(arrays["packed"][a:b].tobytes(), len(chunk), replay))
    replay.written_E[:] = stop_E


def needed_from(replay: Replay) -> Array:
    """The oldest age of each environment that a sample may still need."""
    return np.maximum(replay.written_E - replay.ring, 0)


def _slots(replay: Replay, env: int, start_E: Array, stop_E: Array) -> Array:
    return env * replay.ring + np.arange(start_E[env], stop_E[env]) % replay.ring


def _chunks(slots: Array) -> Iterator[Array]:
    for i in range(0, len(slots), CHUNK):
        yield slots[i : i + CHUNK]


def _pack(frames: Array) -> bytes:
    frames = np.ascontiguousarray(frames)
    frames[1:] ^= frames[:-1].copy()
    out: bytes = lz4.block.compress(frames, store_size=False)
    return out


def _unpack(packed: bytes, count: int, replay: Replay) -> Array:
    shape = (count, *replay.frame_shape)
    frames = np.frombuffer(lz4.block.decompress(packed, uncompressed_size=int(np.prod(shape))), np.uint8)
    out: Array = np.bitwise_xor.accumulate(frames.reshape(shape), axis=0)
    return out
