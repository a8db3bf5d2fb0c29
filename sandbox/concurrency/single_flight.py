"""A cache in which concurrent calls for one key share one computation."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import Generic, TypeVar

Result = TypeVar("Result")


class SingleFlightCache(Generic[Result]):
    """A thread-safe LRU cache of at most `max_entries` results."""

    def __init__(self, max_entries: int) -> None:
        self._max_entries = max_entries
        self._lock = threading.Lock()
        self._futures: OrderedDict[Hashable, Future[Result]] = OrderedDict()

    def get(self, key: Hashable, make: Callable[[], Result], should_cache: Callable[[Result], bool]) -> Result:
        """Return the cached result for the key, or call `make`.

        Threads that wait for `make` share its exception, or a result for which `should_cache` returns False. Later
        calls compute such a result again.
        """
        with self._lock:
            is_first = key not in self._futures
            future = self._futures.setdefault(key, Future())
            self._futures.move_to_end(key)
            if len(self._futures) > self._max_entries:
                self._futures.popitem(last=False)
        if not is_first:
            return future.result()
        is_cached = False
        try:
            result = make()
            is_cached = should_cache(result)
        except BaseException as error:
            future.set_exception(error)
            raise
        else:
            future.set_result(result)
            return result
        finally:
            if not is_cached:
                with self._lock:
                    if self._futures.get(key) is future:
                        del self._futures[key]
