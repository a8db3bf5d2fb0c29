"""Proxies of the submission's objects in the tests' process, and the policies by which they forward operations.

A proxy must not reveal expected values to the submission. Attributes, items, lengths, numbers, texts and results of
calls without arguments are claims: they cannot depend on expected values, so they are as trustworthy as return values.
In `==`, `in`, `count(3)`, `equals(frame)` or `x - 3.5`, the other operand may be the expected value; the submission
would learn it, and could fake the result. POLICIES defines, for each operation, the objects for which a proxy forwards
it, and the fallback for other objects:

    named      an object whose class, or a base of it, is among the names that the suite tests
    tested     a class that the suite declares as a class. Other classes may stand for functions: the test may compare
               their instances with expected values
    subject    an object that the test created by calling a tested class. When the submission returns it, as by
               `def f(self): return self`, it is no longer a subject, since the test may use the result as data. It
               remains one if the test discards the result

A method gets arguments if the policy of `+` permits, or if the test discards the result, as in `tree.insert(5)`. The
default fallback ends the test as failed. It raises no exception, since the test may expect one.
"""

import dis
import sys
import threading
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import Enum, auto
from functools import partial
from typing import Any, NoReturn, TypeVar

from sandbox.languages._assertion_report import AssertionReportWriter
from sandbox.languages._claims import Claims
from sandbox.languages._codec import PeerDisconnected, ProtocolError
from sandbox.languages._peer import Peer, RequestRefused

Plain = TypeVar("Plain")

_RAISE = dis.opmap["RAISE_VARARGS"]
_CALLS = frozenset(code for name, code in dis.opmap.items() if name.startswith("CALL"))
_CACHE, _POP = dis.opmap["CACHE"], dis.opmap["POP_TOP"]


class Scope(Enum):
    """The objects for which proxies forward an operation to the submission."""

    ANY = auto()
    NAMED = auto()
    SUBJECT = auto()
    PAIR = auto()  # a subject; or a named object, if all other operands are named objects, too


@dataclass(eq=False, slots=True)
class RemoteKind:
    """The description of a class of the submission.

    special_methods  names of its special methods, without underscores
    methods          names of its other methods
    is_named         whether its instances are named objects
    is_tested        whether the class is tested
    """

    guard: "Guard"
    special_methods: frozenset[str]
    methods: frozenset[str]
    is_named: bool = False
    is_tested: bool = False


@dataclass(eq=False, slots=True)
class RemoteState:
    """The state of an object of the submission. It is a subject while n_mentions equals n_safe_mentions.

    number           its number in the submission's table of exported objects
    n_mentions       number of times that the submission has sent it
    n_safe_mentions  number of these times for which the test does not use it as data, such as its creation
    is_exhausted     whether it is an iterator that has raised StopIteration
    """

    number: int
    n_mentions: int = 1
    n_safe_mentions: int = 0
    is_exhausted: bool = False


class Guard:
    """Forwards operations to the submission, and fails the test on invalid responses."""

    def __init__(self, peer: Peer, report: AssertionReportWriter) -> None:
        self._peer, self._report = peer, report
        self._lock = threading.RLock()  # tests may start threads
        self._claims: dict[Any, Claims] = {}

    def fail_test(self, reason: str) -> NoReturn:
        """Report that the test failed, and exit."""
        self._report.write_verdict("failed", reason)

    def forward(self, operation: str, owner: Any, /, *arguments: Any, **named: Any) -> Any:
        """Execute an operation in the submission's process; return its result or raise its exception."""
        policy = POLICIES[operation]
        self._report.mark_stage("submission_called")
        with self._lock:
            if not policy.is_reading:
                self._claims.clear()
            may_return_itself = policy.may_return_itself and isinstance(owner, RemoteObject) and is_subject(owner)
            try:
                result = self._peer.request(operation, owner, *arguments, **named)
            except StopIteration:
                if operation == "next" or (operation == "method" and arguments[0] in ("__next__", "send")):
                    raise
                raise RuntimeError("the submission raised StopIteration") from None  # it would end a loop of the tests
            except ProtocolError as error:
                self._report.write_verdict("malformed", str(error))
            except PeerDisconnected:
                self._report.write_verdict("disconnected")
            except RequestRefused as refused:  # not raised, since the test may expect an exception of the submission
                self.fail_test(f"the submission cannot decode a request of the test: {refused}")
            if may_return_itself and result is owner:
                owner.__reference__.n_safe_mentions += 1
            return result

    def get_claims(self, owner: Any) -> Claims:
        claims = self._claims.get(id(owner))
        if claims is None:
            is_ordered = not isinstance(owner, RemoteClass) and "iter" in get_kind(owner).special_methods
            claims = Claims(
                lambda name, *key: self.forward(name, owner, *key), partial(_pull, owner), is_ordered, self.fail_test
            )
            self._claims[id(owner)] = claims
        return claims


class RemoteClass(type):
    """The metaclass of proxy classes; see `make_remote_class`."""

    __kind__: RemoteKind

    def __new__(mcs, name: str, bases: tuple[type, ...], content: dict[str, Any]) -> Any:
        for base in bases if "__kind__" not in content else ():
            if "__kind__" in base.__dict__:
                base.__dict__["__kind__"].guard.fail_test("tests cannot extend a class of the submission")
        return super().__new__(mcs, name, bases, content)

    def __call__(cls, /, *arguments: Any, **named: Any) -> Any:
        result = cls.__kind__.guard.forward("call", cls, *arguments, **named)
        if cls.__kind__.is_tested and isinstance(result, RemoteObject) and get_kind(result).is_named:
            reference = result.__reference__
            if reference.n_mentions == 1:
                reference.n_safe_mentions = 1
        return result

    def __getattr__(cls, name: str) -> Any:
        return _get_attribute(cls, name)

    def __setattr__(cls, name: str, value: Any) -> None:
        if name.startswith("__"):
            super().__setattr__(name, value)
        else:
            cls.__kind__.guard.forward("set", cls, name, value)

    def __iter__(cls) -> Iterator[Any]:
        return iterate(cls)

    def __len__(cls) -> int:
        return _get_claimed_length(cls)

    def __bool__(cls) -> bool:
        return True

    def __getitem__(cls, key: Any) -> Any:
        return _get_claimed_item(cls, key)

    def __contains__(cls, item: Any) -> bool:
        return _contains_item(cls, item)


def get_kind(remote: Any) -> RemoteKind:
    kind: RemoteKind = (remote if isinstance(remote, RemoteClass) else type(remote)).__kind__
    return kind


def is_subject(remote: Any) -> bool:
    """Return whether an object is a subject, or whether a class is tested."""
    if isinstance(remote, RemoteClass):
        return remote.__kind__.is_tested
    reference: RemoteState = remote.__reference__
    return reference.n_mentions == reference.n_safe_mentions


def _is_in_scope(scope: Scope, owner: Any, others: tuple[Any, ...] | list[Any]) -> bool:
    match scope:
        case Scope.NAMED:
            return get_kind(owner).is_named
        case Scope.SUBJECT:
            return is_subject(owner)
        case Scope.PAIR:
            return is_subject(owner) or all(_is_named(owner) and _is_named(other) for other in others)
    return True


def _is_named(value: Any) -> bool:
    return isinstance(value, RemoteProxy) and get_kind(value).is_named


def _refuse(owner: Any, operation: str, *_: Any) -> NoReturn:
    message = f"{operation} is not forwarded to an object of type {type(owner).__name__}"
    get_kind(owner).guard.fail_test(f"{message}: the test did not create it")


def _get_claims(owner: Any, operation: str) -> Claims:
    if not isinstance(owner, RemoteClass) and "next" in get_kind(owner).special_methods:
        _refuse(owner, operation)  # an iterator has no length and no items by index
    return get_kind(owner).guard.get_claims(owner)


def _get_claimed_length(owner: Any, *_: Any) -> int:
    return _get_claims(owner, "len").get_length()


def _get_claimed_item(owner: Any, *arguments: Any) -> Any:
    return _get_claims(owner, "getitem").get_item(arguments[-1])


def _reverse_claimed_items(owner: Any, *_: Any) -> Iterator[Any]:
    return iter(list(iterate(owner))[::-1])


def _contains_item(owner: Any, *arguments: Any) -> bool:
    """Return whether an object yields an item. Reads all items, so an endless object never passes."""
    if not isinstance(owner, RemoteClass) and "iter" not in get_kind(owner).special_methods:
        _refuse(owner, "in")
    return any(member is arguments[-1] or member == arguments[-1] for member in list(iterate(owner)))


def _hash_identity(owner: Any, *_: Any) -> int:
    return hash((RemoteProxy, owner.__reference__.number))


@dataclass(frozen=True, slots=True)
class OperationPolicy:
    """The policy for one operation on a proxy.

    scope              the objects for which the proxy forwards it
    fallback           computes the result for all other objects
    result_type        the exact type of the result; None for any type. For bool, any result but True counts as False
    needs_method       whether to forward it only if the submission's class defines the method
    is_reading         whether it changes no object; other operations invalidate all claims
    may_return_itself  whether a subject that returns itself stays a subject, since the result is never data
    """

    scope: Scope = Scope.ANY
    fallback: Callable[..., Any] = _refuse
    result_type: type | None = None
    needs_method: bool = False
    is_reading: bool = False
    may_return_itself: bool = False


def _repeat_policy(operations: str, policy: OperationPolicy) -> dict[str, OperationPolicy]:
    return dict.fromkeys(operations.split(), policy)


_CHANGING = OperationPolicy()
_READING = OperationPolicy(is_reading=True)
_OPERATORS = "add sub mul truediv floordiv mod divmod pow matmul and or xor lshift rshift"
POLICIES: dict[str, OperationPolicy] = {
    **_repeat_policy("call set del setitem delitem exit", _CHANGING),
    **_repeat_policy("statement enter", replace(_CHANGING, may_return_itself=True)),
    **_repeat_policy("get next", _READING),
    "reversed": OperationPolicy(Scope.SUBJECT, _reverse_claimed_items, is_reading=True),
    "iter": replace(_READING, may_return_itself=True),
    **_repeat_policy("str repr format", replace(_READING, result_type=str)),
    "method": OperationPolicy(Scope.PAIR),
    **_repeat_policy(_OPERATORS, OperationPolicy(Scope.PAIR)),
    **_repeat_policy("iadd isub imul itruediv iand ior ixor", OperationPolicy(Scope.PAIR, may_return_itself=True)),
    **_repeat_policy("lt le gt ge", replace(_READING, scope=Scope.PAIR, result_type=bool)),
    "eq": OperationPolicy(Scope.PAIR, lambda owner, _, other: owner is other, bool, needs_method=True, is_reading=True),
    "bool": OperationPolicy(Scope.NAMED, lambda *_: True, bool, needs_method=True, is_reading=True),
    "hash": OperationPolicy(Scope.NAMED, _hash_identity, int, needs_method=True, is_reading=True),
    **_repeat_policy("neg pos abs invert round", replace(_READING, scope=Scope.NAMED)),
    **_repeat_policy("int index", replace(_READING, scope=Scope.NAMED, result_type=int)),
    "float": replace(_READING, scope=Scope.NAMED, result_type=float),
    "complex": replace(_READING, scope=Scope.NAMED, result_type=complex),
    "len": OperationPolicy(Scope.SUBJECT, _get_claimed_length, int, is_reading=True),
    "getitem": OperationPolicy(Scope.SUBJECT, _get_claimed_item, is_reading=True),
    "contains": OperationPolicy(Scope.SUBJECT, _contains_item, bool, is_reading=True),
}


def _make_special_method(operation: str, *, is_reflected: bool = False) -> Callable[..., Any]:
    policy = POLICIES[operation]

    def call_special_method(self: Any, /, *arguments: Any, **named: Any) -> Any:
        kind = get_kind(self)
        is_missing = policy.needs_method and operation not in kind.special_methods
        if is_missing or not _is_in_scope(policy.scope, self, arguments):
            return policy.fallback(self, operation, *arguments)
        operands = (*arguments, self) if is_reflected else (self, *arguments)
        result = kind.guard.forward(operation, *operands, **named)
        if policy.result_type is bool:
            return result is True
        return result if policy.result_type is None else require_type(policy.result_type, result)

    return call_special_method


def require_type(kind: type[Plain], value: Any) -> Plain:
    """Return the value if it has exactly this type. Raises TypeError."""
    if type(value) is not kind:
        raise TypeError(f"the submission returned {type(value).__name__}, not {kind.__name__}")
    return value


class RemoteProxy(metaclass=RemoteClass):
    """A proxy of an object of the submission."""

    __slots__ = ()
    __reference__: RemoteState

    __eq__ = _make_special_method("eq")
    __hash__ = _make_special_method("hash")
    __bool__ = _make_special_method("bool")
    __repr__ = _make_special_method("repr")
    __str__ = _make_special_method("str")
    __format__ = _make_special_method("format")

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __getattr__(self, name: str) -> Any:
        return _get_attribute(self, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "__reference__" or (name.startswith("__") and isinstance(self, BaseException)):
            object.__setattr__(self, name, value)
        else:
            get_kind(self).guard.forward("set", self, name, value)

    def __delattr__(self, name: str) -> None:
        get_kind(self).guard.forward("del", self, name)

    def __reduce_ex__(self, protocol: Any) -> Any:
        get_kind(self).guard.fail_test("an object of the submission cannot be copied by tests")


class RemoteObject(RemoteProxy):
    """A proxy of an object, not an exception."""

    __slots__ = ("__reference__",)


class RemoteError(RemoteProxy):
    """A proxy of an exception, with its arguments and text."""

    __slots__ = ()
    __text__ = ""

    def __str__(self) -> str:
        return self.__text__

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, getattr(self, 'args', ())))})"


def _get_attribute(owner: Any, name: str) -> Any:
    """Return an attribute of an object or a class of the submission: a claim, or a method.

    A callable claim counts as a method, since `equals = lambda other: True` would evade the policy for methods.
    """
    if name in ("__reference__", "__kind__") or name.startswith("__array"):
        raise AttributeError(name)  # numpy would read memory at an address chosen by the submission
    kind = get_kind(owner)
    if name in kind.methods:
        return _Method(owner, name)
    value = kind.guard.forward("get", owner, name)
    return _Method(owner, name) if callable(value) else value


class _Method:
    def __init__(self, owner: Any, name: str) -> None:
        self._owner, self.__name__ = owner, name

    def __call__(self, /, *arguments: Any, **named: Any) -> Any:
        owner, guard = self._owner, get_kind(self._owner).guard
        is_forwarded = _is_in_scope(POLICIES["method"].scope, owner, [*arguments, *named.values()])
        if _is_discarded(sys._getframe(1)):
            result = guard.forward("statement", owner, self.__name__, *arguments, **named)
            # The real caller may be a C function that uses the result, such as `map`; its caller's frame hides that.
            return result if is_forwarded and result is not owner else None
        if not is_forwarded:
            kind = owner if isinstance(owner, RemoteClass) else type(owner)
            message = f"{self.__name__} of type {kind.__name__} gets no arguments"
            guard.fail_test(f"{message}: it belongs to an object that the test did not create")
        return guard.forward("method", owner, self.__name__, *arguments, **named)


def _is_discarded(frame: types.FrameType) -> bool:
    """Return whether a frame discards the result of its current call, as in an expression statement."""
    code, offset = frame.f_code.co_code, frame.f_lasti
    if code[offset] not in _CALLS:
        return False
    offset += 2
    while code[offset] == _CACHE:
        offset += 2
    return code[offset] == _POP


def iterate(remote: Any) -> Iterator[Any]:
    """Yield the items of an iterable of the submission, lazily."""
    guard = get_kind(remote).guard
    if isinstance(remote, RemoteClass):
        return guard.get_claims(remote).iterate_items()
    if is_subject(remote):
        return _pull(remote)
    if "next" in get_kind(remote).special_methods and guard.forward("iter", remote) is remote:
        return _pull(remote)
    return guard.get_claims(remote).iterate_items()


def _pull(remote: Any) -> Iterator[Any]:
    iterator = get_kind(remote).guard.forward("iter", remote)
    if not isinstance(iterator, RemoteProxy):
        yield from iterator
        return
    while True:
        try:
            item = _get_next_item(iterator)
        except StopIteration:
            return
        yield item


def _get_next_item(iterator: Any) -> Any:
    """Return the next item of an iterator, or raise StopIteration. An exhausted iterator stays exhausted."""
    reference = iterator.__reference__
    if reference.is_exhausted:
        raise StopIteration
    try:
        return get_kind(iterator).guard.forward("next", iterator)
    except StopIteration:
        reference.is_exhausted = True
        raise


def _exit_context(self: Any, kind: Any, error: Any, trace: types.TracebackType | None) -> bool:
    is_failure = error is not None and (isinstance(error, AssertionError) or not isinstance(error, Exception))
    # The text of an AssertionError may reveal the expected value.
    reported = (AssertionError, AssertionError()) if is_failure else (kind, error)
    suppresses = get_kind(self).guard.forward("exit", self, *reported, None) is True
    # Otherwise a context manager could suppress failures of the test.
    return suppresses and not is_failure and _is_raised_in_block(trace)


def _is_raised_in_block(trace: types.TracebackType | None) -> bool:
    """Return whether a `raise` statement in the block itself raised the exception."""
    return trace is not None and trace.tb_next is None and trace.tb_frame.f_code.co_code[trace.tb_lasti] == _RAISE


_SPECIAL_METHODS: dict[str, Callable[..., Any]] = {
    **{
        name: _make_special_method(name)
        for name in POLICIES
        if name not in ("set", "get", "del", "method", "statement")
    },
    **{f"r{name}": _make_special_method(name, is_reflected=True) for name in _OPERATORS.split() if name != "divmod"},
    "iter": iterate,
    "next": _get_next_item,
    "exit": _exit_context,
}


def make_remote_class(kind: RemoteKind, name: str, bases: tuple[type, ...]) -> RemoteClass:
    """Make a proxy class for a class of the submission, with the same special methods."""
    kind.special_methods |= {"bool"} if "len" in kind.special_methods else set()
    if "getitem" in kind.special_methods:  # otherwise Python would fetch items one by one
        kind.special_methods |= {"iter"}
    content: dict[str, Any] = {"__module__": "solution", "__kind__": kind}
    if any(issubclass(base, BaseException) for base in bases):
        bases = bases if any(issubclass(base, RemoteProxy) for base in bases) else (RemoteError, *bases)
    else:
        bases = bases or (RemoteObject,)
        content |= {"__slots__": (), "__doc__": property(lambda self: kind.guard.forward("get", self, "__doc__"))}
        content["__contains__"] = _SPECIAL_METHODS["contains"]  # otherwise Python would stop at the first match
    content |= {f"__{part}__": _SPECIAL_METHODS[part] for part in kind.special_methods & _SPECIAL_METHODS.keys()}
    made: RemoteClass = RemoteClass(name, bases, content)
    return made
