"""Cancellation of a request from a thread other than the one that waits for its result."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sandbox.errors import Cancelled


class CancelToken:
    """Cancels the `Sandbox.run` and `Sandbox.judge` calls it is passed to.

    cancel() kills the program and frees its worker, and the call raises Cancelled. Several calls may share a
    CancelToken. It cannot be undone.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._cancelled = False
        self._calls: list[Callable[[], object]] = []

    @property
    def cancelled(self) -> bool:
        return self._cancelled

    def cancel(self) -> None:
        """Cancel all present and later calls with this token, without waiting for them. Thread-safe and idempotent."""
        with self._lock:
            self._cancelled = True
            for call in self._calls:
                call()

    def raise_if_cancelled(self) -> None:
        """Raise Cancelled after cancel()."""
        if self._cancelled:
            raise Cancelled("the request was cancelled")

    @contextmanager
    def on_cancel(self, call: Callable[[], object]) -> Iterator[None]:
        """Register a function, for backends: cancel() calls it if called within the block.

        `call` must return soon; it is not called after the block. Raises Cancelled if cancel() was called before.
        """
        with self._lock:
            self.raise_if_cancelled()
            self._calls.append(call)
        try:
            yield
        finally:
            with self._lock:
                self._calls.remove(call)
