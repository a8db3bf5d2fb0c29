"""Decides when a request may start: once a worker is free, and so is the memory that the request may use.

Requests are served in order, so that one that needs much memory does not wait for ever behind a stream of small ones.
"""

import threading
from collections import deque
from typing import Generic, TypeVar

from sandbox.concurrency.cancellation import CancelToken

Slot = TypeVar("Slot")


class _Waiter(Generic[Slot]):
    def __init__(self, memory_mb: int) -> None:
        self.memory_mb = memory_mb
        self.slot: Slot | None = None
        self.decided = threading.Event()


class SlotAllocator(Generic[Slot]):
    """Lets requests in, each with a slot of its own.

    slots       the slots, each of which is given to one request at a time
    memory_mb   megabytes that all admitted requests may use together; one that needs more is admitted when there is no
                other
    """

    def __init__(self, slots: list[Slot], memory_mb: int) -> None:
        self._free = list(slots)  # the last one freed is the first one taken: its caches are warm
        self._memory_mb = memory_mb
        self._used_mb = 0
        self._waiting: deque[_Waiter[Slot]] = deque()
        self._lock = threading.Lock()

    def acquire(self, memory_mb: int, cancellation: CancelToken | None = None, timeout: float | None = None) -> Slot:
        """Wait for a slot and take it. Raises Cancelled, and TimeoutError after `timeout` seconds."""
        with self._lock:
            if not self._waiting and self._fits(memory_mb):
                return self._take(memory_mb)
            waiter: _Waiter[Slot] = _Waiter(memory_mb)
            self._waiting.append(waiter)
        try:
            if cancellation is None:
                waiter.decided.wait(timeout)
            else:
                with cancellation.on_cancel(waiter.decided.set):
                    waiter.decided.wait(timeout)
            with self._lock:
                if waiter.slot is not None:
                    return waiter.slot
            if cancellation is not None:
                cancellation.raise_if_cancelled()
            raise TimeoutError
        except BaseException:
            self._withdraw(waiter)
            raise

    def release(self, slot: Slot, memory_mb: int) -> None:
        """Give back a slot, and as much memory as was taken with it."""
        with self._lock:
            self._free.append(slot)
            self._used_mb -= memory_mb
            self._let_in()

    def _fits(self, memory_mb: int) -> bool:
        return bool(self._free) and (self._used_mb + memory_mb <= self._memory_mb or not self._used_mb)

    def _take(self, memory_mb: int) -> Slot:
        self._used_mb += memory_mb
        return self._free.pop()

    def _let_in(self) -> None:
        while self._waiting and self._fits(self._waiting[0].memory_mb):
            waiter = self._waiting.popleft()
            waiter.slot = self._take(waiter.memory_mb)
            waiter.decided.set()

    def _withdraw(self, waiter: _Waiter[Slot]) -> None:
        with self._lock:
            if waiter.slot is None:
                self._waiting.remove(waiter)
                self._let_in()  # it may have been in the way of others
                return
        self.release(waiter.slot, waiter.memory_mb)
