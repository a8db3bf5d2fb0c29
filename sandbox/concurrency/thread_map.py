"""Apply a function to many items in threads, reading the items only a little ahead."""

import queue
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

_PREFETCH = 2  # items per thread taken from the caller's iterable before one is done


def map_futures(
    function: Callable[[Item], Result], items: Iterable[Item], *, threads: int
) -> Iterator[tuple[int, Future[Result]]]:
    """Yield the index and the finished future of function(item) for each item, as they finish.

    `items` may be endless.
    """
    executor = ThreadPoolExecutor(threads)
    finished: queue.SimpleQueue[Future[Result]] = queue.SimpleQueue()
    running: dict[Future[Result], int] = {}

    def take_finished() -> tuple[int, Future[Result]]:
        future = finished.get()
        return running.pop(future), future

    try:
        for index, item in enumerate(items):
            future = executor.submit(function, item)
            running[future] = index
            future.add_done_callback(finished.put)
            while len(running) >= _PREFETCH * threads or not finished.empty():
                yield take_finished()
        while running:
            yield take_finished()
    finally:
        # This does not wait: a user who presses Ctrl-C does not want the rest to finish first.
        executor.shutdown(wait=False, cancel_futures=True)


def map_results(
    function: Callable[[Item], Result], items: Iterable[Item], *, threads: int
) -> Iterator[tuple[int, Result | Exception]]:
    """Yield the index of each item and the result of function(item), or the exception that it raised.

    An exception that is not an Exception, such as KeyboardInterrupt, is raised.
    """
    for index, future in map_futures(function, items, threads=threads):
        error = future.exception()
        if error is None:
            yield index, future.result()
        elif isinstance(error, Exception):
            yield index, error
        else:
            raise error
