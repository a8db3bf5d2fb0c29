"""A parallel map in threads that reads only a few items ahead."""

import contextlib
import queue
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

_PREFETCH = 2  # maximum number of items per thread that are in progress or waiting


def map_results(
    function: Callable[[Item], Result], items: Iterable[Item], *, threads: int
) -> Iterator[tuple[int, Result | Exception]]:
    """Yield the index of each item, and the result or exception of function(item), in order of completion.

    `items` may be infinite. If `function` raises a BaseException other than Exception, such as KeyboardInterrupt, the
    iterator raises it.
    """
    # Futures would be slow: their locks and notifications would dominate the cost per item.
    waiting: queue.SimpleQueue[tuple[int, Item] | None] = queue.SimpleQueue()  # None stops a thread
    finished: queue.SimpleQueue[tuple[int, Result | BaseException]] = queue.SimpleQueue()
    n_threads = n_open = 0

    def run_tasks() -> None:
        outcome: Result | BaseException
        while (task := waiting.get()) is not None:
            try:
                outcome = function(task[1])
            except BaseException as error:
                outcome = error
            finished.put((task[0], outcome))
            del task, outcome  # an idle thread must not keep a large item alive

    def take_result() -> tuple[int, Result | Exception]:
        index, outcome = finished.get()
        if isinstance(outcome, BaseException) and not isinstance(outcome, Exception):
            raise outcome
        return index, outcome

    try:
        for task in enumerate(items):
            waiting.put(task)
            n_open += 1
            if n_threads < min(n_open, threads):
                threading.Thread(target=run_tasks, daemon=True, name="map_results").start()
                n_threads += 1
            while n_open >= _PREFETCH * threads or not finished.empty():
                n_open -= 1
                yield take_result()
        while n_open:
            n_open -= 1
            yield take_result()
    finally:
        # Do not join the threads, so that Ctrl-C takes effect immediately.
        while not waiting.empty():
            with contextlib.suppress(queue.Empty):
                waiting.get_nowait()
        for _ in range(n_threads):
            waiting.put(None)
