"""The tests' side of tests that are statements: it runs them, and asks the submission's process for what they use.

This process belongs to the suite. It holds the tests, which the submission must not see, and reads what the submission
sends, which may be anything.
"""

import collections
import json
import os
import sys
import threading
import traceback
import types
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

from sandbox.languages import _pytest
from sandbox.languages._object_protocol import (
    WRAPPER_ATTRIBUTES,
    Codec,
    FrameStream,
    ObjectGraph,
    PeerDisconnected,
    ProtocolError,
)
from sandbox.languages._proxies import (
    RemoteClass,
    RemoteProxy,
    has_suite_base,
    make_remote_class,
    mark_suite_class,
    returns_self,
    set_tested,
)
from sandbox.languages._read_cache import READ_ONLY_OPERATIONS, ReadCache
from sandbox.languages._submission_server import builtin_name, resolve_data_type, resolve_library_error

MODULE = "tests"  # the name of the module in which the tests run
FILE = "<test>"  # the name of the file that holds a test
_MAX_ITERATOR = 1_000_000  # items of an iterator that is passed as an argument
_LEVELS = 200_000
_MAX_DETAIL_CHARS = 1000  # characters for people
_MAX_CLASSES = 10_000


class AssertionReportWriter:
    """Writer of the report from which the judge learns how far the tests came and how they ended.

    Each record is a line of ASCII JSON, so no text of a submission can end it; see sandbox/jail/assertion_runner.py.
    Only this process holds the file.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._noted: set[str] = set()

    def mark_stage(self, stage: str) -> None:
        """Record that a stage was reached."""
        if stage not in self._noted:
            self._noted.add(stage)
            self._write({"stage": stage})

    def write_verdict(self, verdict: str, detail: str = "") -> NoReturn:
        """Record the verdict and exit, without running any cleanup of this process."""
        self._write(
            {"verdict": verdict, "detail": detail[:_MAX_DETAIL_CHARS].encode("utf-8", "backslashreplace").decode()}
        )
        os._exit(0)

    def _write(self, record: dict[str, str]) -> None:
        os.write(self._descriptor, json.dumps(record).encode("ascii") + b"\n")


class SubmissionClient:
    """Asks the process of the submission.

    wire        the connection to it
    report      where the tests' progress is noted
    namespace   the namespace of the tests
    names       the names that the tests use of the submission
    """

    def __init__(
        self, wire: FrameStream, report: AssertionReportWriter, namespace: dict[str, Any], names: tuple[str, ...]
    ) -> None:
        self._wire, self._report = wire, report
        self._namespace, self._names = namespace, names
        self._number = 0
        self._classes: dict[int, RemoteClass] = {}
        self._objects: dict[int, Any] = {}
        self._functions: list[Callable[..., Any]] = []
        self._foreign: list[Any] = []
        self._shared: dict[str, type] = {}  # the classes whose instances travel by value
        self._turn = threading.RLock()  # tests may have threads
        self.read_caches: dict[Any, ReadCache] = {}
        self.exhausted_iterators: set[Any] = set()
        self._codec = Codec(
            class_of=self._shared.get,
            name_of=self._name_of,
            reference=self._reference,
            referred=self._referred,
            hides=callable,
        )

    def fetch_objects(self, classes: tuple[str, ...]) -> dict[str, Any]:
        """Return the submission's objects that the tests use: name -> proxy. Raises ProtocolError.

        classes   the names of classes that are tested
        """
        for kind in list(self._namespace.values()):  # only classes of the given code: the submission has them, too
            if self._is_ours(kind):
                self._name_of(kind)
        answer, graph = self._exchange("names", ObjectGraph(self._codec), {})
        known: dict[str, Any] = {}
        match answer:
            case {"value": raw}:
                for pair in _list(graph.decode(raw)):
                    match pair:
                        case (str(name), value) if name in self._names and name not in known:
                            known[name] = value
                        case _:
                            raise ProtocolError("it has a name that was not asked for")
            case _:
                raise ProtocolError("it does not say which names it has")
        for kind in self._classes.values():
            is_used = any(kind is value for value in known.values())
            if is_used or has_suite_base(kind.__bases__):  # bases come before the classes that inherit them
                mark_suite_class(kind)
        for name, value in known.items():
            if _catches_failures(value):
                self.fail_test(f"{name} stands for a class of which failures of tests are instances")
            if isinstance(value, RemoteClass):  # one that also stands in place of a function is not tested
                set_tested(value, all(other in classes for other, same in known.items() if same is value))
        return known

    def fail_test(self, reason: str) -> NoReturn:
        """End the test, since it would have to ask for something that discloses what it expects: it has failed."""
        self._report.write_verdict("failed", reason)

    def request(self, operation: str, /, *arguments: Any, **named: Any) -> Any:
        """Have the submission carry out an operation of _submission_server.py; return its result or raise its
        exception."""
        self._report.mark_stage("called")
        with self._turn:
            if operation not in READ_ONLY_OPERATIONS:
                self.read_caches.clear()
            return self._asked(operation, arguments, named)

    def _asked(self, operation: str, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        is_subject = returns_self(operation, arguments)
        try:
            graph = ObjectGraph(self._codec)
            question = {"arguments": graph.encode(arguments), "named": graph.encode(named)}
            answer, graph = self._exchange(operation, graph, question)
            is_subject = is_subject and arguments[0]._is_subject  # a changed argument may hold it, in place of data
            error = answer.get("error")
            if error is None:
                value = graph.decode(answer.get("value"))
                if is_subject and value is arguments[0]:
                    value._is_subject = True
                return value
            failure = self._failure(graph, error)
        except ProtocolError as unreadable:
            self._report.write_verdict("unreadable", str(unreadable))
        if (
            isinstance(failure, StopIteration)
            and operation != "next"
            and arguments[1:2] not in (("__next__",), ("send",))
        ):
            failure = RuntimeError("the submission raised StopIteration")  # which would end a loop of the tests
        raise failure

    def _exchange(
        self, operation: str, graph: ObjectGraph, question: dict[str, Any]
    ) -> tuple[dict[str, Any], ObjectGraph]:
        """Send a question; return the answer, and the graph with the nodes of both. Raises ProtocolError."""
        self._number += 1
        number = self._number  # a function of ours that is called back may ask for more
        before = len(graph.objects)
        frame = {
            "number": number,
            "do": operation,
            "nodes": graph.bodies,
            "shared": list(self._shared),
            **question,
        }
        try:
            self._wire.send(frame)
            answer = self._wire.receive()
            while "ask" in answer:
                self._wire.send(self._called_back(answer))
                answer = self._wire.receive()
        except PeerDisconnected:
            self._report.write_verdict("gone")
        if answer.get("number") != number:
            raise ProtocolError("it answers another request")
        if "refused" in answer:  # an exception would be taken for one of the submission
            self._report.write_verdict("failed", f"the submission cannot be asked this: {answer['refused']}")
        self._learn(answer.get("news"))
        graph.add(answer.get("nodes"))
        for change in _list(answer.get("changed")):
            match change:
                case [int(place), body] if 0 <= place < before:
                    graph.fill(graph.objects[place], body)
                case _:
                    raise ProtocolError("it changes an object that it was not given")
        return answer, graph

    def _called_back(self, question: dict[str, Any]) -> dict[str, Any]:
        """Call a function of ours for the submission; return the answer. Raises ProtocolError."""
        self._learn(question.get("news"))
        graph = ObjectGraph(self._codec)
        graph.add(question.get("nodes"))
        arguments, named = graph.decode(question.get("arguments")), graph.decode(question.get("named"))
        function = self._function(question.get("ask"))
        if type(arguments) is not tuple or type(named) is not dict or not all(type(name) is str for name in named):
            raise ProtocolError("it calls back without arguments")
        graph = ObjectGraph(self._codec)
        try:
            value, raised = graph.encode(function(*arguments, **named)), False
        except (AssertionError, _pytest.Failed) as error:  # which the submission could swallow
            self._report.write_verdict("failed", _told(error))
        except Exception as error:
            value, raised = graph.encode(error), True
        return {"value": value, "raised": raised, "nodes": graph.bodies}

    def _function(self, number: Any) -> Callable[..., Any]:
        if type(number) is not int or not 0 <= number < len(self._functions):
            raise ProtocolError("it calls a function that it was not given")
        return self._functions[number]

    def _is_ours(self, kind: Any) -> bool:
        if not isinstance(kind, type) or isinstance(kind, RemoteClass) or kind.__name__ in self._names:
            return False
        return kind.__module__ == MODULE and self._namespace.get(kind.__name__) is kind

    def _name_of(self, kind: type) -> str | None:
        """Return the name of a class that the tests' side has defined, whose instances travel by value."""
        name = kind.__name__
        if name not in self._shared and self._is_ours(kind):
            self._shared[name] = kind
        return name if self._shared.get(name) is kind else None

    def _reference(self, graph: ObjectGraph, value: Any) -> Any:
        if isinstance(value, RemoteProxy):
            return ["h", value._remote]
        if isinstance(value, RemoteClass):
            return ["C", value._number - 1]
        builtin = builtin_name(value)
        if builtin is not None:
            return ["B", builtin]
        if isinstance(value, type) and self._name_of(value) is not None:
            return ["V", value.__name__]
        if isinstance(value, Exception):
            return ["E", type(value).__name__, [graph.encode(part) for part in value.args]]
        if isinstance(value, Iterator):
            items = []
            for item in value:
                items.append(graph.encode(item))
                if len(items) > _MAX_ITERATOR:
                    self._report.write_verdict("failed", "an endless iterator cannot be passed to the submission")
            return ["I", items]
        if callable(value):
            self._functions.append(value)
            texts = [getattr(value, name, None) for name in WRAPPER_ATTRIBUTES]
            return ["F", len(self._functions) - 1, [text if type(text) is str else None for text in texts]]
        bases: tuple[Callable[[Any], Any], ...] = (list, dict, set, str, int, float, tuple)
        for base in bases:
            if isinstance(value, base):  # type: ignore[arg-type]  # a Counter of its own, say
                return graph.encode(base(value))
        if type(value).__module__ == "numpy" and hasattr(value, "tolist"):
            return graph.encode(value.tolist())
        self._foreign.append(value)
        return ["O", len(self._foreign) - 1]

    def _referred(self, graph: ObjectGraph, raw: list[Any]) -> Any:
        match raw:
            case ["h", int(number), int(kind)]:
                return self._proxy(number, kind)
            case ["C", int(number)] if number in self._classes:
                set_tested(self._classes[number], False)
                return self._classes[number]
            case ["B", str(name)]:
                return resolve_data_type(name)
            case ["F", number]:
                return self._function(number)
            case ["O", int(number)] if 0 <= number < len(self._foreign):
                return self._foreign[number]
            case ["N", str(name), list(fields), list(parts)]:
                values = [graph.decode(part) for part in parts]
                made = collections.namedtuple(name, fields)(*values)
                if any(self._codec.hides(value) for value in values):
                    raise ProtocolError("it has a field that would act as a method")
                return made
        raise ProtocolError("it has a value of an unknown kind")

    def _proxy(self, number: int, kind_number: int) -> Any:
        known = self._objects.get(number)
        if known is not None:
            object.__setattr__(known, "_is_subject", False)
            return known
        kind = self._classes.get(kind_number)
        if kind is None:
            raise ProtocolError("it has an object without a class")
        if issubclass(kind, BaseException):
            return self._made_error(kind, number, [], "")
        proxy = object.__new__(kind)
        object.__setattr__(proxy, "_remote", number)
        object.__setattr__(proxy, "_is_subject", None)
        self._objects[number] = proxy
        return proxy

    def _made_error(self, kind: Any, number: int, arguments: list[Any], text: str) -> Any:
        error = kind.__new__(kind, *arguments)
        for name, value in (("_remote", number), ("_is_subject", False), ("_text", text)):
            object.__setattr__(error, name, value)
        self._objects[number] = error
        return error

    def _failure(self, graph: ObjectGraph, raw: Any) -> Exception:
        """Return the exception that the submission has raised. Raises ProtocolError."""
        match raw:
            case [int(number), list(reference), list(arguments), list(held), str(text)]:
                known = self._objects.get(number)
                if isinstance(known, Exception):
                    return known
                values = [graph.decode(argument) for argument in arguments]
                parts = [(name, graph.decode(part)) for name, part in held]
                return self._new_failure(reference, number, values, parts, text)
        raise ProtocolError("it raises something that is not an exception")

    def _new_failure(
        self, reference: list[Any], number: int, arguments: list[Any], held: list[tuple[str, Any]], text: str
    ) -> Exception:
        kind: Any = None
        try:
            match reference:
                case ["B", str(name)]:
                    kind = resolve_data_type(name)
                case ["G", str(name)]:
                    kind = self._shared.get(name)
                case ["M", str(module), str(name)]:
                    kind = resolve_library_error(module, name)
                case ["C", int(place)]:
                    kind = self._classes.get(place)
            if not (isinstance(kind, type) and issubclass(kind, Exception)):
                raise ProtocolError("it raises something that is not an exception")
            if isinstance(kind, RemoteClass):
                failure: Exception = self._made_error(kind, number, arguments, text)
                return failure
            failure = kind.__new__(kind, *arguments)
            if reference[0] == "B":
                failure.__init__(*arguments)  # type: ignore[misc]
            for name, part in held:
                if type(name) is str and not name.startswith("__") and not callable(part):
                    failure.__dict__[name] = part
            return failure
        except (TypeError, ValueError, AttributeError) as error:
            raise ProtocolError(f"it raises an impossible exception: {error}"[:200]) from None

    def _learn(self, news: Any) -> None:
        """Make proxies of the classes that the submission describes. Raises ProtocolError."""
        for told in _list(news):
            match told:
                case [int(number), str(name), list(bases), list(has), list(methods)] if (
                    number not in self._classes and len(self._classes) < _MAX_CLASSES
                ):
                    self._classes[number] = self._new_class(number, name, bases, _texts(has), _texts(methods))
                case _:
                    raise ProtocolError("it describes a class in an unknown way")

    def _new_class(
        self, number: int, name: str, bases: list[Any], has: frozenset[str], methods: frozenset[str]
    ) -> RemoteClass:
        kinds: list[type] = []
        for base in bases:
            match base:
                case ["B", str(builtin)]:
                    kind = resolve_data_type(builtin)
                    if not issubclass(kind, Exception):
                        raise ProtocolError("it has a class with an impossible base")
                case ["G", str(shared)] if issubclass(self._shared.get(shared, int), Exception):
                    kind = self._shared[shared]
                case ["M", str(module), str(name)]:
                    kind = resolve_library_error(module, name)
                case ["C", int(place)] if place in self._classes:
                    kind = self._classes[place]
                case _:
                    raise ProtocolError("it has a class with an unknown base")
            kinds.append(kind)
        if any(issubclass(kind, BaseException) for kind in kinds):
            kinds = [kind for kind in kinds if issubclass(kind, BaseException)]
        short = name[:200] if name[:200].isprintable() else "?"
        try:
            made = make_remote_class(self, number + 1, short, tuple(dict.fromkeys(kinds)), has, methods)
        except TypeError:  # they have no order of resolution, or do not fit together
            made = make_remote_class(self, number + 1, short, tuple(kinds[:1]), has, methods)
        if has_suite_base(made.__bases__):
            mark_suite_class(made)
        return made


def _list(raw: Any) -> list[Any]:
    if type(raw) is not list:
        raise ProtocolError("a part of it is not a list")
    return raw


def _texts(raw: list[Any]) -> frozenset[str]:
    if not all(type(text) is str for text in raw):
        raise ProtocolError("a part of it is not text")
    return frozenset(raw)


def run(
    setup: types.CodeType,
    preamble: types.CodeType,
    statements: str,
    names: tuple[str, ...],
    classes: tuple[str, ...],
    report: AssertionReportWriter,
    wire: FrameStream,
) -> NoReturn:
    """Run the tests, and end this process.

    given, setup   code that runs before the tests, in this order
    statements     the tests
    names          the names that the tests use of the submission
    classes        those of the names that are classes
    report         where it is noted how far the tests have come, and how they end
    wire           the connection to the submission's process
    """
    module = types.ModuleType(MODULE)
    namespace = vars(module)
    solution = _Solution(names, report)
    sys.modules |= {MODULE: module, "solution": solution, "pytest": _pytest}
    submission = SubmissionClient(wire, report, namespace, names)
    sys.setrecursionlimit(_LEVELS)  # for linked structures of many thousand nodes
    stage = "its given code"
    try:
        code = compile(statements, FILE, "exec", dont_inherit=True)
        exec(preamble, namespace)
        report.mark_stage("given")
        known = submission.fetch_objects(classes)
        report.mark_stage("met")
        if len(known) < len(names) or not all(_is_as_named(value, name in classes) for name, value in known.items()):
            report.mark_stage("called")  # whatever comes of it is the submission's fault
        vars(solution).update(known, __all__=list(known))
        namespace.update(known)
        stage = "its setup"
        exec(setup, namespace)
        report.mark_stage("ready")
        stage = "a test"
        exec(code, namespace)
    except ProtocolError as unreadable:
        report.write_verdict("unreadable", str(unreadable))
    except BaseException as error:
        report.write_verdict("failed", f"{stage}: {_told(error)}" if stage != "a test" else _told(error, statements))
    report.write_verdict("passed")


def _is_as_named(value: Any, must_be_class: bool) -> bool:
    """Tell whether what the submission defines is of the kind that a setup may expect."""
    return isinstance(value, RemoteClass) or (isinstance(value, RemoteProxy) and callable(value) and not must_be_class)


def _catches_failures(value: Any) -> bool:
    """Return whether a failure of a test is an instance of what the submission calls its own class."""
    if isinstance(value, tuple):
        return any(map(_catches_failures, value))
    return isinstance(value, type) and not isinstance(value, RemoteClass) and issubclass(AssertionError, value)


class _Solution(types.ModuleType):
    """The module of the submission, for tests that import it."""

    def __init__(self, names: tuple[str, ...], report: AssertionReportWriter) -> None:
        super().__init__("solution")
        self._report = report

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("__"):
            self._report.mark_stage("called")  # that it is missing is the submission's fault
        raise AttributeError(f"the submission has no {name!r}")


def _told(error: BaseException, source: str = "") -> str:
    """Return the type and the text of an exception, with the line of the test that raised it."""
    try:
        words = "".join(traceback.format_exception_only(error)).strip()
    except Exception:  # __str__ of an exception is the test's own code, which can raise anything
        words = type(error).__name__
    lines = source.split("\n")
    numbers = [number for frame, number in traceback.walk_tb(error.__traceback__) if frame.f_code.co_filename == FILE]
    if not numbers or not 0 < numbers[-1] <= len(lines):
        return words
    return f"{words} in line {numbers[-1]}: {lines[numbers[-1] - 1].strip()}"
