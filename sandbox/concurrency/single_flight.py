"""A cache that computes each result once: a thread that needs a result in progress waits for it."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import Generic, TypeVar

Result = TypeVar("Result")


class SingleFlightCache(Generic[Result]):
    """Keeps the latest results by their keys. Any number of threads may use it.

    remembered   the number of results that are kept
    """

    def __init__(self, remembered: int) -> None:
        self._remembered = remembered
        self._lock = threading.Lock()
        self._futures: OrderedDict[Hashable, Future[Result]] = OrderedDict()

    def get(self, key: Hashable, make: Callable[[], Result], should_cache: Callable[[Result], bool]) -> Result:
        """Return the cached result of `make` for the key, or call it.

        An exception, or a result for which `should_cache` returns False, goes only to threads already waiting for
        it; a later call makes the result again.
        """
        with self._lock:
            is_first = key not in self._futures
            future = self._futures.setdefault(key, Future())
            self._futures.move_to_end(key)
            if len(self._futures) > self._remembered:
                self._futures.popitem(last=False)
        if not is_first:
            return future.result()  # without a timeout: the thread that makes it has limits
        kept = False
        try:
            result = make()
            kept = should_cache(result)
        except BaseException as error:
            future.set_exception(error)
            raise
        else:
            future.set_result(result)
            return result
        finally:
            if not kept:
                with self._lock:
                    if self._futures.get(key) is future:
                        del self._futures[key]
