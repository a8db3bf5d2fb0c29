"""The submission's side of tests that are statements: it carries out what the process of the tests asks for.

This runs in the process of the submission, which may have replaced any part of it: every answer is a mere claim.
"""

import builtins
import math
import operator
import sys
import types
from collections.abc import Callable
from importlib import import_module
from typing import Any

from sandbox.languages._object_protocol import (
    WRAPPER_ATTRIBUTES,
    Codec,
    FrameStream,
    ObjectGraph,
    PeerDisconnected,
    ProtocolError,
    allow_deep_recursion,
)

# Special methods that the tests may use by syntax, if the class has them.
SPECIAL_METHODS = (
    "len iter next getitem setitem delitem contains call enter exit bool hash reversed eq lt le gt ge add sub mul"
    " truediv floordiv mod divmod pow matmul and or xor lshift rshift radd rsub rmul rtruediv rfloordiv rmod rpow"
    " rmatmul rand ror rxor iadd isub imul itruediv iand ior ixor neg pos abs invert int float complex index round"
).split()
_OPERATIONS: dict[str, Callable[..., Any]] = {
    "call": lambda function, *arguments, **named: function(*arguments, **named),
    "method": lambda value, name, *arguments, **named: getattr(value, name)(*arguments, **named),
    "statement": lambda value, name, *arguments, **named: getattr(value, name)(*arguments, **named),  # result dropped
    "get": getattr,
    "set": setattr,
    "del": delattr,
    "special": lambda value, name, *arguments: getattr(type(value), name)(value, *arguments),
    **{kind.__name__: kind for kind in (bool, str, repr, format, hash, len, iter, next, int, float, complex, reversed)},
    **{kind.__name__: kind for kind in (abs, round, divmod)},
    **{
        name.strip("_"): getattr(operator, name)
        for name in "getitem setitem delitem contains eq lt le gt ge add sub mul truediv floordiv mod pow matmul and_"
        " or_ xor lshift rshift iadd isub imul itruediv iand ior ixor neg pos invert index".split()
    },
}
# The types that the tests' side takes for its own when the submission returns them. No function is among them: what it
# calls with something that the submission has returned must not be able to execute that.
_DATA_TYPES = (int, float, complex, bool, str, bytes, bytearray, list, tuple, set, frozenset, dict, object)
_FRAMES_OF_CALLBACK = 8  # our own frames between a function of the tests and what it asks for in turn
_MODULES = {"builtins": builtins, "math": math, "operator": operator}
# Modules of the standard library whose exceptions both sides have; loading one of them has no effects.
_OF_ERRORS = frozenset(
    "_csv _queue argparse asyncio.exceptions binascii calendar concurrent.futures concurrent.futures._base configparser"
    " copy dataclasses decimal email.errors fractions getopt graphlib ipaddress json.decoder queue re shutil sqlite3"
    " statistics struct subprocess threading unicodedata urllib.error xml.etree.ElementTree zipfile zlib".split()
)
_BUILTIN_ERRORS = {
    name for name, kind in vars(builtins).items() if isinstance(kind, type) and issubclass(kind, BaseException)
}


def builtin_name(value: Any) -> str | None:
    """Return the name, with its module, of a function or class that both sides have; None for others."""
    if not isinstance(value, type | types.BuiltinFunctionType):
        return None
    for module, content in _MODULES.items():
        name = getattr(value, "__name__", "")
        if type(name) is str and getattr(content, name, None) is value:
            return f"{module}.{name}"
    return None


def resolve_builtin(name: str) -> Any:
    """Return what `builtin_name` has named. Raises ProtocolError."""
    module, _, name = name.partition(".")
    value = getattr(_MODULES.get(module), name, None)
    if not isinstance(value, type | types.BuiltinFunctionType):
        raise ProtocolError(f"there is no {name[:80]!r}")
    return value


def resolve_data_type(name: str) -> type:
    """Return the type that the submission has returned, or the class of an exception. Raises ProtocolError."""
    kind = resolve_builtin(name)
    if isinstance(kind, type) and (kind in _DATA_TYPES or issubclass(kind, Exception)):
        return kind
    raise ProtocolError(f"{name[:80]!r} is not data")


def resolve_library_error(module: str, name: str) -> type[Exception]:
    """Return the exception of the standard library that the submission has raised. Raises ProtocolError."""
    kind = getattr(import_module(module), name, None) if module in _OF_ERRORS else None
    if isinstance(kind, type) and issubclass(kind, Exception):
        return kind
    raise ProtocolError(f"there is no exception {module[:80]}.{name[:80]}")


class _Failure(Exception):
    """An exception of the tests' side that has no class here."""


class SubmissionServer:
    """Answers the tests' process.

    namespace   the namespace of the program
    names       the names that the tests use of it
    """

    def __init__(self, wire: FrameStream, namespace: dict[str, Any], names: tuple[str, ...]) -> None:
        self._wire = wire
        self._namespace = namespace
        self._names = names
        self._shared: set[str] = set()  # names of classes whose instances travel by value
        self._objects: list[Any] = []
        self._numbers: dict[int, int] = {}
        self._classes: dict[type, int] = {}
        self._foreign: dict[int, _Foreign] = {}
        self._callbacks: dict[Any, int] = {}  # functions that stand for functions of the tests' side
        self._news: list[Any] = []  # descriptions of classes that the other side does not know yet
        self._codec = Codec(
            class_of=self._class_of, name_of=self._name_of, reference=self._reference, referred=self._referred
        )

    def serve(self) -> None:
        """Answer until the other side ends. SystemExit and the like end the process, as they would end the program."""
        while True:
            try:
                question = self._wire.receive()
            except PeerDisconnected:
                return
            self._answer(question)

    def _answer(self, question: dict[str, Any]) -> None:
        self._shared = set(question["shared"]) - set(self._names)
        graph = ObjectGraph(self._codec)
        answer: dict[str, Any] = {"number": question["number"]}
        with allow_deep_recursion():
            try:
                graph.add(question["nodes"])
                asked = (
                    None
                    if question["do"] == "names"
                    else graph.decode(["t", [question["arguments"], question["named"]]])
                )
            except Exception as error:  # the tests use what this side does not have
                self._wire.send({**answer, "refused": f"{type(error).__name__}: {error}"[:1000]})
                return
        before = list(graph.bodies)
        result: Any = None
        failure: Exception | None = None
        try:
            if asked is None:
                result = [(name, self._namespace[name]) for name in self._names if name in self._namespace]
            else:
                result = _OPERATIONS[question["do"]](*asked[0], **asked[1])
        except Exception as error:
            failure = error
        with allow_deep_recursion():
            try:
                if failure is None:
                    answer["value"] = graph.encode(result)
            except Exception as error:
                graph.truncate(len(before))
                failure = error
            if failure is not None:
                answer["error"] = self._error(graph, failure)
            changed = []
            for place, body in enumerate(before):
                now = graph.encode_body(graph.objects[place])
                if now != body:
                    changed.append([place, now])
        answer |= {"changed": changed, "nodes": graph.bodies[len(before) :], "news": self._news}
        self._wire.send(answer)
        self._news = []

    def _error(self, graph: ObjectGraph, error: Exception) -> list[Any]:
        """Return an exception: the object, its class, its arguments and attributes if they are data, and its text."""
        text, arguments, held = "", [], []
        n_nodes = len(graph.bodies)
        try:
            text = str(error)[:10_000]
            arguments = [graph.encode(argument) for argument in error.args]
            held = [[name, graph.encode(part)] for name, part in vars(error).items()]
        except Exception:  # the submission wrote __str__ and the attributes, which can raise anything
            graph.truncate(n_nodes)
            arguments, held = [text], []
        return [self._described(error)[0], self._class_reference(type(error)), arguments, held, text]

    def _class_of(self, name: str) -> type | None:
        kind = self._namespace.get(name)
        return kind if isinstance(kind, type) else None

    def _name_of(self, kind: type) -> str | None:
        name = kind.__name__
        return name if name in self._shared and self._namespace.get(name) is kind else None

    def _reference(self, graph: ObjectGraph, value: Any) -> Any:
        kind = type(value)
        if kind is _Foreign:
            return ["O", value.number]
        if kind is types.FunctionType and value in self._callbacks:
            return ["F", self._callbacks[value]]
        if isinstance(value, type):
            if any(value is known for known in _DATA_TYPES) or value.__name__ in _BUILTIN_ERRORS:
                return ["B", f"builtins.{value.__name__}"]
            return ["C", self._class_number(value)]
        if not any(map(self._is_named, kind.__mro__[:-1])):
            plain = _plain(graph, value, kind)
            if plain is not None:
                return plain
        return ["h", *self._described(value)]

    def _described(self, value: Any) -> list[int]:
        number = self._numbers.get(id(value))
        if number is None:
            number = self._numbers[id(value)] = len(self._objects)
            self._objects.append(value)
        return [number, self._class_number(type(value))]

    def _class_reference(self, kind: type) -> list[Any]:
        """Return a class in the form in which the bases of classes and the classes of exceptions are sent."""
        if issubclass(kind, BaseException) and kind.__module__ == "builtins" and kind.__name__ in _BUILTIN_ERRORS:
            return ["B", f"builtins.{kind.__name__}"]
        if issubclass(kind, BaseException) and self._name_of(kind) is not None:
            return ["G", kind.__name__]
        module = sys.modules.get(kind.__module__) if kind.__module__ in _OF_ERRORS else None
        if issubclass(kind, Exception) and getattr(module, kind.__name__, None) is kind:
            return ["M", kind.__module__, kind.__name__]
        return ["C", self._class_number(kind)]

    def _is_named(self, kind: type) -> bool:
        return any(self._namespace.get(name) is kind for name in self._names)

    def _class_number(self, kind: type) -> int:
        """Return the number of a class; a new class is described to the tests' side with the next frame."""
        if kind not in self._classes:
            bases = [self._class_reference(base) for base in kind.__bases__ if base is not object]
            has = [name for name in SPECIAL_METHODS if _special(kind, name) is not _special(object, name)]
            if _special(kind, "hash") is None:
                has = [name for name in has if name != "hash"] + ["nohash"]
            methods = [
                name
                for name in dir(kind)
                if not name.startswith("__") and isinstance(_looked_up(kind, name), _ROUTINES)
            ]
            self._classes[kind] = len(self._classes)
            self._news.append([self._classes[kind], kind.__name__, bases, has, methods])
        return self._classes[kind]

    def _referred(self, graph: ObjectGraph, raw: list[Any]) -> Any:
        match raw:
            case ["h", int(number)]:
                return self._objects[number]
            case ["C", int(number)]:
                return list(self._classes)[number]
            case ["B", str(name)]:
                return resolve_builtin(name)
            case ["F", int(number), list(texts)]:
                return self._callback(number, texts)
            case ["I", list(parts)]:
                return iter([graph.decode(part) for part in parts])
            case ["E", str(name), list(parts)]:
                return _exception(name, [graph.decode(part) for part in parts])
            case ["V", str(name)]:
                return self._namespace[name]
            case ["O", int(number)]:
                return self._foreign.setdefault(number, _Foreign(number))
        raise ProtocolError("it has a value of an unknown kind")

    def _callback(self, number: int, texts: list[str | None]) -> Callable[..., Any]:
        """Return a function that calls one of the tests' side, with the same names and docstring."""

        def callback(*arguments: Any, **named: Any) -> Any:
            return self._call_back(number, arguments, named)

        for name, text in zip(WRAPPER_ATTRIBUTES, texts, strict=True):
            if text is not None or name == "__doc__":
                setattr(callback, name, text)
        self._callbacks[callback] = number
        return callback

    def _call_back(self, number: int, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """Call a function of the tests' side."""
        graph = ObjectGraph(self._codec)
        question = {"ask": number, "arguments": graph.encode(arguments), "named": graph.encode(named)}
        self._wire.send({**question, "nodes": graph.bodies, "news": self._news})
        self._news = []
        limit = sys.getrecursionlimit()
        sys.setrecursionlimit(limit + _FRAMES_OF_CALLBACK)
        answer = self._wire.receive()
        while "do" in answer:  # the function itself uses the submission
            self._answer(answer)
            answer = self._wire.receive()
        sys.setrecursionlimit(limit)
        graph = ObjectGraph(self._codec)
        graph.add(answer["nodes"])
        value = graph.decode(answer["value"])
        if answer["raised"]:
            raise value
        return value


_ROUTINES = (types.FunctionType, classmethod, staticmethod)


def _looked_up(kind: type, name: str) -> Any:
    return next((base.__dict__[name] for base in kind.__mro__ if name in base.__dict__), None)


def _special(kind: type, name: str) -> Any:
    return _looked_up(kind, f"__{name}__")  # getattr would also find what its metaclass has


class _Foreign:
    """An object of the tests' side that is neither data nor a function: it can be kept and given back."""

    def __init__(self, number: int) -> None:
        self.number = number


def _plain(graph: ObjectGraph, value: Any, kind: type) -> Any:
    """Return the encoding of a value of numpy or of a subclass of a plain type; None for any other value."""
    if kind.__module__ == "numpy" and hasattr(value, "tolist"):
        return graph.encode(value.tolist())
    if issubclass(kind, tuple):
        fields = getattr(kind, "_fields", None)
        items = [graph.encode(item) for item in tuple.__iter__(value)]
        return ["t", items] if fields is None else ["N", kind.__name__, list(fields), items]
    for base, convert in (
        (list, lambda: list(value)),
        (dict, lambda: dict(dict.items(value))),
        (set, lambda: set(value)),
        (frozenset, lambda: frozenset(value)),
        (str, lambda: str.__str__(value)),
        (int, lambda: int.__index__(value)),
        (float, lambda: float.__float__(value)),
    ):
        if issubclass(kind, base):
            return graph.encode(convert())
    return None


def _exception(name: str, arguments: list[Any]) -> BaseException:
    kind = getattr(builtins, name, None)
    if isinstance(kind, type) and issubclass(kind, Exception):
        return kind(*arguments)
    return _Failure(name, *arguments)
