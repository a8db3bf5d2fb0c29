"""The tests' side of statement tests: runs the tests, and forwards operations to the submission's process.

It runs in a separate process, which holds the secret tests and parses untrusted frames of the submission.
"""

import sys
import traceback
import types
from collections.abc import Iterator
from typing import Any, NoReturn

from sandbox.languages import _pytest
from sandbox.languages._assertion_report import AssertionReportWriter
from sandbox.languages._codec import FrameStream, ObjectGraph, PeerDisconnected, ProtocolError
from sandbox.languages._guard import (
    Guard,
    RemoteClass,
    RemoteKind,
    RemoteObject,
    RemoteProxy,
    RemoteState,
    make_remote_class,
)
from sandbox.languages._peer import WRAPPER_ATTRIBUTES, Peer, encode_plain_value, find_library_name, is_data_type

MODULE = "tests"  # name of the module in which tests run
FILE = "<test>"  # file name of a test in tracebacks
_MAX_ITERATOR = 1_000_000  # maximum number of items of an iterator that a test passes to the submission
_RECURSION_LIMIT = 200_000
_MAX_CLASSES = 10_000


class TestsPeer(Peer):
    """The end of the connection in the tests' process.

    namespace   the tests' global variables
    names       the submission's names that the tests use
    """

    def __init__(
        self, stream: FrameStream, report: AssertionReportWriter, namespace: dict[str, Any], names: tuple[str, ...]
    ) -> None:
        super().__init__(stream)
        self._report, self._namespace, self._names = report, namespace, names
        self._classes: dict[int, RemoteClass] = {}
        self._guard = Guard(self, report)

    def perform(self, operation: Any, arguments: Any, named: Any) -> Any:
        """Call a function of the tests for the submission."""
        match operation, arguments, named:
            case "call", (function, *others), dict() if id(function) in self._export_numbers and callable(function):
                try:
                    return function(*others, **named)
                except (AssertionError, _pytest.Failed) as error:  # not raised, since the submission could catch it
                    self._guard.fail_test(_describe_error(error))
        self._report.write_verdict("malformed", "it calls a function that it was not given")

    def describe_refusal(self, error: Exception) -> str:
        raise ProtocolError(str(error)) from None

    def fetch_objects(self, classes: tuple[str, ...]) -> dict[str, Any]:
        """Return the submission's objects that the tests use: name -> proxy. Raises ProtocolError.

        classes   the names of tested classes
        """
        # Registers the preamble's classes as shared, since both sides have run the preamble.
        for value in list(self._namespace.values()):
            if isinstance(value, type):
                self.get_shared_name(value)
        found = self.request("names")
        if type(found) is not dict or not set(self._names).issuperset(found):
            raise ProtocolError("it does not list its names")
        # If the suite declares no classes, names with an upper-case initial count as named classes.
        likely = classes or [name for name in found if name[:1].isupper()]
        for kind in self._classes.values():  # bases precede their subclasses
            names = {name for name, value in found.items() if value is kind}
            # A class that the submission defines under a declared and an undeclared name may stand for a function.
            kind.__kind__.is_tested = bool(names) and names.issubset(classes)
            kind.__kind__.is_named = (bool(names) and names.issubset(likely)) or _has_named_base(kind)
        return found

    def get_shared_name(self, kind: type) -> str | None:
        name = kind.__name__
        is_ours = kind.__module__ == MODULE and name not in self._names and self._namespace.get(name) is kind
        if is_ours and not isinstance(kind, RemoteClass):
            self.shared.setdefault(name, kind)
        return super().get_shared_name(kind)

    def encode_object(self, graph: ObjectGraph, value: Any) -> Any:
        if isinstance(value, Iterator):
            items = []
            for item in value:
                items.append(graph.encode(item))
                if len(items) > _MAX_ITERATOR:
                    self._guard.fail_test("an endless iterator cannot be passed to the submission")
            return ["iterator", *items]
        name = find_library_name(value)
        if name is not None:
            return ["library", name]
        if callable(value):
            texts = [getattr(value, name, None) for name in WRAPPER_ATTRIBUTES]
            return ["mine", self.export(value), *[text if type(text) is str else None for text in texts]]
        plain = encode_plain_value(graph, value)
        return ["mine", self.export(value)] if plain is None else plain

    def encode_class(self, kind: type, *, is_base: bool = False) -> list[Any]:
        name = find_library_name(kind)
        if name is not None:
            return ["library", name]
        if self.get_shared_name(kind) is not None:
            return ["shared", kind.__name__]
        if is_base:
            return ["library", "builtins.Exception"]
        return ["mine", self.export(kind), kind.__name__, kind.__qualname__, kind.__module__, None]

    def make_stand_in(self, number: int, *description: Any) -> Any:
        known = self._imported.get(number)
        match description:
            case () if isinstance(known, RemoteClass):
                known.__kind__.is_tested = False
                return known
            case (int(kind_number),) if isinstance(kind := self._classes.get(kind_number), RemoteClass):
                if isinstance(known, RemoteProxy):
                    known.__reference__.n_mentions += 1
                    return known
                if known is None and issubclass(kind, RemoteObject):
                    proxy = object.__new__(kind)
                    proxy.__reference__ = RemoteState(number)
                    return self.register_stand_in(number, proxy)
        raise ProtocolError("an object has an unknown class")

    def make_error_stand_in(self, number: int, error: Exception, text: str) -> Exception:
        if isinstance(error, RemoteProxy):
            if number in self._imported:
                raise ProtocolError("it has an exception where none is allowed")
            object.__setattr__(error, "__reference__", RemoteState(number))
            object.__setattr__(error, "__text__", text)
            self.register_stand_in(number, error)
        return error

    def decode(self, graph: ObjectGraph, tag: str, parts: list[Any]) -> Any:
        value = super().decode(graph, tag, parts)
        if tag == "library" and issubclass(AssertionError, value):
            self._guard.fail_test(f"{value.__name__} is a base class of test failures")
        return value

    def decode_class(self, raw: list[Any]) -> type:
        match raw:
            case ["mine", int(number)] if number in self._classes:
                return self._classes[number]
        return super().decode_class(raw)

    def find_library_object(self, name: str) -> Any:
        value = super().find_library_object(name)
        if not is_data_type(value):
            raise ProtocolError(f"{name[:80]!r} is not data")
        return value

    def check_attribute(self, value: Any) -> None:
        if callable(value):
            raise ProtocolError("it has an attribute that would act as a method")

    def register_classes(self, classes: list[Any], shared_names: list[Any]) -> None:
        for description in classes:
            match description:
                case [int(number), str(name), list(bases), list(special_methods), list(methods)] if (
                    number not in self._imported and len(self._classes) < _MAX_CLASSES
                ):
                    kind = RemoteKind(self._guard, _require_texts(special_methods), _require_texts(methods))
                    self._classes[number] = self.register_stand_in(number, self._make_class(kind, name, bases))
                case _:
                    raise ProtocolError("it describes a class in an unknown way")

    def _make_class(self, kind: RemoteKind, name: str, raw_bases: list[Any]) -> RemoteClass:
        bases = [self.decode_class(base) for base in raw_bases]
        errors: list[type] = [base for base in bases if issubclass(base, Exception)]
        kept = errors or [base for base in bases if isinstance(base, RemoteClass)]
        short = name[:200] if name[:200].isprintable() else "?"
        try:
            made = make_remote_class(kind, short, tuple(dict.fromkeys(kept)))
        except TypeError:  # the proxies of the bases have no common method resolution order, or conflicting layouts
            made = make_remote_class(kind, short, tuple(kept[:1]))
        kind.is_named = _has_named_base(made)
        return made


def _has_named_base(kind: RemoteClass) -> bool:
    return any(base.__dict__["__kind__"].is_named for base in kind.__bases__ if "__kind__" in base.__dict__)


def _require_texts(raw: list[Any]) -> frozenset[str]:
    if not all(type(text) is str for text in raw):
        raise ProtocolError("one of its values is not text")
    return frozenset(raw)


def run(
    setup: types.CodeType,
    preamble: types.CodeType,
    statements: str,
    names: tuple[str, ...],
    classes: tuple[str, ...],
    report_fd: int,
    stream: FrameStream,
) -> NoReturn:
    """Run a test, report the verdict, and exit.

    setup       compiled Assertions.setup
    preamble    compiled Assertions.given
    statements  source of the test
    names       the submission's names that the test uses
    classes     the classes among `names`
    report_fd   descriptor of the report's file
    stream      the connection to the submission's process
    """
    report = AssertionReportWriter(report_fd)
    module = types.ModuleType(MODULE)
    namespace = vars(module)
    solution = _Solution(names, report)
    sys.modules |= {MODULE: module, "solution": solution, "pytest": _pytest}
    submission = TestsPeer(stream, report, namespace, names)
    sys.setrecursionlimit(_RECURSION_LIMIT)  # as in _peer.py
    stage = "Assertions.given"
    try:
        code = compile(statements, FILE, "exec", dont_inherit=True)
        exec(preamble, namespace)
        report.mark_stage("preamble_done")
        proxies = submission.fetch_objects(classes)
        report.mark_stage("names_listed")
        if len(proxies) < len(names) or not all(
            _has_expected_kind(value, name in classes) for name, value in proxies.items()
        ):
            report.mark_stage("submission_called")  # attributes later failures to the submission
        vars(solution).update(proxies, __all__=list(proxies))
        namespace.update(proxies)
        stage = "Assertions.setup"
        exec(setup, namespace)
        report.mark_stage("setup_done")
        stage = "a test"
        exec(code, namespace)
    except PeerDisconnected:
        report.write_verdict("disconnected")
    except ProtocolError as error:
        report.write_verdict("malformed", str(error))
    except BaseException as error:
        report.write_verdict(
            "failed", f"{stage}: {_describe_error(error)}" if stage != "a test" else _describe_error(error, statements)
        )
    report.write_verdict("passed")


def _has_expected_kind(value: Any, must_be_class: bool) -> bool:
    """Return whether a proxy is a class or, unless `must_be_class`, callable."""
    return isinstance(value, RemoteClass) or (isinstance(value, RemoteProxy) and callable(value) and not must_be_class)


class _Solution(types.ModuleType):
    def __init__(self, names: tuple[str, ...], report: AssertionReportWriter) -> None:
        super().__init__("solution")
        self._report = report

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("__"):
            self._report.mark_stage("submission_called")  # attributes the failure to the submission
        raise AttributeError(f"the submission has no {name!r}")


def _describe_error(error: BaseException, source: str = "") -> str:
    """Return the type and text of an exception and, if `source` is the test, the line that raised it."""
    try:
        text = "".join(traceback.format_exception_only(error)).strip()
    except Exception:  # __str__ of an exception class of the test can raise any exception
        text = type(error).__name__
    lines = source.split("\n")
    numbers = [number for frame, number in traceback.walk_tb(error.__traceback__) if frame.f_code.co_filename == FILE]
    if not numbers or not 0 < numbers[-1] <= len(lines):
        return text
    return f"{text} in line {numbers[-1]}: {lines[numbers[-1] - 1].strip()}"
