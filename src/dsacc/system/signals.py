"""SIGTERM and Ctrl-C as requests that a program serves when it is ready."""

import signal
import threading
from types import FrameType, TracebackType
from typing import Any

from dsacc.errors import Stopped


class StopSignals:
    """Notes SIGTERM and Ctrl-C. The loop calls `check` where it can stop, which raises `Stopped`.

    A second Ctrl-C does not wait. A `Stopped` by Ctrl-C leaves the block as KeyboardInterrupt.
    """

    def __init__(self, active: bool = True) -> None:
        self.active = active
        self.received: int | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> "StopSignals":
        if self.active and threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._note)
        return self

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.received = number
        signal.signal(signal.SIGINT, signal.default_int_handler)

    def check(self) -> None:
        if self.received is not None:
            raise Stopped(self.received)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        if isinstance(error, Stopped) and error.signal == signal.SIGINT:
            raise KeyboardInterrupt from error
