"""Cancellation of requests from other threads."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sandbox.errors import Cancelled


class CancelToken:
    """Cancels all calls of `Sandbox.run` and `Sandbox.judge` that have this token, current and later ones.

    cancel() kills the program and frees its worker, and the call raises Cancelled. Several calls may share a token.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._cancelled = False
        self._callbacks: list[Callable[[], object]] = []

    @property
    def cancelled(self) -> bool:
        return self._cancelled

    def cancel(self) -> None:
        """Cancel the calls, without waiting for their end. Thread-safe and idempotent."""
        with self._lock:
            self._cancelled = True
            for callback in self._callbacks:
                callback()

    def raise_if_cancelled(self) -> None:
        if self._cancelled:
            raise Cancelled("the request was cancelled")

    @contextmanager
    def call_on_cancel(self, callback: Callable[[], object]) -> Iterator[None]:
        """Register a non-blocking callback of `cancel` for the block. Raises Cancelled if already cancelled."""
        with self._lock:
            self.raise_if_cancelled()
            self._callbacks.append(callback)
        try:
            yield
        finally:
            with self._lock:
                self._callbacks.remove(callback)
