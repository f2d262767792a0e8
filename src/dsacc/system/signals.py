"""SIGTERM and Ctrl-C as a wish that is granted when it suits."""

import signal
import threading
from types import FrameType
from typing import Any

from dsacc.errors import Stopped


class StopSignals:
    """Turns SIGTERM and Ctrl-C into a wish that the loop grants between two steps; a second Ctrl-C does not wait."""

    def __init__(self, active: bool) -> None:
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

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
