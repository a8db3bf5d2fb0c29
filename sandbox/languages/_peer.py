"""One end of the connection between a submission's process and its tests' process.

The two ends exchange frames of two kinds:

    request   {"ask": operation, "arguments": ..., "number": ..., "nodes": ..., "classes": ..., "shared": ...}
    reply     {"number": ..., "value" | "raised" | "refused": ..., "changed": ..., "nodes": ..., "classes": ...}

While an end waits for a reply, it serves requests of the other end. It sends data by value (_codec.py). It keeps other
objects in its table of exported objects, and sends their numbers in the table:

    ["mine", 3, ...]         an object in the sender's table, and its description
    ["yours", 3]             an object in the receiver's table
    ["library", "math.pow"]  a class or builtin function of the standard library
    ["shared", "Node"]       a class of the suite, with instances passed by value. The field `shared` lists such classes
    ["error", ...]           an exception: its number, class, arguments, attributes and text
    ["record", ...]          a named tuple
"""

import builtins
import math
import operator
import sys
import types
from abc import abstractmethod
from collections import namedtuple
from collections.abc import Callable
from importlib import import_module
from typing import Any

from sandbox.languages._codec import Frame, FrameStream, ObjectGraph, ProtocolError, References

_MAX_TEXT_CHARS = 10_000  # maximum length of an exception's text
_MAX_REFUSAL_CHARS = 1000
WRAPPER_ATTRIBUTES = ("__name__", "__qualname__", "__module__", "__doc__")  # attributes that functools.wraps copies
_RECURSION_LIMIT = 200_000  # for linked structures of many thousand nodes, whose encoding takes a few frames per node
_LIBRARY = {"builtins": builtins, "math": math, "operator": operator}
# Modules of the standard library that define exceptions, and whose import has no side effects.
_ERROR_MODULES = frozenset(
    "_csv _queue argparse asyncio.exceptions binascii calendar concurrent.futures concurrent.futures._base configparser"
    " copy dataclasses decimal email.errors fractions getopt graphlib ipaddress json.decoder queue re shutil sqlite3"
    " statistics struct subprocess threading unicodedata urllib.error xml.etree.ElementTree zipfile zlib".split()
)
_DATA_TYPES = (int, float, complex, bool, str, bytes, bytearray, list, tuple, set, frozenset, dict, object)
_PLAIN_BASES: dict[type, Callable[[Any], Any]] = {
    list: list,
    dict: lambda value: dict(dict.items(value)),
    set: set,
    frozenset: frozenset,
    str: str.__str__,
    int: int.__index__,
    float: float.__float__,
    tuple: lambda value: tuple(tuple.__iter__(value)),
}


class RequestRefused(Exception):
    """The peer could not decode a request."""


class Peer(References):
    """One end of the connection; a subclass for each of the two processes executes requests.

    A stand-in is the local object that represents an object of the peer.
    """

    def __init__(self, stream: FrameStream) -> None:
        super().__init__()
        self._stream = stream
        self._exported: list[Any] = []
        self._export_numbers: dict[int, int] = {}  # id of an object -> number
        self._imported: dict[int, Any] = {}  # number of an object of the peer -> its stand-in
        self._import_numbers: dict[int, int] = {}  # id of a stand-in -> number
        self._new_classes: list[Any] = []  # descriptions of classes to send in the next frame
        self._n_requests = 0

    def request(self, operation: str, /, *arguments: Any, **named: Any) -> Any:
        """Execute an operation at the peer; return its result or raise its exception.

        Also raises RequestRefused, ProtocolError, and PeerDisconnected.
        """
        self._n_requests += 1
        number = self._n_requests
        graph = ObjectGraph(self)
        request = {"ask": operation, "number": number, "arguments": graph.encode((arguments, named))}
        n_sent = len(graph.objects)
        self._send({**request, "shared": list(self.shared)}, graph, 0)
        reply = self.serve_until(lambda frame: "ask" not in frame)
        if reply.get("number") != number:
            raise ProtocolError("it replies to another request")
        if "refused" in reply:
            raise RequestRefused(reply["refused"])
        self._read(graph, reply)
        for change in require_list(reply.get("changed")):
            match change:
                case [int(index), body] if 0 <= index < n_sent:
                    graph.fill(index, body)
                case _:
                    raise ProtocolError("it changes an object that it was not given")
        if "raised" not in reply:
            return graph.decode(reply.get("value"))
        failure = graph.decode(reply["raised"])
        if not isinstance(failure, Exception):
            raise ProtocolError("it raises a value that is not an exception")
        raise failure

    def serve_until(self, is_awaited: Callable[[Frame], bool]) -> Frame:
        """Serve requests until `is_awaited` accepts a frame, and return that frame.

        Raises ProtocolError and PeerDisconnected.
        """
        while True:
            frame = self._stream.receive()
            if is_awaited(frame):
                return frame
            self._serve(frame)

    def _serve(self, request: Frame) -> None:
        graph = ObjectGraph(self)
        reply: Frame = {"number": request.get("number")}
        limit = sys.getrecursionlimit()
        sys.setrecursionlimit(_RECURSION_LIMIT)
        try:
            self._read(graph, request)
            arguments, named = graph.decode(request.get("arguments"))
        except Exception as error:
            self._stream.send({**reply, "refused": self.describe_refusal(error)})
            return
        finally:
            sys.setrecursionlimit(limit)
        received = list(graph.bodies)
        try:
            result, outcome = self.perform(request.get("ask"), arguments, named), "value"
        except Exception as error:
            result, outcome = error, "raised"
        limit = sys.getrecursionlimit()  # the program may have changed it
        sys.setrecursionlimit(_RECURSION_LIMIT)
        try:
            reply[outcome] = graph.encode(result)
        except Exception as error:
            graph.truncate(len(received))
            reply["raised"] = graph.encode(error)
        now = [graph.encode_body(graph.objects[index]) for index in range(len(received))]
        reply["changed"] = [[index, body] for index, body in enumerate(now) if body != received[index]]
        self._send(reply, graph, len(received))
        sys.setrecursionlimit(limit)

    def _send(self, frame: Frame, graph: ObjectGraph, n_received: int) -> None:
        self._stream.send({**frame, "nodes": graph.bodies[n_received:], "classes": self._new_classes})
        self._new_classes = []

    def _read(self, graph: ObjectGraph, frame: Frame) -> None:
        self.register_classes(require_list(frame.get("classes")), require_list(frame.get("shared", [])))
        graph.add(frame.get("nodes"))

    def export(self, value: Any) -> int:
        """Add an object to the table of exported objects, if it is not in it; return its number."""
        number = self._export_numbers.setdefault(id(value), len(self._exported))
        if number == len(self._exported):
            self._exported.append(value)
        return number

    def register_stand_in(self, number: int, stand_in: Any) -> Any:
        """Register the stand-in for an object of the peer, and return it."""
        self._imported[number] = stand_in
        self._import_numbers[id(stand_in)] = number
        return stand_in

    def encode(self, graph: ObjectGraph, value: Any) -> Any:
        number = self._import_numbers.get(id(value))
        if number is not None:
            return ["yours", number]
        if isinstance(value, type):
            return self.encode_class(value)
        if isinstance(value, Exception):
            return self._encode_error(graph, value)
        return self.encode_object(graph, value)

    def decode(self, graph: ObjectGraph, tag: str, parts: list[Any]) -> Any:
        match tag, parts:
            case "yours", [int(number)] if 0 <= number < len(self._exported):
                return self._exported[number]
            case "mine", [int(number), *description]:
                return self.make_stand_in(number, *description)
            case "library", [str(name)]:
                return self.find_library_object(name)
            case "error", [int(number), list(), list(), list(), str()]:
                known = self._imported.get(number)
                return known if isinstance(known, Exception) else self._decode_error(graph, *parts)
            case "record", [str(name), list(fields), *raw_items]:
                record: Any = self.shared.get(name)
                if getattr(record, "_fields", None) != tuple(fields):
                    record = namedtuple(name, fields)  # type: ignore[misc,no-redef]
                made = record._make(graph.decode(item) for item in raw_items)
                for item in made:
                    self.check_attribute(item)
                return made
        raise ProtocolError("it has a value of an unknown kind")

    def _encode_error(self, graph: ObjectGraph, error: Exception) -> list[Any]:
        text, arguments, attributes = "", [], []
        n_nodes = len(graph.bodies)
        try:
            text = str(error)[:_MAX_TEXT_CHARS]
            arguments = [graph.encode(argument) for argument in error.args]
            attributes = [[name, graph.encode(part)] for name, part in vars(error).items()]
        except Exception:  # __str__ of an untrusted class can raise any exception
            graph.truncate(n_nodes)
            arguments, attributes = [text], []
        return ["error", self.export(error), self.encode_class(type(error), is_base=True), arguments, attributes, text]

    def _decode_error(
        self, graph: ObjectGraph, number: int, raw: Any, arguments: list[Any], attributes: list[Any], text: str
    ) -> Exception:
        kind = self.decode_class(raw)
        if not issubclass(kind, Exception):
            raise ProtocolError("it has an invalid exception")
        decoded = [graph.decode(argument) for argument in arguments]
        try:
            error = kind.__new__(kind, *decoded)
            if kind.__module__ == "builtins":
                error.__init__(*decoded)  # type: ignore[misc]
            for name, part in attributes:
                value = graph.decode(part)
                if not (name.startswith("__") or callable(value)):
                    error.__dict__[name] = value
        except (TypeError, ValueError, AttributeError) as failure:
            raise ProtocolError(f"it has an invalid exception: {failure}"[:200]) from None
        return self.make_error_stand_in(number, error, text)

    # For subclasses to define.

    @abstractmethod
    def perform(self, operation: Any, arguments: Any, named: Any) -> Any:
        """Execute a request, and return its result."""

    @abstractmethod
    def encode_object(self, graph: ObjectGraph, value: Any) -> Any:
        """Encode an object that is neither data nor a class nor an exception."""

    @abstractmethod
    def encode_class(self, kind: type, *, is_base: bool = False) -> list[Any]:
        """Encode a class.

        is_base   whether it is the class of an exception, or the base of a class, and not a value by itself
        """

    @abstractmethod
    def make_stand_in(self, number: int, *description: Any) -> Any:
        """Return the stand-in for an object of the peer. Raises ProtocolError.

        description   the rest of its encoding after "mine" and its number
        """

    def make_error_stand_in(self, number: int, error: Exception, text: str) -> Exception:
        """Return the stand-in for an exception of the peer, given the decoded exception."""
        return error

    def decode_class(self, raw: list[Any]) -> type:
        """Decode the class of an exception, or the base of a class. Raises ProtocolError."""
        match raw:
            case ["library", str(name)] if isinstance(kind := self.find_library_object(name), type):
                return kind
            case ["shared", str(name)]:
                return self.get_shared_class(name)
        raise ProtocolError("an exception or a base has an unknown class")

    def find_library_object(self, name: str) -> Any:
        """Return the library object with this qualified name. Raises ProtocolError."""
        module, _, attribute = name.rpartition(".")
        content = import_module(module) if module in _ERROR_MODULES else _LIBRARY.get(module)
        value = getattr(content, attribute, None)
        if not isinstance(value, type | types.BuiltinFunctionType):
            raise ProtocolError(f"there is no {name[:80]!r}")
        return value

    def register_classes(self, classes: list[Any], shared_names: list[Any]) -> None:
        """Store the fields `classes` and `shared` of a frame."""

    def describe_refusal(self, error: Exception) -> str:
        """Return the field `refused` for a request that cannot be decoded, or raise ProtocolError."""
        return f"{type(error).__name__}: {error}"[:_MAX_REFUSAL_CHARS]


def find_library_name(value: Any) -> str | None:
    """Return the qualified name of a library class or function; None for other values."""
    if not isinstance(value, type | types.BuiltinFunctionType):
        return None
    name = value.__name__
    for module, content in _LIBRARY.items():
        if getattr(content, name, None) is value:
            return f"{module}.{name}"
    module = value.__module__
    is_error = module in _ERROR_MODULES and isinstance(value, type) and issubclass(value, Exception)
    return f"{module}.{name}" if is_error and getattr(sys.modules.get(module), name, None) is value else None


def is_data_type(kind: Any) -> bool:
    """Return whether an object is a class of data or an exception class.

    The tests' process accepts no other library object: if the test called a library function with an object of the
    submission, the function could execute the submission's code in the tests' process.
    """
    return isinstance(kind, type) and (any(kind is known for known in _DATA_TYPES) or issubclass(kind, Exception))


def encode_plain_value(graph: ObjectGraph, value: Any) -> Any:
    """Encode a numpy value, a named tuple, or an instance of a subclass of a plain type; None for other values."""
    kind = type(value)
    if kind.__module__ == "numpy" and hasattr(value, "tolist"):
        return graph.encode(value.tolist())
    if issubclass(kind, tuple) and hasattr(kind, "_fields"):
        return ["record", kind.__name__, list(kind._fields), *[graph.encode(item) for item in tuple.__iter__(value)]]
    for base, convert in _PLAIN_BASES.items():
        if issubclass(kind, base):
            return graph.encode(convert(value))
    return None


def require_list(raw: Any) -> list[Any]:
    """Return `raw` if it is a list. Raises ProtocolError."""
    if type(raw) is not list:
        raise ProtocolError("one of its values is not a list")
    return raw
