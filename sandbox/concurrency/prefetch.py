"""Run an iterator in its own thread, a bounded number of items ahead of its consumer."""

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
    """Yield an iterator over the items, in order, which makes the next ones while the consumer uses one.

    max_buffered     the most items that wait for the consumer
    timeout_seconds  time without an item after which TimeoutError is raised; None: no limit

    If the iterator raises an exception, the consumer gets it in place of the next item. Leaving the block ends the
    iterator after the item that it is making, without waiting for that.
    """
    arrived: queue.SimpleQueue[tuple[Item] | BaseException | None] = queue.SimpleQueue()
    places = threading.Semaphore(max_buffered)
    left = threading.Event()

    def produce() -> None:
        try:
            for item in items:
                arrived.put((item,))
                places.acquire()
                if left.is_set():
                    break
            arrived.put(None)
        except BaseException as error:
            arrived.put(error)
        finally:
            if isinstance(items, Generator):
                items.close()

    def consume() -> Iterator[Item]:
        while (arrival := _take(arrived, timeout_seconds)) is not None:
            if isinstance(arrival, BaseException):
                raise arrival
            places.release()
            yield arrival[0]

    threading.Thread(target=produce, name="prefetch", daemon=True).start()
    try:
        yield consume()
    finally:
        left.set()
        places.release()


def _take(arrived: "queue.SimpleQueue[Item]", timeout_seconds: float | None) -> Item:
    try:
        return arrived.get(timeout=timeout_seconds)
    except queue.Empty:
        raise TimeoutError(f"timed out: no item arrived for {timeout_seconds:g} s") from None
