"""What the process of a submission and that of its tests send to each other: frames of JSON with values inside.

A frame is eight bytes that hold its length, and a JSON object. Values are never pickled:

    atoms                        None, bool, str, and numbers that JSON can hold, as they are
    [tag, ...]                   everything else
    ["m", place]                 a mutable object, whose content stands at this place among the nodes of the frame: so
                                 that shared objects stay shared, and cycles are possible

Both sides use the same codec. It takes no code from the other side: each tag stands for one type that is known here.
Objects that are not data are encoded and decoded by each side in its own way, see `Codec.reference` and
`Codec.referred`.
"""

import contextlib
import json
import os
import sys
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from pathlib import PosixPath, PurePosixPath, PureWindowsPath
from typing import Any

_LEVELS = 200_000
_HEADER_BYTES = 8  # bytes before each frame
_CHUNK_BYTES = 1 << 20
_MAX_BYTES = 64 << 20  # of a frame
_MAX_MARKS = 4_000_000  # brackets and commas in a frame, which bound the objects that it becomes
_SMALL = 1 << 63  # smaller integers are written in decimal, since larger ones would take quadratic time
_IMMUTABLE: dict[type, Callable[[Any], list[Any]]] = {
    Decimal: lambda value: [str(value)],
    Fraction: lambda value: [value.numerator, value.denominator],
    range: lambda value: [value.start, value.stop, value.step],
    slice: lambda value: [value.start, value.stop, value.step],
    datetime: lambda v: [v.year, v.month, v.day, v.hour, v.minute, v.second, v.microsecond, v.tzinfo],
    date: lambda value: [value.year, value.month, value.day],
    time: lambda value: [value.hour, value.minute, value.second, value.microsecond, value.tzinfo],
    timezone: lambda value: [value.utcoffset(None)],
    timedelta: lambda value: [value.days, value.seconds, value.microseconds],
    **dict.fromkeys((PosixPath, PurePosixPath, PureWindowsPath), lambda value: [str(value)]),
}
_NAMED = {kind.__name__: kind for kind in _IMMUTABLE}
_LISTS: dict[type, str] = {list: "l", deque: "q", set: "s"}
_DICTS: dict[type, str] = {dict: "d", OrderedDict: "o", Counter: "n", defaultdict: "e"}
_VIEWS: dict[type, str] = {
    type(getattr(kind(), name)()): name for kind in (dict, OrderedDict) for name in ("keys", "values", "items")
}
WRAPPER_ATTRIBUTES = (
    "__name__",
    "__qualname__",
    "__module__",
    "__doc__",
)  # what functools.wraps copies, other than annotations
_SINGLETONS = {"Ellipsis": ..., "NotImplemented": NotImplemented}
_MAKERS: dict[str, Callable[[], Any]] = {
    **{tag: kind for kind, tag in (_LISTS | _DICTS).items()},
    "y": bytearray,
}
_ATOMS = frozenset([str, bool, type(None)])
# Instances of classes with these bases are not made of attributes alone, and travel as what they contain.
_NOT_OF_ATTRIBUTES = (list, dict, set, frozenset, str, bytes, bytearray, int, float, complex, BaseException)


class ProtocolError(Exception):
    """The other side has sent something that is not a frame, or a frame with impossible values."""


@contextlib.contextmanager
def allow_deep_recursion() -> Iterator[None]:
    """Let linked structures of many thousand nodes be encoded or decoded: each takes a few levels of recursion."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, _LEVELS))
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)


class PeerDisconnected(Exception):
    """The other side has ended."""


class FrameStream:
    """A connection to the other side, by two descriptors of our own."""

    def __init__(self, source: int, sink: int) -> None:
        self._source, self._sink = source, sink
        # Looked up before a program can replace them: what an honest one patches must not reach us.
        self._read, self._write, self._loads, self._dumps = os.read, os.write, json.loads, json.dumps

    def send(self, frame: dict[str, Any]) -> None:
        """Send a frame. Raises Gone."""
        text = self._dumps(frame, check_circular=False, separators=(",", ":"), allow_nan=False).encode()
        view = memoryview(len(text).to_bytes(_HEADER_BYTES, "little") + text)
        try:
            while view:
                view = view[self._write(self._sink, view) :]
        except BrokenPipeError:
            raise PeerDisconnected from None

    def receive(self) -> dict[str, Any]:
        """Return the next frame. Raises PeerDisconnected and ProtocolError."""
        length = int.from_bytes(self._exactly(_HEADER_BYTES), "little")
        if length > _MAX_BYTES:
            raise ProtocolError("it is too large")
        text = self._exactly(length)
        if text.count(b",") + text.count(b"[") + text.count(b"{") > _MAX_MARKS:
            raise ProtocolError("it has too many parts")
        try:
            frame = self._loads(text, parse_constant=_refuse)
        except (ValueError, RecursionError) as error:
            raise ProtocolError(f"it is not JSON: {error}"[:200]) from None
        if type(frame) is not dict:
            raise ProtocolError("it is not a JSON object")
        return frame

    def _exactly(self, count: int) -> bytes:
        data = bytearray()
        while len(data) < count:
            piece = self._read(self._source, min(_CHUNK_BYTES, count - len(data)))
            if not piece:
                raise PeerDisconnected
            data += piece
        return bytes(data)


def _refuse(name: str) -> None:
    raise ValueError(name)


class Codec:
    """Encodes and decodes values for one side.

    class_of      returns the class of this name whose instances travel by value, or None
    name_of       returns that name for the class of an object, or None
    reference     encodes an object that is not data; raises TypeError
    referred      decodes what `reference` of the other side has written; raises ProtocolError
    hides         tells whether no attribute of an instance may have this value
    """

    def __init__(
        self,
        *,
        class_of: Callable[[str], type | None],
        name_of: Callable[[type], str | None],
        reference: Callable[["ObjectGraph", Any], Any],
        referred: Callable[["ObjectGraph", list[Any]], Any],
        hides: Callable[[Any], bool] = lambda value: False,
    ) -> None:
        self.class_of, self.name_of = class_of, name_of
        self.reference, self.referred, self.hides = reference, referred, hides


class ObjectGraph:
    """The nodes of one exchange: those of a question, and after them those of its answer.

    objects   the mutable objects, by their places
    bodies    their encoded contents
    """

    def __init__(self, codec: Codec) -> None:
        self._codec = codec
        self.objects: list[Any] = []
        self.bodies: list[Any] = []
        self._places: dict[int, int] = {}

    def encode(self, value: Any) -> Any:
        """Return a value as JSON, and note its mutable parts. Raises TypeError and RecursionError."""
        kind = type(value)
        if kind in _ATOMS:
            return value
        if kind is int:
            return value if -_SMALL < value < _SMALL else ["i", f"{value:x}"]
        if kind is float:
            return value if value - value == 0 else ["f", repr(value)]
        if kind in _LISTS or kind in _DICTS or kind is bytearray:
            return self._node(value)
        if kind is tuple or kind is frozenset:
            return ["t" if kind is tuple else "z", [self.encode(item) for item in value]]
        if kind is bytes:
            return ["b", value.hex()]
        if kind is complex:
            return ["c", repr(value.real), repr(value.imag)]
        if kind in _IMMUTABLE:
            return ["x", kind.__name__, [self.encode(part) for part in _IMMUTABLE[kind](value)]]
        if kind in _VIEWS:
            return ["w", _VIEWS[kind], self.encode(value.mapping.copy())]
        if value is ... or value is NotImplemented:
            return ["s", repr(value)]
        name = self._codec.name_of(kind)
        if name is not None and issubclass(kind, Enum):
            return ["U", name, self.encode(value._value_)]
        if name is not None and issubclass(kind, tuple):
            return ["T", name, [self.encode(item) for item in tuple.__iter__(value)]]
        if name is not None and not issubclass(kind, _NOT_OF_ATTRIBUTES):
            return self._node(value)
        return self._codec.reference(self, value)

    def _node(self, value: Any) -> list[Any]:
        place = self._places.get(id(value))
        if place is None:
            place = self._places[id(value)] = len(self.objects)
            self.objects.append(value)
            self.bodies.append(None)
            self.bodies[place] = self.encode_body(value)
        return ["m", place]

    def truncate(self, n_nodes: int) -> None:
        """Forget all nodes but the first ones, since what came after them could not be encoded to its end."""
        for value in self.objects[n_nodes:]:
            self._places.pop(id(value), None)
        del self.objects[n_nodes:], self.bodies[n_nodes:]

    def encode_body(self, value: Any) -> list[Any]:
        """Return the encoded content of a mutable object."""
        kind = type(value)
        if kind in _LISTS:
            more = [value.maxlen] if kind is deque else []
            return [_LISTS[kind], [self.encode(item) for item in value], *more]
        if kind in _DICTS:
            factory = [self.encode(value.default_factory)] if kind is defaultdict else []
            return [_DICTS[kind], [[self.encode(key), self.encode(item)] for key, item in value.items()], *factory]
        if kind is bytearray:
            return ["y", value.hex()]
        return ["v", self._codec.name_of(kind), [[name, self.encode(part)] for name, part in get_attributes(value)]]

    def add(self, bodies: Any) -> None:
        """Add the nodes that a frame has brought. Raises ProtocolError."""
        if type(bodies) is not list:
            raise ProtocolError("its nodes are not a list")
        begin = len(self.objects)
        for place, body in enumerate(bodies, begin):
            made = self._made(body)
            self.objects.append(made)
            self.bodies.append(body)
            self._places[id(made)] = place
        # What may be a key, or tell whether two keys are equal, comes first.
        for tags in ("v", "lqy", "doen", "s"):
            for place in range(begin, len(self.objects)):
                if self.bodies[place][0] in tags:
                    self.fill(self.objects[place], self.bodies[place])

    def _made(self, body: Any) -> Any:
        match body:
            case ["v", str(name), list()]:
                kind = self._codec.class_of(name)
                if kind is None:
                    raise ProtocolError(f"there is no class {name[:80]!r}")
                try:
                    return object.__new__(kind)
                except TypeError as error:
                    raise ProtocolError(f"it has an instance that cannot be: {error}"[:200]) from None
            case ["q", list(), int() | None as maxlen]:
                return deque(maxlen=maxlen)
            case ["e", list(), _]:
                return defaultdict()
            case [str(tag), list() | str()] if tag in _MAKERS:
                return _MAKERS[tag]()
        raise ProtocolError("it has a node of an unknown kind")

    def fill(self, value: Any, body: Any) -> None:
        """Give a mutable object this content, in place of its own. Raises ProtocolError."""
        try:
            match body:
                case ["v", _, list(parts)]:
                    held = [(name, self.decode(part)) for name, part in parts]
                    if any(self._codec.hides(part) for _, part in held):
                        raise ProtocolError("it has an instance whose attribute would act as a method")
                    set_attributes(value, held)
                case ["y", str(text)]:
                    value[:] = bytes.fromhex(text)
                case ["l" | "q", list(parts), *_]:
                    items = [self.decode(part) for part in parts]
                    value.clear()
                    value.extend(items)
                case ["s", list(parts)]:
                    items = [self.decode(part) for part in parts]
                    value.clear()
                    value.update(items)
                case ["d" | "o" | "n" | "e", list(parts), *factory]:
                    pairs = [(self.decode(key), self.decode(part)) for key, part in parts]
                    value.clear()
                    for key, part in pairs:  # an OrderedDict has an order besides that of the dict, a Counter adds up
                        value[key] = part
                    if factory:
                        value.default_factory = self.decode(factory[0])
                case _:
                    raise ProtocolError("it has a node of an unknown kind")
        except (TypeError, ValueError, AttributeError, OverflowError) as error:
            raise ProtocolError(f"it has an impossible node: {error}"[:200]) from None

    def decode(self, raw: Any) -> Any:
        """Return a value from its JSON. Raises ProtocolError."""
        kind = type(raw)
        if kind in _ATOMS or kind is int or kind is float:
            return raw
        try:
            match raw:
                case ["m", int(place)] if 0 <= place < len(self.objects):
                    return self.objects[place]
                case ["t", list(parts)]:
                    return tuple(self.decode(part) for part in parts)
                case ["z", list(parts)]:
                    return frozenset(self.decode(part) for part in parts)
                case ["i", str(digits)]:
                    return int(digits, 16)
                case ["f", str(text)] if text in ("nan", "inf", "-inf"):
                    return float(text)
                case ["b", str(text)]:
                    return bytes.fromhex(text)
                case ["c", str(real), str(imaginary)]:
                    return complex(float(real), float(imaginary))
                case ["x", str(name), list(parts)] if name in _NAMED:
                    values = [self.decode(part) for part in parts]
                    if name == "Fraction" and any(type(value) is not int for value in values):  # no '1e99999999'
                        raise ProtocolError("it has a fraction that is not of integers")
                    return _NAMED[name](*values)
                case ["w", str(name), content] if name in _VIEWS.values():
                    return self._view(name, self.decode(content))
                case ["s", str(name)] if name in _SINGLETONS:
                    return _SINGLETONS[name]
                case ["U" | "T" as tag, str(name), content]:
                    return self._instance(tag, name, content)
                case [str(), *_]:
                    return self._codec.referred(self, raw)
        except (TypeError, ValueError, ArithmeticError) as error:
            raise ProtocolError(f"it has an impossible value: {error}"[:200]) from None
        raise ProtocolError("it has a value of an unknown kind")

    def _view(self, name: str, viewed: Any) -> Any:
        if type(viewed) not in _DICTS:
            raise ProtocolError("it has a view of something other than a dict")
        return getattr(viewed, name)()

    def _instance(self, tag: str, name: str, content: Any) -> Any:
        """Return an immutable instance of a class whose instances travel by value: of an Enum, or a named tuple."""
        kind = self._codec.class_of(name)
        if tag == "U" and kind is not None and issubclass(kind, Enum):
            return kind(self.decode(content))
        if tag == "T" and kind is not None and issubclass(kind, tuple) and type(content) is list:
            made = tuple.__new__(kind, map(self.decode, content))
            if len(made) == len(getattr(kind, "_fields", made)):
                return made
        raise ProtocolError(f"it has an instance of {name[:80]!r} that cannot be")


def get_attributes(value: Any) -> list[tuple[str, Any]]:
    """Return what an instance holds, in its __dict__ and its slots."""
    held = list(getattr(value, "__dict__", {}).items())
    for kind in type(value).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if not name.startswith("__") and hasattr(value, name):
                held.append((name, getattr(value, name)))
    return held


def set_attributes(value: Any, parts: list[tuple[str, Any]]) -> None:
    """Make these the only attributes of an instance. Raises TypeError for a name that hides a part of its class."""
    getattr(value, "__dict__", {}).clear()
    for name, part in parts:
        if name.startswith("__") or _is_code(getattr(type(value), name, None)):
            raise TypeError(f"{name[:80]!r} would hide a part of the class")
        object.__setattr__(value, name, part)


def _is_code(part: object) -> bool:
    return callable(part) or isinstance(part, property | classmethod | staticmethod)
