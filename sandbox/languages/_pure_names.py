"""The names that a stateless program may use; see _purity.py."""

import bisect
import functools
import heapq
import itertools
import math
import operator
import string
from collections import namedtuple


def _list_public_names(module: object, *exclude: str) -> set[str]:
    return {name for name in dir(module) if not name.startswith("_")} - set(exclude)


_BUILTINS = set(
    "abs all any bin bool bytearray bytes chr complex dict divmod enumerate filter float format frozenset hasattr hash"
    " hex int isinstance issubclass iter len list map max min next object oct ord pow print range repr reversed round"
    " set slice sorted str sum tuple zip Ellipsis NotImplemented ArithmeticError AssertionError Exception IndexError"
    " KeyError LookupError NotImplementedError OverflowError RecursionError RuntimeError StopIteration TypeError"
    " ValueError ZeroDivisionError __name__".split()
)
_PYTHON_CODE = {"merge", "nlargest", "nsmallest"}  # functions of heapq written in Python; the others are in C
# Names of immutable objects, from which a program can reach no mutable object.
IMMUTABLE_NAMES = frozenset(
    _BUILTINS
    | _list_public_names(math)
    | _list_public_names(itertools)
    | _list_public_names(bisect, "bisect")
    | (_list_public_names(heapq, "heapq") & {"heapify", "heappop", "heappush", "heappushpop", "heapreplace"})
    | _list_public_names(operator, "attrgetter", "is_", "is_not", "methodcaller")
    | {name for name in _list_public_names(string) if isinstance(getattr(string, name), str)}
    | set("cmp_to_key date defaultdict deque maxsize partial reduce timedelta".split())
)
# Names of mutable objects: a program may only call them or use them as decorators.
CALL_ONLY_NAMES = frozenset(
    "Counter OrderedDict bisect cache classmethod copy dataclass datetime deepcopy lru_cache namedtuple property"
    " setrecursionlimit staticmethod super total_ordering".split()
) | frozenset(_PYTHON_CODE)
TYPING = frozenset(
    "Any Callable Deque DefaultDict Dict FrozenSet Generator Iterable Iterator List Literal Mapping Optional Sequence"
    " Set Tuple Type Union".split()
)
MODULES = frozenset(
    "__future__ bisect collections copy dataclasses datetime functools heapq itertools math operator string sys"
    " typing".split()
)
ANNOTATIONS = IMMUTABLE_NAMES | CALL_ONLY_NAMES | TYPING
METHODS = frozenset(
    name
    for kind in (str, list, dict, set, frozenset, tuple, int, float, bytes, bytearray, complex)
    for name in dir(kind)
    if not name.startswith("_")
) | frozenset(
    "appendleft extendleft popleft rotate maxlen move_to_end elements most_common subtract total year month day days"
    " seconds weekday isoweekday total_seconds cache_clear from_iterable value args send close setter _replace _asdict"
    " _fields __init__".split()
)
# Attributes by which a program could reach other library objects, or the library's caches.
ESCAPING_ATTRIBUTES = frozenset(
    name
    for kind in (type, functools.cache(len), namedtuple("_Pair", ()))
    for name in dir(kind)
    if not name.startswith("__")
) - METHODS | {"obj", "strptime"}
# The special methods that a class may define. Other special methods get exception classes as arguments, control
# copying, or run during garbage collection.
SPECIAL_METHODS = frozenset(
    f"__{name}__"
    for name in "init post_init repr str len iter next reversed contains getitem setitem delitem missing call bool hash"
    " eq ne lt le gt ge neg pos abs invert int float index".split()
) | frozenset(
    f"__{side}{name}__"
    for side in ("", "r", "i")
    for name in "add sub mul matmul truediv floordiv mod pow and or xor lshift rshift".split()
)
