"""The submission's side of statement tests: executes the requests of the tests' process.

It runs in the process of the submission, which can replace this code, so replies are untrusted.
"""

import builtins
import contextlib
import operator
import sys
import types
from collections.abc import Callable
from typing import Any

from sandbox.languages._codec import FrameStream, ObjectGraph, PeerDisconnected
from sandbox.languages._peer import WRAPPER_ATTRIBUTES, Peer, encode_plain_value, find_library_name, is_data_type

# Operation, as in POLICIES of _guard.py -> function, stored before a program can replace it.
_OPERATIONS: dict[str, Callable[..., Any]] = {
    **vars(builtins),
    **vars(operator),
    "and": operator.and_,
    "or": operator.or_,
    "method": lambda value, name, *arguments, **named: getattr(value, name)(*arguments, **named),
    # A method call whose result the test discards.
    "statement": lambda value, name, *arguments, **named: getattr(value, name)(*arguments, **named),
    "enter": lambda value: value.__enter__(),
    "exit": lambda value, *error: value.__exit__(*error),
    "get": getattr,
    "set": setattr,
    "del": delattr,
}
_ROUTINES = (types.FunctionType, classmethod, staticmethod)
_FRAMES_OF_CALLBACK = 10  # frames of this package in a call of a tests' function, added to the recursion limit


class _OpaqueObject:
    """The stand-in for an object of the tests that is neither data nor a function. It has no operations."""


class SubmissionPeer(Peer):
    """The end of the connection in the submission's process.

    namespace   the program's global variables
    names       the names in it that the tests use
    """

    def __init__(self, stream: FrameStream, namespace: dict[str, Any], names: tuple[str, ...]) -> None:
        super().__init__(stream)
        self._namespace = namespace
        self._names = names
        self._class_numbers: dict[type, int] = {}  # numbers of the classes that frames have described

    def serve(self) -> None:
        """Serve requests until the tests' process disconnects. SystemExit of the program propagates."""
        with contextlib.suppress(PeerDisconnected):
            self.serve_until(lambda frame: False)

    def perform(self, operation: Any, arguments: Any, named: Any) -> Any:
        if operation == "names":
            return {name: self._namespace[name] for name in self._names if name in self._namespace}
        return _OPERATIONS[operation](*arguments, **named)

    def register_classes(self, classes: list[Any], shared_names: list[Any]) -> None:
        known = {name: self._namespace.get(name) for name in shared_names if name not in self._names}
        self.shared = {name: kind for name, kind in known.items() if isinstance(kind, type)}

    def encode_object(self, graph: ObjectGraph, value: Any) -> Any:
        kind = type(value)
        if not any(self._namespace.get(name) is base for base in kind.__mro__[:-1] for name in self._names):
            plain = encode_plain_value(graph, value)
            if plain is not None:
                return plain
        return ["mine", self.export(value), self._get_class_number(kind)]

    def encode_class(self, kind: type, *, is_base: bool = False) -> list[Any]:
        name = find_library_name(kind) if is_data_type(kind) else None
        if name is not None:
            return ["library", name]
        if is_base and issubclass(kind, BaseException) and self.get_shared_name(kind) is not None:
            return ["shared", kind.__name__]
        return ["mine", self._get_class_number(kind)]

    def _get_class_number(self, kind: type) -> int:
        """Return the number of a class; if it is new, describe it in the next frame."""
        if kind not in self._class_numbers:
            bases = [self.encode_class(base, is_base=True) for base in kind.__bases__ if base is not object]
            defined = {name: _find_attribute(kind, name) for name in dir(kind)}
            own = [name for name in defined if defined[name] is not vars(object).get(name)]
            has = [name.strip("_") for name in own if name.startswith("__")]
            methods = [name for name in own if not name.startswith("__") and isinstance(defined[name], _ROUTINES)]
            self._class_numbers[kind] = self.export(kind)
            self._new_classes.append([self._class_numbers[kind], kind.__name__, bases, has, methods])
        return self._class_numbers[kind]

    def decode(self, graph: ObjectGraph, tag: str, parts: list[Any]) -> Any:
        if tag == "iterator":
            return iter([graph.decode(part) for part in parts])
        return self.get_shared_class(parts[0]) if tag == "shared" else super().decode(graph, tag, parts)

    def make_stand_in(self, number: int, *description: Any) -> Any:
        """Return the stand-in for an object of the tests; for a function, it forwards calls."""
        if number in self._imported:
            return self._imported[number]
        if not description:
            return self.register_stand_in(number, _OpaqueObject())

        def callback(*arguments: Any, **named: Any) -> Any:
            limit = sys.getrecursionlimit()
            sys.setrecursionlimit(limit + _FRAMES_OF_CALLBACK)
            try:
                return self.request("call", callback, *arguments, **named)
            finally:
                sys.setrecursionlimit(limit)

        for name, text in zip(WRAPPER_ATTRIBUTES, description, strict=True):
            if text is not None or name == "__doc__":
                setattr(callback, name, text)
        return self.register_stand_in(number, callback)


def _find_attribute(kind: type, name: str) -> Any:
    return next((base.__dict__[name] for base in kind.__mro__ if name in base.__dict__), None)
