"""The JSON encoding of values exchanged between a submission's process and its tests. Not pickles, which run code.

    null, 5, "x"   None, a bool, a str, a finite float, or an int of less than 64 bits, unchanged
    [tag, ...]     any other value: its type and its parts
    ["node", 3]    a mutable object, whose content is the fourth node of the exchange. Nodes preserve sharing and cycles

`References` encodes and decodes objects that are not data; see _peer.py.
"""

import json
import os
from abc import ABC, abstractmethod
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum
from fractions import Fraction
from functools import partial
from pathlib import PosixPath, PurePosixPath, PureWindowsPath
from typing import Any, NamedTuple

Frame = dict[str, Any]

_HEADER_BYTES = 8  # size of the length before each frame
_CHUNK_BYTES = 1 << 16  # capacity of a pipe
_MAX_BYTES = 64 << 20  # maximum size of a frame
_MAX_MARKS = 4_000_000  # maximum number of brackets and commas in a frame, which bounds the number of decoded objects
_MAX_DECIMAL = 1 << 63  # larger integers are hexadecimal, since decimal digits take quadratic time


class ProtocolError(Exception):
    """The peer sent a malformed frame, or an invalid value."""


class PeerDisconnected(Exception):
    """The peer closed the connection."""


class FrameStream:
    """A connection to the peer over two descriptors."""

    def __init__(self, source: int, sink: int) -> None:
        self._source, self._sink = source, sink
        self._received = bytearray()
        # Stored before the program runs, so that it cannot replace these functions.
        self._read, self._write = os.read, os.write
        self._to_text = json.JSONEncoder(check_circular=False, separators=(",", ":"), allow_nan=False).encode
        self._from_text = json.JSONDecoder(parse_constant=_reject_constant).decode

    def send(self, frame: Frame) -> None:
        """Send a frame. Raises PeerDisconnected."""
        text = self._to_text(frame).encode()
        view = memoryview(len(text).to_bytes(_HEADER_BYTES, "little") + text)
        try:
            while view:
                view = view[self._write(self._sink, view) :]
        except BrokenPipeError:
            raise PeerDisconnected from None

    def receive(self) -> Frame:
        """Return the next frame. Raises PeerDisconnected and ProtocolError."""
        length = int.from_bytes(self._read_exactly(_HEADER_BYTES), "little")
        if length > _MAX_BYTES:
            raise ProtocolError("it is too large")
        text = self._read_exactly(length)
        if text.count(b",") + text.count(b"[") + text.count(b"{") > _MAX_MARKS:
            raise ProtocolError("it has too many parts")
        try:
            frame = self._from_text(text.decode())
        except (ValueError, RecursionError) as error:
            raise ProtocolError(f"it is not JSON: {error}"[:200]) from None
        if type(frame) is not dict:
            raise ProtocolError("it is not a JSON object")
        return frame

    def _read_exactly(self, count: int) -> bytearray:
        while len(self._received) < count:
            chunk = self._read(self._source, _CHUNK_BYTES)
            if not chunk:
                raise PeerDisconnected
            self._received += chunk
        taken = self._received[:count]
        del self._received[:count]
        return taken


def _reject_constant(name: str) -> None:
    raise ValueError(name)


def _split_view(kind: type, view: Any) -> list[Any]:
    return [kind(view.mapping)]


class _Value(NamedTuple):
    """The encoding of an immutable type.

    parts      returns the parts of a value
    make       creates a value from its parts
    part_type  the required type of all parts; None for any types
    """

    parts: Callable[[Any], list[Any]]
    make: Callable[..., Any]
    part_type: type | None = None


_VALUES: dict[type, _Value] = {
    int: _Value(lambda v: [f"{v:x}"], lambda digits: int(digits, 16), str),
    float: _Value(lambda v: [repr(v)], float, str),
    complex: _Value(lambda v: [repr(v.real), repr(v.imag)], lambda *parts: complex(*map(float, parts)), str),
    bytes: _Value(lambda v: [v.hex()], bytes.fromhex, str),
    tuple: _Value(list, lambda *parts: parts),
    frozenset: _Value(list, lambda *parts: frozenset(parts)),
    Decimal: _Value(lambda v: [str(v)], Decimal, str),
    # Not from a str: Fraction("1e99999999") computes a huge integer.
    Fraction: _Value(lambda v: [v.numerator, v.denominator], Fraction, int),
    range: _Value(lambda v: [v.start, v.stop, v.step], range, int),
    slice: _Value(lambda v: [v.start, v.stop, v.step], slice),
    datetime: _Value(lambda v: [v.year, v.month, v.day, v.hour, v.minute, v.second, v.microsecond, v.tzinfo], datetime),
    date: _Value(lambda v: [v.year, v.month, v.day], date, int),
    time: _Value(lambda v: [v.hour, v.minute, v.second, v.microsecond, v.tzinfo], time),
    timezone: _Value(lambda v: [v.utcoffset(None)], timezone),
    timedelta: _Value(lambda v: [v.days, v.seconds, v.microseconds], timedelta, int),
    **{kind: _Value(lambda v: [str(v)], kind, str) for kind in (PosixPath, PurePosixPath, PureWindowsPath)},
    **{
        type(getattr(kind(), name)()): _Value(partial(_split_view, kind), getattr(kind, name), kind)
        for kind in (dict, OrderedDict)
        for name in ("keys", "values", "items")
    },
    type(...): _Value(lambda v: [], lambda: ...),
    type(NotImplemented): _Value(lambda v: [], lambda: NotImplemented),
}


class Phase(IntEnum):
    """The order in which ObjectGraph fills nodes.

    Instances can be keys, and sequences can determine their hash, so dicts and sets are last.
    """

    INSTANCES = 0
    SEQUENCES = 1
    DICTS = 2
    SETS = 3


_PHASES: dict[type, Phase] = {
    **dict.fromkeys((list, deque, bytearray), Phase.SEQUENCES),
    **dict.fromkeys((dict, OrderedDict, Counter, defaultdict), Phase.DICTS),
    set: Phase.SETS,
}
_PHASE_ORDER = tuple(Phase)
_VALUE_OF_TAG = {kind.__name__: value for kind, value in _VALUES.items()}
_CONTAINER_OF_TAG = {kind.__name__: kind for kind in _PHASES}
_ATOMS = frozenset([str, bool, type(None)])
# Types whose content is not in attributes. Instances of their subclasses cannot be passed by attributes.
_NOT_OF_ATTRIBUTES = (list, dict, set, frozenset, tuple, str, bytes, bytearray, int, float, complex, BaseException)


class References(ABC):
    """The encoding of one side's objects that are not data.

    shared   classes that both sides have, with instances passed by value: name -> class
    """

    def __init__(self) -> None:
        self.shared: dict[str, type] = {}

    def get_shared_name(self, kind: type) -> str | None:
        """Return the name of a shared class; None for other classes."""
        name = kind.__name__
        return name if self.shared.get(name) is kind else None

    def get_shared_class(self, name: str) -> type:
        """Return the shared class with this name. Raises ProtocolError."""
        kind = self.shared.get(name)
        if kind is None:
            raise ProtocolError(f"there is no class {name[:80]!r}")
        return kind

    @abstractmethod
    def encode(self, graph: "ObjectGraph", value: Any) -> Any:
        """Encode an object that is not data."""

    @abstractmethod
    def decode(self, graph: "ObjectGraph", tag: str, parts: list[Any]) -> Any:
        """Decode an object that is not data. Raises ProtocolError."""

    def check_attribute(self, value: Any) -> None:  # noqa: B027  # the submission's side accepts any value
        """Raise ProtocolError if data may not have this value as an attribute."""


class ObjectGraph:
    """The nodes of one exchange: first those of the request, then those of the reply.

    objects   the mutable object of each node
    bodies    its encoded content
    """

    def __init__(self, references: References) -> None:
        self._references = references
        self.objects: list[Any] = []
        self.bodies: list[Any] = []
        self._indices: dict[int, int] = {}  # id of an object -> index of its node

    def encode(self, value: Any) -> Any:
        """Encode a value as JSON, and add its mutable objects to the graph. Raises TypeError and RecursionError."""
        kind = type(value)
        if (
            kind in _ATOMS
            or (kind is int and -_MAX_DECIMAL < value < _MAX_DECIMAL)
            or (kind is float and value - value == 0)  # finite
        ):
            return value
        if kind in _PHASES:
            return self._add_node(value)
        if kind in _VALUES:
            return [kind.__name__, *[self.encode(part) for part in _VALUES[kind].parts(value)]]
        name = self._references.get_shared_name(kind)
        if name is not None and issubclass(kind, Enum):
            return ["member", name, self.encode(value._value_)]
        if name is not None and not issubclass(kind, _NOT_OF_ATTRIBUTES):
            return self._add_node(value)
        return self._references.encode(self, value)

    def _add_node(self, value: Any) -> list[Any]:
        index = self._indices.get(id(value))
        if index is None:
            index = self._indices[id(value)] = len(self.objects)
            self.objects.append(value)
            self.bodies.append(None)
            self.bodies[index] = self.encode_body(value)
        return ["node", index]

    def truncate(self, n_nodes: int) -> None:
        """Remove all nodes but the first n_nodes."""
        for value in self.objects[n_nodes:]:
            self._indices.pop(id(value), None)
        del self.objects[n_nodes:], self.bodies[n_nodes:]

    def encode_body(self, value: Any) -> list[Any]:
        """Return the encoded content of a mutable object."""
        kind = type(value)
        if kind not in _PHASES:
            parts = [part for pair in get_attributes(value) for part in pair]
            return ["instance", self._references.get_shared_name(kind), *[self.encode(part) for part in parts]]
        if issubclass(kind, dict):
            first = [value.default_factory] if kind is defaultdict else []
            parts = first + [part for pair in value.items() for part in pair]
        else:
            parts = [value.maxlen, *value] if kind is deque else [bytes(value)] if kind is bytearray else list(value)
        return [kind.__name__, *[self.encode(part) for part in parts]]

    def add(self, bodies: Any) -> None:
        """Add the nodes of a received frame. Raises ProtocolError."""
        if type(bodies) is not list:
            raise ProtocolError("its field `nodes` is not a list")
        indices: list[list[int]] = [[] for _ in _PHASE_ORDER]
        for index, body in enumerate(bodies, len(self.objects)):
            made, phase = self._make(body)
            self.objects.append(made)
            self.bodies.append(body)
            self._indices[id(made)] = index
            indices[phase].append(index)
        for phase in _PHASE_ORDER:
            for index in indices[phase]:
                self.fill(index, self.bodies[index])

    def _make(self, body: Any) -> tuple[Any, Phase]:
        """Create an empty object for a node; return it and its phase."""
        try:
            match body:
                case ["instance", str(name), *_]:
                    return object.__new__(self._references.get_shared_class(name)), Phase.INSTANCES
                case ["deque", maxlen, *_]:
                    return deque(maxlen=maxlen), Phase.SEQUENCES
                case [str(tag), *_] if tag in _CONTAINER_OF_TAG:
                    kind = _CONTAINER_OF_TAG[tag]
                    return kind(), _PHASES[kind]
        except (TypeError, ValueError, OverflowError) as error:
            raise ProtocolError(f"it has an invalid object: {error}"[:200]) from None
        raise ProtocolError("it has a node of an unknown kind")

    def fill(self, index: int, body: Any) -> None:
        """Replace the content of a mutable object. Raises ProtocolError."""
        value = self.objects[index]
        try:
            tag, *raw_parts = body
            if tag != (type(value).__name__ if type(value) in _PHASES else "instance"):
                raise ProtocolError("it changes the type of an object")
            parts = [self.decode(part) for part in raw_parts]
            match value:
                case list():
                    value[:] = parts
                case bytearray():
                    (value[:],) = parts
                case deque():
                    value.clear()
                    value.extend(parts[1:])  # the first part is its maxlen
                case set():
                    value.clear()
                    value.update(parts)
                case dict():
                    if isinstance(value, defaultdict):
                        value.default_factory, *parts = parts
                    value.clear()
                    for key, part in zip(parts[::2], parts[1::2], strict=True):
                        value[key] = part  # dict.update() would lose an OrderedDict's order, Counter.update() would add
                case _:
                    set_attributes(value, parts[1:], self._references.check_attribute)
        except (TypeError, ValueError, AttributeError, OverflowError) as error:
            raise ProtocolError(f"it has an invalid node: {error}"[:200]) from None

    def decode(self, raw: Any) -> Any:
        """Decode a value. Raises ProtocolError."""
        kind = type(raw)
        if kind in _ATOMS or kind is int or kind is float:
            return raw
        try:
            tag, *raw_parts = raw
            value = _VALUE_OF_TAG.get(tag)
            if value is not None:
                parts = [self.decode(part) for part in raw_parts]
                if value.part_type is not None and any(type(part) is not value.part_type for part in parts):
                    raise ProtocolError(f"it has an invalid {tag}")
                return value.make(*parts)
            if tag == "node":
                (index,) = raw_parts
                return self.objects[index]
            if tag == "member":
                name, content = raw_parts
                return _make_member(self._references.get_shared_class(name), self.decode(content))
            return self._references.decode(self, tag, raw_parts)
        except (TypeError, ValueError, AttributeError, LookupError, ArithmeticError) as error:
            raise ProtocolError(f"it has an invalid value: {error}"[:200]) from None


def _make_member(kind: type, value: Any) -> Any:
    if not issubclass(kind, Enum):
        raise ProtocolError(f"{kind.__name__} has no members")
    return kind(value)


def get_attributes(value: Any) -> list[tuple[str, Any]]:
    """Return the attributes in the __dict__ and the slots of an instance."""
    attributes = list(getattr(value, "__dict__", {}).items())
    for kind in type(value).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if not name.startswith("__") and hasattr(value, name):
                attributes.append((name, getattr(value, name)))
    return attributes


def set_attributes(value: Any, parts: list[Any], check: Callable[[Any], None]) -> None:
    """Replace the attributes of an instance.

    parts   alternating names and values
    check   raises ProtocolError for an invalid value

    Raises TypeError for a name that would hide a method or property of the class.
    """
    getattr(value, "__dict__", {}).clear()
    for name, part in zip(parts[::2], parts[1::2], strict=True):
        check(part)
        if name.startswith("__") or _is_code(getattr(type(value), name, None)):
            raise TypeError(f"{name[:80]!r} would hide code of the class")
        object.__setattr__(value, name, part)


def _is_code(part: object) -> bool:
    return callable(part) or isinstance(part, property | classmethod | staticmethod)
