"""Ctrl-C and SIGTERM in a training run: the first ends it after critical sections, the second immediately.

Signal handlers are global to the process, and so is the state of this module. Outside `handle_signals`, signals have
their default effect.
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
_DUPLICATE_SECONDS = 2.0  # signals within this time count as one: torchrun forwards the terminal's SIGINT


@dataclass(slots=True)
class _Signals:
    """The first signal to end the run, and the exception for it."""

    is_handled: bool = False
    first_time: float | None = None  # time of the first signal, by time.monotonic; None: no signal yet
    reason: BaseException | None = None  # exception to raise in the main thread; None: KeyboardInterrupt
    is_raised: bool = False
    deferrals: int = 0

    def handle(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if self.first_time is None:
            self.first_time = now
        elif self.reason is None and now - self.first_time > _DUPLICATE_SECONDS:
            self.is_raised = True
            raise KeyboardInterrupt
        if self.deferrals and self.reason is None:
            log.warning("the run ends after it has saved its last complete step; another signal ends it immediately")
        if not self.deferrals:
            self.raise_once()

    def raise_once(self) -> None:
        if not self.is_raised:
            self.is_raised = True
            raise self.reason or KeyboardInterrupt


_signals = _Signals()


@contextmanager
def handle_signals() -> Iterator[None]:
    """Raise a KeyboardInterrupt in the main thread on SIGINT or SIGTERM; `defer_interrupts` delays it."""
    global _signals
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    _signals = _Signals()
    before = {number: signal.signal(number, _signals.handle) for number in _SIGNALS}
    _signals.is_handled = True
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        _signals.is_handled = False


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
    if signals.first_time is not None and not signals.deferrals:
        signals.raise_once()


def is_interrupt_requested() -> bool:
    """Return whether a signal to end the run has arrived."""
    return _signals.first_time is not None


def request_interrupt(reason: BaseException | None = None) -> bool:
    """Interrupt the main thread like a signal. Any thread may call this function.

    reason: the exception that the main thread raises; None: KeyboardInterrupt

    Returns whether the main thread will raise it: False outside `handle_signals`, or after an earlier signal.
    """
    main = threading.main_thread().ident
    if not _signals.is_handled or _signals.first_time is not None or main is None:
        return False
    _signals.reason = reason
    signal.pthread_kill(main, signal.SIGTERM)  # also interrupts a blocking call of the main thread
    return True
