"""Cancellation of a request by another thread than the one that waits for its response."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sandbox.errors import Cancelled


class CancelToken:
    """A switch that cancels the calls of `Sandbox.run` and `Sandbox.judge` with this token, permanently.

    cancel() kills the program and frees its worker, and the call raises Cancelled. Several calls may share a token.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._cancelled = False
        self._calls: list[Callable[[], object]] = []

    @property
    def cancelled(self) -> bool:
        return self._cancelled

    def cancel(self) -> None:
        """Cancel all current and later calls with this token, without waiting. Thread-safe and idempotent."""
        with self._lock:
            self._cancelled = True
            for call in self._calls:
                call()

    def raise_if_cancelled(self) -> None:
        if self._cancelled:
            raise Cancelled("the request was cancelled")

    @contextmanager
    def call_on_cancel(self, call: Callable[[], object]) -> Iterator[None]:
        """Register a function that cancel() calls during the block, for backends. It must return soon.

        Raises Cancelled if the token is already cancelled.
        """
        with self._lock:
            self.raise_if_cancelled()
            self._calls.append(call)
        try:
            yield
        finally:
            with self._lock:
                self._calls.remove(call)
