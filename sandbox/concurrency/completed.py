"""Do something to many items in threads, reading the items only a little ahead."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

_AHEAD = 2  # items per thread taken from the caller's iterable before one is done


def completed(
    function: Callable[[Item], Result], items: Iterable[Item], *, threads: int
) -> Iterator[tuple[int, Future[Result]]]:
    """(index, finished future) of function(item) for each item, as they finish. `items` may be endless."""
    executor = ThreadPoolExecutor(threads)
    running: dict[Future[Result], int] = {}
    try:
        for index, item in enumerate(items):
            running[executor.submit(function, item)] = index
            if len(running) >= _AHEAD * threads:
                yield from _take_finished(running)
        while running:
            yield from _take_finished(running)
    finally:
        # Not waiting: who breaks off, by Ctrl-C say, does not want to see the rest finish first.
        executor.shutdown(wait=False, cancel_futures=True)


def _take_finished(running: dict[Future[Result], int]) -> list[tuple[int, Future[Result]]]:
    finished, _ = wait(running, return_when=FIRST_COMPLETED)
    return [(running.pop(future), future) for future in finished]
