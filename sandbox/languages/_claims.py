"""The claims of a submission's object about itself as data: its length, its items and its iteration."""

from collections.abc import Callable, Iterator
from typing import Any, NoReturn

_END = object()


class Claims:
    """The claims of one object, valid until the test calls or changes an object.

    Data does not change between two reads, and its length is the number of its items. An object of the submission could
    pass a test by contradictory claims, such as a false length, or different items at each read. So this class requests
    each claim only once, and fails the test if two claims contradict each other.

    request          requests the object's "len", or its "getitem" with a key
    start_iteration  returns a new iterator over the object
    is_ordered       whether a slice must match the items of the iteration
    fail_test        fails the test with a reason
    """

    def __init__(
        self,
        request: Callable[..., Any],
        start_iteration: Callable[[], Iterator[Any]],
        is_ordered: bool,
        fail_test: Callable[[str], NoReturn],
    ) -> None:
        self._request, self._start_iteration = request, start_iteration
        self._is_ordered, self._fail_test = is_ordered, fail_test
        self._length: int | None = None
        self._items_by_key: dict[Any, Any] = {}  # (type of the key, key) -> item
        self._items: list[Any] = []  # items of the iteration so far
        self._iterator: Iterator[Any] | None = None
        self._is_complete = False

    def get_length(self) -> int:
        if self._length is None:
            length = self._request("len")
            if type(length) is not int:
                raise TypeError(f"the submission returned {type(length).__name__}, not int")
            self._length = length
            self._check_length()
        return self._length

    def iterate_items(self) -> Iterator[Any]:
        """Yield the items. Iterates the object only once."""
        if self._iterator is None:
            self._iterator = self._start_iteration()
        index = 0
        while True:
            if index == len(self._items):
                item = _END if self._is_complete else next(self._iterator, _END)
                if item is _END:
                    self._is_complete = True
                    self._check_length()
                    return
                self._items.append(item)
                self._check(item, self._items_by_key.get((int, index), item))
            yield self._items[index]
            index += 1

    def get_item(self, key: Any) -> Any:
        if type(key) is slice:
            value = self._request("getitem", key)
            if self._is_ordered and type(value) in (list, tuple, str):
                self._check(list(value), list(self.iterate_items())[key])
            return value
        try:
            is_known = (typed_key := (type(key), key)) in self._items_by_key
        except TypeError:  # an unhashable key
            return self._request("getitem", key)
        if not is_known:
            item = self._items_by_key[typed_key] = self._request("getitem", key)
            if type(key) is int and (0 <= key < len(self._items) or (key < 0 and self._is_complete)):
                self._check(item, self._items[key] if -len(self._items) <= key else self)
        return self._items_by_key[typed_key]

    def _check_length(self) -> None:
        if self._is_complete and self._length not in (None, len(self._items)):
            self._fail_test(f"an object has the length {self._length} and yields {len(self._items)} items")

    def _check(self, one: Any, other: Any) -> None:
        is_data = not (hasattr(type(one), "__kind__") or hasattr(type(other), "__kind__"))  # proxies never equal data
        if is_data and not (one is other or one != one or (type(one) is type(other) and one == other)):
            self._fail_test("the item of an object at an index differs from the one that its iteration yielded")
