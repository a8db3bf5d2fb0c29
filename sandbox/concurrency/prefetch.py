"""Run an iterator in a thread of its own, a bounded number of items ahead of whoever takes them."""

import queue
import threading
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

Item = TypeVar("Item")


@contextmanager
def ahead(items: Iterable[Item], most: int, *, seconds: float | None = None) -> Iterator[Iterator[Item]]:
    """The items in order, made while earlier ones are used; at most `most` of them wait. What the iterator raises,
    raises where its items are taken; so does TimeoutError, where nothing comes for so many seconds. Leaving the block
    ends the iterator after the item that it is at, without waiting for that.
    """
    arrived: queue.SimpleQueue[tuple[Item] | BaseException | None] = queue.SimpleQueue()
    places = threading.Semaphore(most)
    left = threading.Event()

    def make() -> None:
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

    def taken() -> Iterator[Item]:
        while (got := _next(arrived, seconds)) is not None:
            if isinstance(got, BaseException):
                raise got
            places.release()
            yield got[0]

    threading.Thread(target=make, name="ahead", daemon=True).start()
    try:
        yield taken()
    finally:
        left.set()
        places.release()


def _next(arrived: "queue.SimpleQueue[Item]", seconds: float | None) -> Item:
    try:
        return arrived.get(timeout=seconds)
    except queue.Empty:
        raise TimeoutError(f"nothing came for {seconds:g} seconds") from None
