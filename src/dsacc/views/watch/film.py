"""Writes frames to an mp4 or gif file, completely or not at all."""

import importlib.util
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import numpy as np

from dsacc.errors import ConfigError, RunError
from dsacc.system.extras import how_to_install
from dsacc.system.files import disk_error
from dsacc.system.text import size
from dsacc.system.types import Array

Add = Callable[[Array], None]

EXTRA = f"`{how_to_install('video')}`"
GIF_BYTES = 400 * 2**20  # of frames kept in memory until a gif is written


def has_ffmpeg() -> bool:
    return importlib.util.find_spec("imageio_ffmpeg") is not None


def check_file(out: str | Path) -> Path:
    """The path, if a video can be written there. Checked before anything is played."""
    path = Path(out)
    if path.suffix.lower() not in (".mp4", ".gif"):
        raise ConfigError(f"the name of a video must end in .mp4 or .gif, unlike {path.name!r}")
    if path.is_dir():
        raise ConfigError(f"{path} is a folder; name a file")
    if path.suffix.lower() == ".mp4" and not has_ffmpeg():
        raise ConfigError(
            f"mp4 needs the package imageio-ffmpeg; {EXTRA} installs it; or choose a file name that ends in .gif"
        )
    return path


@contextmanager
def film(path: Path, fps: float) -> Iterator[Add]:
    """Yields a function that takes frames [H, W, 3] uint8, H and W even. If the block ends without an error, the file
    is moved to `path`. Otherwise nothing is left."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    kind: type[_Mp4] | type[_Gif] = _Mp4 if path.suffix.lower() == ".mp4" else _Gif
    with _disk(path):  # before anything is played
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.touch()
    made = kind(temporary, fps)
    try:
        yield made.add
        with _disk(path):
            made.finish()
            os.replace(temporary, path)
    finally:
        made.stop()
        temporary.unlink(missing_ok=True)


@contextmanager
def _disk(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise disk_error(error, path, 0) from error


class _Mp4:
    """H.264 that every browser plays: yuv420p, with the index in front. ffmpeg reads the frames from a pipe."""

    def __init__(self, path: Path, fps: float) -> None:
        self.path, self.fps = path, fps
        self.process: subprocess.Popen[bytes] | None = None

    def add(self, frame: Array) -> None:
        if self.process is None:
            self.process = self._start(frame.shape[1], frame.shape[0])
        try:
            _pipe(self.process.stdin).write(np.ascontiguousarray(frame).data)
        except BrokenPipeError:
            self._check()
            raise

    def _start(self, width: int, height: int) -> subprocess.Popen[bytes]:
        import imageio_ffmpeg

        source = f"-f rawvideo -pix_fmt rgb24 -s {width}x{height} -r {self.fps} -i -"
        target = "-an -c:v libx264 -pix_fmt yuv420p -preset veryfast -crf 25 -threads 2 -movflags +faststart -f mp4"
        command = [imageio_ffmpeg.get_ffmpeg_exe(), "-y", "-nostdin", "-v", "error", *source.split(), *target.split()]
        # Its own session: Ctrl-C reaches only us, and we end ffmpeg.
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
        return subprocess.Popen([*command, str(self.path)], start_new_session=True, **pipes)

    def finish(self) -> None:
        if self.process is not None:
            _pipe(self.process.stdin).close()
            self._check()

    def _check(self) -> None:
        assert self.process is not None
        said = _pipe(self.process.stderr).read().decode(errors="replace").strip().splitlines()
        if self.process.wait() != 0:
            raise RunError(f"the video cannot be written (ffmpeg: {said[-1] if said else 'stopped without a message'})")

    def stop(self) -> None:
        if self.process is None:
            return
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        for pipe in (self.process.stdin, self.process.stderr):
            with suppress(BrokenPipeError):  # nobody reads these frames any more
                _pipe(pipe).close()


class _Gif:
    """A gif with the 256 colours of its first frame. All frames are kept until the end, so it suits short videos."""

    def __init__(self, path: Path, fps: float) -> None:
        self.path, self.fps = path, fps
        self.frames: list[Any] = []

    def add(self, frame: Array) -> None:
        from PIL import Image

        if (len(self.frames) + 1) * frame.shape[0] * frame.shape[1] > GIF_BYTES:
            way = f"a lower --max-steps or a file name that ends in .mp4 ({EXTRA})"
            raise ConfigError(f"this gif exceeds {size(GIF_BYTES)} at frame {len(self.frames)}; choose {way}")
        picture = Image.fromarray(frame)
        if not self.frames:
            self.frames.append(picture.quantize(256, method=Image.Quantize.MEDIANCUT))
        else:
            self.frames.append(picture.quantize(palette=self.frames[0], dither=Image.Dither.NONE))

    def finish(self) -> None:
        if self.frames:
            first, *rest = self.frames
            # In ms, but gif counts hundredths of a second, and viewers slow down anything below 2 of them.
            duration = max(round(100 / self.fps), 2) * 10
            first.save(self.path, "GIF", save_all=True, append_images=rest, duration=duration, loop=0)

    def stop(self) -> None:
        self.frames.clear()


def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    assert pipe is not None
    return pipe
