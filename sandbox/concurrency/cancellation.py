"""Cancellation of a request from a thread other than the one that waits for its result."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sandbox.errors import Cancelled


class CancelToken:
    """Cancels the `Sandbox.run` and `Sandbox.judge` calls it is passed to.

    After cancel() the program is killed, its worker serves others, and the call raises Cancelled. Several calls may
    share a CancelToken. It cannot be undone.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._cancelled = False
        self._calls: list[Callable[[], object]] = []

    @property
    def cancelled(self) -> bool:
        return self._cancelled

    def cancel(self) -> None:
        """Cancel all calls that share this, now and later. Returns soon; any thread may call it, and more than once."""
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
        """For backends: call `call` if cancel() is called within the block.

        `call` must return soon; it is not called after the block. Raises Cancelled if cancel() was called before it.
        """
        with self._lock:
            self.raise_if_cancelled()
            self._calls.append(call)
        try:
            yield
        finally:
            with self._lock:
                self._calls.remove(call)
