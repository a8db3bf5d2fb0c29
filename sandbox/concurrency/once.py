"""Results that are made once: whoever asks for one that is being made waits for it."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import Generic, TypeVar

Result = TypeVar("Result")


class Once(Generic[Result]):
    """The last `remembered` results by their keys. For any number of threads."""

    def __init__(self, remembered: int) -> None:
        self._remembered = remembered
        self._lock = threading.Lock()
        self._made: OrderedDict[Hashable, Future[Result]] = OrderedDict()

    def get(self, key: Hashable, make: Callable[[], Result], keep: Callable[[Result], bool]) -> Result:
        """What `make` returned when first asked for this key. A result that is not to be kept, and an exception, goes
        to those who wait for it already and is made anew for those who ask later."""
        with self._lock:
            mine = key not in self._made
            future = self._made.setdefault(key, Future())
            self._made.move_to_end(key)
            if len(self._made) > self._remembered:
                self._made.popitem(last=False)
        if not mine:
            return future.result()  # as long as the one who makes it needs, who has limits
        kept = False
        try:
            result = make()
            kept = keep(result)
        except BaseException as error:
            future.set_exception(error)
            raise
        else:
            future.set_result(result)
            return result
        finally:
            if not kept:
                with self._lock:
                    if self._made.get(key) is future:
                        del self._made[key]
