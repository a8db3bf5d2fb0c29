"""Prefetching of an iterator's items in a thread."""

import queue
import threading
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

Item = TypeVar("Item")


@contextmanager
def prefetch(
    items: Iterable[Item], max_buffered: int, *, timeout_seconds: float | None = None
) -> Iterator[Iterator[Item]]:
    """Yield an iterator over `items`, which a daemon thread reads ahead of the consumer.

    max_buffered     maximum number of items that wait for the consumer
    timeout_seconds  maximum wait for an item; None for no limit

    The iterator raises TimeoutError, and any exception of `items` after the items before it. On exit, the context
    manager stops the thread after its current item, without a wait.
    """
    arrivals: queue.SimpleQueue[tuple[Item] | BaseException | None] = queue.SimpleQueue()
    slots = threading.Semaphore(max_buffered)
    is_closed = threading.Event()

    def produce() -> None:
        try:
            for item in items:
                arrivals.put((item,))
                slots.acquire()
                if is_closed.is_set():
                    break
            arrivals.put(None)
        except BaseException as error:
            arrivals.put(error)
        finally:
            if isinstance(items, Generator):
                items.close()

    def consume() -> Iterator[Item]:
        while (arrival := _take(arrivals, timeout_seconds)) is not None:
            if isinstance(arrival, BaseException):
                raise arrival
            slots.release()
            yield arrival[0]

    threading.Thread(target=produce, name="prefetch", daemon=True).start()
    try:
        yield consume()
    finally:
        is_closed.set()
        slots.release()


def _take(arrivals: "queue.SimpleQueue[Item]", timeout_seconds: float | None) -> Item:
    try:
        return arrivals.get(timeout=timeout_seconds)
    except queue.Empty:
        raise TimeoutError(f"timed out: no item arrived for {timeout_seconds:g} s") from None
