"""How a caller takes back what it has asked for, from another thread than the one that waits for the answer."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sandbox.errors import Cancelled


class Cancellation:
    """Give one to Sandbox.run or judge and call cancel() once nobody wants the answer: the program is killed, its
    worker serves others, and the call raises Cancelled. A Cancellation may be shared by several calls; it is for good.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._cancelled = False
        self._calls: list[Callable[[], object]] = []

    @property
    def cancelled(self) -> bool:
        return self._cancelled

    def cancel(self) -> None:
        """Returns soon; may be called again, and by any thread."""
        with self._lock:
            self._cancelled = True
            for call in self._calls:
                call()

    def check(self) -> None:
        """Raises Cancelled after cancel()."""
        if self._cancelled:
            raise Cancelled("the caller took its request back")

    @contextmanager
    def calling(self, call: Callable[[], object]) -> Iterator[None]:
        """For backends: `call`, which must return soon, is called if cancel() comes in here. Raises Cancelled if it
        came before; afterwards `call` is not called any more."""
        with self._lock:
            self.check()
            self._calls.append(call)
        try:
            yield
        finally:
            with self._lock:
                self._calls.remove(call)
