"""The program that calls a completion's function in the sandbox, and writes the return values.

It reads one JSON object from stdin:

    programs      source texts, the completion's last
    entry_point   name of the function
    inputs        encoded lists of arguments
    limits        CPU seconds of each call; 0: no limit

It writes a line for each call to the original stdout. An error is the last line:

    v SECONDS JSON     the CPU time of the call, and the encoded value
    d SECONDS DIGEST   the same for JSON above MAX_JSON_CHARS: a digest of the canonical text
    e NAME             no value: `compile` if the completion does not compile, or the class of its exception

A call above its limit ends the process by SIGPROF. The completion controls the process, so the lines are untrusted, and
the process holds no expected values.

None, bool, str, float, small int and list are themselves in JSON; other values are objects with one key (see `encode`).
Equal values (==) have the same canonical text. NaN and values other than plain data equal nothing. The trusted side
also imports this module, to encode inputs and compare values.
"""

import hashlib
import json
import os
import re
import signal
import sys
import time
import types
from decimal import Decimal
from fractions import Fraction
from itertools import chain, islice

# Only this file enters the sandbox, so it imports no other module of this project, and `typing` not at run time.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

MAX_JSON_CHARS = 65536  # characters of JSON
UNEQUAL = "unequal"  # digest of a value that equals nothing
_SMALL = 1 << 63  # larger integers are hexadecimal text, since conversion to decimals takes quadratic time
_MAX_ITEMS = 10_000  # maximum number of items read from an iterator
_PLAIN = frozenset([str, float, bool, type(None)])
_REPR_TYPES = frozenset([str, int, type(None)])  # repr gives their canonical text, as that of _NUMBERS
_NUMBERS = frozenset([float, bool])
_NESTED = frozenset([list, tuple])
_VIEWS: "tuple[type, ...]" = (type({}.keys()), type({}.items()))  # == compares them as sets
_SIZED = (str, list, tuple, dict, set, frozenset)
_BASES = (int, float, complex, str, list, tuple, set, frozenset, dict, bytes, bytearray)
_LONG_NUMBER = re.compile(r"\d{19}")
_DIGITS = 4300  # Python's default limit for integers as text, which the sandbox lifts
_CHUNKS = 1000  # pieces of text per hash update, and list items per repr


class IncomparableValueError(Exception):
    """A value that equals nothing, such as NaN."""


class EncodingTooLarge(Exception):
    """An encoding longer than MAX_JSON_CHARS."""


class UnhashedSet:
    """A set from a hostile program, whose members must not be hashed."""

    def __init__(self, items: "list[Any]") -> None:
        self.items = items


class UnhashedDict:
    """A dict from a hostile program, whose keys must not be hashed."""

    def __init__(self, items: "list[Any]") -> None:
        self.items = items


class SizeBudget:
    """The remaining characters of an encoding."""

    def __init__(self) -> None:
        self._left = MAX_JSON_CHARS

    def spend(self, characters: int) -> None:
        self._left -= characters
        if self._left < 0:
            raise EncodingTooLarge


def encode(value: "Any", budget: "SizeBudget | None" = None) -> "Any":
    """Encode a value as JSON; other than plain data as {"o": [class, items if iterable]}.

    Raises EncodingTooLarge if it exceeds the budget.
    """
    kind = type(value)
    if budget is not None:
        budget.spend(1 + len(value) if kind in _SIZED else 1)
    if kind in _PLAIN:
        return value
    if kind is int:
        return value if -_SMALL < value < _SMALL else {"i": f"{value:x}"}
    if kind is list:
        return [encode(item, budget) for item in value]
    if kind is tuple:
        return {"t": [encode(item, budget) for item in value]}
    if kind in (set, frozenset, *_VIEWS):
        return {"s": [encode(item, budget) for item in value]}
    if kind is dict:
        return {"d": [[encode(key, budget), encode(item, budget)] for key, item in value.items()]}
    if kind in (bytes, bytearray):
        return {"b": value.hex()}
    if kind is complex:
        return {"c": [value.real, value.imag]}
    if kind is Fraction or (kind is Decimal and value.is_finite()):
        return {"a": [kind.__name__, {"r": [encode(part) for part in value.as_integer_ratio()]}]}
    plain = _to_plain(value, kind)
    if plain is not value:
        return {"a": [kind.__name__, encode(plain, budget)]}
    try:
        return {"o": [kind.__name__, [encode(item, budget) for item in islice(value, _MAX_ITEMS)]]}
    except EncodingTooLarge:
        raise
    except Exception:  # the program's class may raise anything
        return {"o": [kind.__name__]}


def _to_plain(value: "Any", kind: type) -> "Any":
    """Return the plain value of a numpy scalar or of an instance of a subclass; others unchanged."""
    if kind.__module__ == "numpy" and hasattr(value, "item") and getattr(value, "shape", None) == ():
        return value.item()
    for base in _BASES:
        if issubclass(kind, base):
            return base.__index__(value) if base is int else base.__str__(value) if base is str else base(value)
    return value


def decode(tree: "Any", *, untrusted: bool = False) -> "Any":
    """Decode a value.

    untrusted: whether to decode sets and dicts as UnhashedSet and UnhashedDict

    Raises LookupError, TypeError or ValueError for an invalid encoding, and IncomparableValueError for other than plain
    data.
    """
    if isinstance(tree, list):
        return [decode(item, untrusted=untrusted) for item in tree]
    if not isinstance(tree, dict):
        return tree
    ((tag, content),) = tree.items()
    if tag == "i":
        return int(content, 16)
    if tag == "c":
        return complex(*content)
    if tag == "b":
        return bytes.fromhex(content)
    if tag == "r":
        return Fraction(*(decode(part) for part in content))
    if tag == "a":
        return decode(content[1], untrusted=untrusted)
    if tag == "o":
        raise IncomparableValueError
    items = [decode(item, untrusted=untrusted) for item in content]
    if tag == "d":
        return UnhashedDict(items) if untrusted else {key: item for key, item in items}
    if tag == "s":
        return UnhashedSet(items) if untrusted else set(items)
    return {"t": tuple}[tag](items)


def canonical_text(value: "Any") -> str:
    """Return a text shared by equal values. Raises IncomparableValueError."""
    pieces: list[str] = []
    _add(value, pieces.append)
    return "".join(pieces)


def digest(value: "Any") -> str:
    """Return a digest of the canonical text, without building it in memory; or UNEQUAL."""
    hashed = hashlib.sha256()
    pieces: list[str] = []

    def add(piece: str) -> None:
        pieces.append(piece)
        if len(pieces) >= _CHUNKS:
            hashed.update("".join(pieces).encode("utf-8", "surrogatepass"))
            pieces.clear()

    try:
        _add(value, add)
    except IncomparableValueError:
        return UNEQUAL
    hashed.update("".join(pieces).encode("utf-8", "surrogatepass"))
    return hashed.hexdigest()


def _add(value: "Any", add: "Callable[[str], object]") -> None:
    """Emit the pieces of the canonical text."""
    kind = type(value)
    if kind is list or kind is tuple:
        add("[" if kind is list else "(")
        for begin in range(0, len(value), _CHUNKS):
            some = value[begin : begin + _CHUNKS]
            text = _format_plain(some)
            if begin:
                add(", ")
            if text is not None:
                add(text)
            else:
                _add_each(some, add)
        add("]" if kind is list else ",)" if len(value) == 1 else ")")
    elif kind in (set, frozenset, UnhashedSet, *_VIEWS):
        add("{" + ", ".join(sorted(map(canonical_text, value.items if kind is UnhashedSet else value))) + "}")
    elif kind is dict or kind is UnhashedDict:
        pairs = value.items if kind is UnhashedDict else value.items()
        add("d{" + ", ".join(sorted(f"{canonical_text(key)}: {canonical_text(item)}" for key, item in pairs)) + "}")
    else:
        add(_format(value, kind))


def _add_each(items: "Any", add: "Callable[[str], object]") -> None:
    for index, item in enumerate(items):
        if index:
            add(", ")
        _add(item, add)


def _format_plain(items: "Any") -> "str | None":
    """Return the text of strings, small integers, and flat lists and tuples of these, by repr; None otherwise."""
    kinds = set(map(type, items))
    if kinds <= _NESTED:
        kinds = set(map(type, chain.from_iterable(items)))
    elif kinds & _NUMBERS and kinds <= _REPR_TYPES | _NUMBERS:
        items = [_to_plain_number(item) if type(item) in _NUMBERS else item for item in items]
        kinds = {int}
    if not kinds <= _REPR_TYPES:
        return None
    try:
        text = repr(list(items))[1:-1]
    except ValueError:  # an integer exceeds sys.set_int_max_str_digits
        return None
    return None if int in kinds and _LONG_NUMBER.search(text) else text


def _format(value: "Any", kind: type) -> str:
    if value is None or kind is str:
        return repr(value)
    if kind is int:
        return repr(value) if -_SMALL < value < _SMALL else f"{value:x}h"
    if kind is float or kind is bool:
        number = _to_plain_number(value)
        return repr(number) if kind is bool or type(number) is float else _format(number, int)
    if kind is complex:
        real, imaginary = _format(value.real, float), _format(value.imag, float)
        return real if value.imag == 0 else f"c({real}, {imaginary})"
    if kind in (bytes, bytearray):
        return repr(bytes(value))
    if kind is Fraction or (kind is Decimal and value.is_finite()):
        return _format_ratio(*value.as_integer_ratio())
    plain = _to_plain(value, kind)
    if plain is value:
        raise IncomparableValueError
    return canonical_text(plain)


def _to_plain_number(value: "float | bool") -> "int | float":
    """Convert an integral number to int. Raises IncomparableValueError for NaN."""
    if value != value:
        raise IncomparableValueError
    return int(value) if type(value) is bool or value.is_integer() else value


def _format_ratio(numerator: int, denominator: int) -> str:
    if denominator == 1:
        return _format(numerator, int)
    try:
        number = numerator / denominator
        if number.as_integer_ratio() == (numerator, denominator):
            return repr(number)
    except OverflowError:
        pass
    return f"{numerator:x}/{denominator:x}"


def main() -> None:
    with open(0, "rb", closefd=False) as stdin:
        request = json.loads(stdin.read())
    report = os.dup(1)
    null = os.open("/dev/null", os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(null, stream)
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    sys.set_int_max_str_digits(_DIGITS)
    try:
        _run_calls(request, report)
    except BaseException as error:
        _write(report, f"e {type(error).__name__[:80]}")
    os._exit(0)  # no exit handlers or threads of the completion; the sandbox kills its child processes


def _run_calls(request: "dict[str, Any]", report: int) -> None:
    module = types.ModuleType("solution")
    sys.modules["solution"] = module
    try:
        compiled = [compile(program, "solution.py", "exec") for program in request["programs"]]
    except (SyntaxError, ValueError):
        _write(report, "e compile")
        return
    for code in compiled:
        exec(code, vars(module))
    function = vars(module)[request["entry_point"]]
    for tree, limit in zip(request["inputs"], request["limits"], strict=True):
        arguments = decode(tree)
        signal.setitimer(signal.ITIMER_PROF, limit)
        begun = time.process_time()
        value = function(*arguments)
        seconds = time.process_time() - begun
        signal.setitimer(signal.ITIMER_PROF, 0)
        _write(report, _format_line(value, seconds))


def _format_line(value: "Any", seconds: float) -> str:
    try:
        text = json.dumps(encode(value, SizeBudget()), separators=(",", ":"), check_circular=False)
        if len(text) <= MAX_JSON_CHARS:
            return f"v {seconds:.6f} {text}"
    except EncodingTooLarge:
        pass
    return f"d {seconds:.6f} {digest(value)}"


def _write(report: int, line: str) -> None:
    data = line.encode() + b"\n"
    while data:
        data = data[os.write(report, data) :]


if __name__ == "__main__":
    main()
