"""Let a worker leave politely when its command is told to end."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Protocol


class SupportsLeave(Protocol):
    def leave(self) -> None:
        """End soon, from any thread."""


@contextmanager
def leave_on_signal(worker: SupportsLeave) -> Iterator[None]:
    """Leave at the first SIGINT or SIGTERM. A second one ends the process at once."""

    def leave(number: int, frame: FrameType | None) -> None:
        for each, handler in before.items():
            signal.signal(each, handler)
        # In another thread, because the signal may have come in the midst of a wait for the lock that this takes.
        threading.Thread(target=worker.leave, name="leave").start()

    before = {number: signal.signal(number, leave) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
