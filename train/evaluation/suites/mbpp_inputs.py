"""The types of MBPP+'s arguments, which the JSON of its file does not keep: tuples, sets and complex numbers.

EvalPlus restores them by the numbers of the tasks, and so does this module. The form of the same data on the Hub has
them as Python literals.
"""

from collections.abc import Callable
from typing import Any

Converter = Callable[[Any], Any]


def restore_types(task_number: int, arguments: list[Any]) -> list[Any]:
    """Return the arguments of a call as the task with this number takes them."""
    change = _CHANGES.get(task_number)
    return arguments if change is None else list(change(arguments))


def _each(change: Converter) -> Converter:
    return lambda items: [change(item) for item in items]


def _tuple_of(change: Converter) -> Converter:
    return lambda items: tuple(change(item) for item in items)


def _at(place: int, change: Converter) -> Converter:
    return lambda items: [change(item) if number == place else item for number, item in enumerate(items)]


def _tuple_if_list(item: Any) -> Any:
    return tuple(item) if isinstance(item, list) else item


def _deeply(item: Any) -> Any:
    return tuple(map(_deeply, item)) if isinstance(item, list) else item


def _set_or_empty_dict(item: Any) -> Any:
    return set(item) if item else {}


def _values(change: Converter) -> Converter:
    return lambda table: {key: change(value) for key, value in table.items()}


def _number_and_complex(arguments: list[Any]) -> list[Any]:
    return [float(arguments[0]), complex(arguments[1])]


# For each way in which arguments change, the numbers of the tasks.
_TASKS: list[tuple[Converter, str]] = [
    (_each(tuple), "2 116 132 143 222 261 273 394 399 421 424 429 470 560 579 596 616 630 726 740 744 809"),
    (_each(_each(tuple)), "63 64 70 94 120 237 272 299 400 409 417 438 473 614 780"),
    (_each(_tuple_of(tuple)), "259 401 445"),
    (_each(_tuple_of(_tuple_if_list)), "278"),
    (_each(_deeply), "580 615 791"),
    (_at(0, _each(tuple)), "75 413 444 753"),
    (_at(0, tuple), "250 307 405 446 617 720 763 808"),
    (_at(1, tuple), "106 750"),
    (_at(0, _each(_set_or_empty_dict)), "115"),
    (_at(0, _values(tuple)), "722"),
    (_at(0, complex), "252"),
    (_number_and_complex, "124"),
]
_CHANGES = {int(number): change for change, numbers in _TASKS for number in numbers.split()}
