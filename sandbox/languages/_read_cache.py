"""The claims of an object that may stand in place of data: its length, its items and what iteration yields.

Data does not change between two reads, and its length is the number of its items. An object of the submission could
claim one length and yield other items, or other items each time, and so pass a test that reads it in several ways. Here
a claim is kept until the test calls or changes something, and a claim that contradicts an earlier one ends the test.
"""

from collections.abc import Callable, Iterator
from typing import Any, NoReturn, Protocol

# Operations that change nothing. Any other one lets all claims lapse.
READ_ONLY_OPERATIONS = frozenset(
    "get len iter next getitem reversed bool str repr format hash int float complex index round neg pos abs invert"
    " eq ne lt le gt ge contains".split()
)


class ProxyTransport(Protocol):
    """The connection of proxies to the submission.

    read_caches          the claims that hold, by object
    exhausted_iterators  numbers of the iterators that have come to their end, of which no item can come any more
    """

    read_caches: "dict[Any, ReadCache]"
    exhausted_iterators: set[Any]

    def request(self, operation: str, /, *arguments: Any, **named: Any) -> Any: ...

    def fail_test(self, reason: str) -> NoReturn:
        """End the test: it has failed."""
        ...


class ReadCache:
    """The claims of one object.

    owner  the proxy
    """

    def __init__(self, owner: Any, asking: ProxyTransport) -> None:
        self._owner, self._asking = owner, asking
        self._length: int | None = None
        self._keyed: dict[Any, Any] = {}  # items by (type of the key, key)
        self._items: list[Any] = []  # those that iteration has yielded so far
        self._iterator: Iterator[Any] | None = None
        self._is_complete = False

    def length(self) -> int:
        if self._length is None:
            length = self._asking.request("len", self._owner)
            if type(length) is not int:
                raise TypeError(f"the submission has answered with {type(length).__name__}, not int")
            self._length = length
            self._check_length()
        return self._length

    def items(self, pull: Callable[[], Iterator[Any]]) -> Iterator[Any]:
        """Yield the items. `pull` begins the iteration, which happens once."""
        if self._iterator is None:
            self._iterator = pull()
        index = 0
        while True:
            if index == len(self._items):
                if self._is_complete:
                    return
                try:
                    item = next(self._iterator)
                except StopIteration:
                    self._is_complete = True
                    self._check_length()
                    return
                self._items.append(item)
                self._check(item, self._keyed.get((int, index), item))
            yield self._items[index]
            index += 1

    def item(self, key: Any, pull: Callable[[], Iterator[Any]] | None) -> Any:
        """Return the item at a key. pull: as for `items`; None if the object cannot be iterated."""
        if type(key) is slice:
            value = self._asking.request("getitem", self._owner, key)
            if pull is not None and type(value) in (list, tuple, str):
                self._check(list(value), list(self.items(pull))[key])
            return value
        name = type(key), key
        if name not in self._keyed:
            self._keyed[name] = self._asking.request("getitem", self._owner, key)
            if type(key) is int and (0 <= key < len(self._items) or (key < 0 and self._is_complete)):
                self._check(self._keyed[name], self._items[key] if -len(self._items) <= key else self)
        return self._keyed[name]

    def _check_length(self) -> None:
        if self._is_complete and self._length not in (None, len(self._items)):
            self._asking.fail_test(f"an object has the length {self._length} and yields {len(self._items)} items")

    def _check(self, one: Any, other: Any) -> None:
        is_data = not (hasattr(type(one), "_asking") or hasattr(type(other), "_asking"))  # proxies never equal data
        if is_data and not (one is other or one != one or (type(one) is type(other) and one == other)):
            self._asking.fail_test("an object has another item at a place than it has yielded for that place")
