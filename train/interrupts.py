"""Ctrl-C and SIGTERM in a training run: the first ends it after critical sections, the second immediately.

The state of this module is global, as signals are. Outside `handle_signals`, signals have their default effect.
"""

import logging
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

log = logging.getLogger(__name__)

_SIGNALS = (signal.SIGINT, signal.SIGTERM)  # clusters send SIGTERM before SIGKILL
_DUPLICATE_SECONDS = 2.0  # signals this close count as one, since torchrun forwards the terminal's signal


@dataclass(slots=True)
class _Signals:
    """The signals that arrived, and whether they may end the run now."""

    is_watched: bool = False
    arrived: float | None = None  # time of the first signal, by time.monotonic
    reason: BaseException | None = None  # the exception for the main thread
    is_raised: bool = False
    deferrals: int = 0

    def receive(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if self.arrived is None:
            self.arrived = now
        elif self.reason is None and now - self.arrived > _DUPLICATE_SECONDS:
            self.is_raised = True
            raise KeyboardInterrupt
        if self.deferrals and self.reason is None:
            log.warning("the run ends once its last complete step is saved; another signal ends it immediately")
        if not self.deferrals:
            self.raise_once()

    def raise_once(self) -> None:
        if not self.is_raised:
            self.is_raised = True
            raise self.reason or KeyboardInterrupt


_signals = _Signals()


@contextmanager
def handle_signals() -> Iterator[None]:
    """Turn the first SIGINT or SIGTERM into a KeyboardInterrupt outside `defer_interrupts`, in the main thread."""
    global _signals
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    _signals = _Signals()
    before = {number: signal.signal(number, _signals.receive) for number in _SIGNALS}
    _signals.is_watched = True
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        _signals.is_watched = False


@contextmanager
def defer_interrupts() -> Iterator[None]:
    """Defer the KeyboardInterrupt of a signal to the end of this block."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    signals = _signals
    signals.deferrals += 1
    try:
        yield
    finally:
        signals.deferrals -= 1
    if signals.arrived is not None and not signals.deferrals:
        signals.raise_once()


def interrupt_requested() -> bool:
    """Return whether a signal to end the run has arrived."""
    return _signals.arrived is not None


def request_interrupt(reason: BaseException | None = None) -> bool:
    """Interrupt the main thread as a signal would, from any thread.

    reason: the exception that the main thread raises; None: KeyboardInterrupt

    Returns whether the main thread will raise it: False outside `handle_signals`, or after an earlier signal.
    """
    main = threading.main_thread().ident
    if not _signals.is_watched or _signals.arrived is not None or main is None:
        return False
    _signals.reason = reason
    signal.pthread_kill(main, signal.SIGTERM)  # also interrupts a blocking call of that thread
    return True
