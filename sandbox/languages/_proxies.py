"""Proxies: the tests' side of objects that stay in the submission's process.

A proxy never tells the submission what the test expects. Attributes, items, lengths, numbers, texts and the results of
calls without arguments are claims: they do not depend on what is expected, so they are as good as a returned value.
`==`, `in`, `count(3)`, `equals(frame)` or `x - 3.5` would disclose it, and the submission could answer accordingly.

    named      an object whose class, or a base of it, is one of the names that the suite tests
    tested     a class that the suite itself names as a class. Under another name it may stand in place of a function,
               whose results are compared with what is expected
    subject    an object that the test itself has made, by calling a tested class

An object or class that the submission has returned is a subject, or tested, no longer: it may stand where the test
expects data, as after `def f(self): return self`. Calls whose result the test discards are an exception.

    ==         a proxy equals itself. Two named objects, or a subject and anything, are asked, since their class is what
               is tested. Nothing else is: what the submission has returned never equals data
    < + ...    two named objects, or a subject and anything, are asked
    in         a subject is asked; of others, the items are looked at, if it has any
    len, items a subject is asked each time; claims of others must agree with one another, see _read_cache.py
    truth      named objects are asked if their class has __bool__ or __len__; other objects are true
    hash       named objects are asked if their class has __hash__; others have the hash of an identity
    x(...)     asked: no data can be called, so the test expects a function, and its arguments are inputs
    x.m(...)   subjects and tested classes are asked. Of others, a method gets arguments only if all of them are named
               objects, as with ==, or if the test discards the result, as in the statement `tree.insert(5)`

What is not asked ends the test, which has failed: an exception could be one that the test expects.
"""

import dis
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any, NoReturn, TypeVar

from sandbox.languages._read_cache import ProxyTransport, ReadCache

Plain = TypeVar("Plain")

_RAISE = dis.opmap["RAISE_VARARGS"]
_BINARY = "add sub mul truediv floordiv mod divmod pow matmul and or xor lshift rshift".split()
_REFLECTED = {f"r{name}": name for name in _BINARY if name != "divmod"}
_IN_PLACE = "iadd isub imul itruediv iand ior ixor".split()
_ORDER = "lt le gt ge".split()
_UNARY = "neg pos abs invert int float complex index".split()
_CALLS = frozenset(code for name, code in dis.opmap.items() if name.startswith("CALL"))
_CACHE, _POP = dis.opmap["CACHE"], dis.opmap["POP_TOP"]


class RemoteClass(type):
    """The class of the classes of the submission. See `make_remote_class` for how they are made."""

    _asking: ProxyTransport
    _number: int
    _has: frozenset[str]
    _methods: frozenset[str]
    _is_named: bool
    _is_tested: bool

    def __new__(mcs, name: str, bases: tuple[type, ...], content: dict[str, Any], *, number: int = -1) -> Any:
        for base in bases if number < 0 else ():
            if isinstance(base, RemoteClass) and base.__dict__.get("_number"):
                base._asking.fail_test("tests cannot extend a class of the submission")
        return super().__new__(mcs, name, bases, content)

    def __init__(cls, name: str, bases: tuple[type, ...], content: dict[str, Any], *, number: int = -1) -> None:
        super().__init__(name, bases, content)

    def __call__(cls, /, *arguments: Any, **named: Any) -> Any:
        result = cls._asking.request("call", cls, *arguments, **named)
        if (
            cls._is_tested
            and isinstance(result, RemoteObject)
            and type(result)._is_named
            and result._is_subject is None
        ):
            result._is_subject = True
        return result

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("_") and name in RemoteClass.__annotations__:
            raise AttributeError(name)
        _refuse_memory(name)
        return _attribute(cls, cls, name)

    def __setattr__(cls, name: str, value: Any) -> None:
        if name in RemoteClass.__annotations__ or name.startswith("__"):
            super().__setattr__(name, value)
        else:
            cls._asking.request("set", cls, name, value)

    def __iter__(cls) -> Iterator[Any]:
        return iterate(cls)

    def __len__(cls) -> int:
        return _claims(cls).length()

    def __bool__(cls) -> bool:
        return True

    def __getitem__(cls, key: Any) -> Any:
        return _claims(cls).item(key, None)

    def __contains__(cls, item: Any) -> bool:
        return _is_among(item, cls)


class RemoteProxy(metaclass=RemoteClass):
    """A proxy. Its class tells what may be asked of it; `_remote` is its number in the submission's process."""

    __slots__ = ()
    _number = 0
    _is_named = False
    _is_tested = False
    _has: frozenset[str] = frozenset()
    _methods: frozenset[str] = frozenset()

    _remote: int
    _is_subject: bool | None  # None: new, and nothing is known about it

    def __getattr__(self, name: str) -> Any:
        kind = type(self)
        if name in ("_remote", "_is_subject"):
            raise AttributeError(name)
        _refuse_memory(name)
        return _attribute(self, kind, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in ("_remote", "_is_subject") or (name.startswith("__") and isinstance(self, BaseException)):
            object.__setattr__(self, name, value)
        else:
            type(self)._asking.request("set", self, name, value)

    def __delattr__(self, name: str) -> None:
        type(self)._asking.request("del", self, name)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not ((self._is_subject or _both_named(self, other)) and "eq" in type(self)._has):
            return False
        return type(self)._asking.request("eq", self, other) is True

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        kind = type(self)
        if kind._is_named and "nohash" in kind._has:
            raise TypeError(f"unhashable type: '{kind.__name__}'")
        if kind._is_named and "hash" in kind._has:
            return _exactly(int, kind._asking.request("hash", self))
        return hash((RemoteProxy, self._remote))

    def __bool__(self) -> bool:
        kind = type(self)
        if not (kind._is_named and kind._has & {"bool", "len"}):
            return True
        return kind._asking.request("bool", self) is True

    def __repr__(self) -> str:
        return _exactly(str, type(self)._asking.request("repr", self))

    def __str__(self) -> str:
        return _exactly(str, type(self)._asking.request("str", self))

    def __format__(self, form: str) -> str:
        return _exactly(str, type(self)._asking.request("format", self, form))

    def __reduce_ex__(self, protocol: Any) -> Any:
        type(self)._asking.fail_test("an object of the submission cannot be copied by tests")


class RemoteObject(RemoteProxy):
    """An object other than an exception."""

    __slots__ = ("_remote", "_is_subject")


class RemoteError(RemoteProxy):
    """An exception. It has the arguments and the text of the submission's exception."""

    __slots__ = ()
    _text: str

    def __str__(self) -> str:
        return str(self.__dict__.get("_text", ""))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, getattr(self, 'args', ())))})"


def _attribute(owner: Any, kind: RemoteClass, name: str) -> Any:
    """Return an attribute of an object or a class of the submission: a claim, or a method.

    A callable claim counts as a method, or `equals = lambda other: True` would evade the rule for methods.
    """
    if name in kind._methods:
        return _Method(owner, kind, name)
    value = kind._asking.request("get", owner, name)
    return _Method(owner, kind, name) if callable(value) else value


class _Method:
    """A method of an object or a class of the submission."""

    def __init__(self, owner: Any, kind: RemoteClass, name: str) -> None:
        self._owner, self._kind, self.__name__ = owner, kind, name

    def __call__(self, /, *arguments: Any, **named: Any) -> Any:
        owner, ask = self._owner, self._kind._asking.request
        may_be_told = not (arguments or named) or self._may_be_told([*arguments, *named.values()])
        if not _is_discarded(sys._getframe(1)):
            if not may_be_told:
                words = f"{self.__name__} of type {self._kind.__name__} gets no arguments"
                self._kind._asking.fail_test(f"{words}: it belongs to an object that the test did not make")
            return ask("method", owner, self.__name__, *arguments, **named)
        result = ask("statement", owner, self.__name__, *arguments, **named)
        # The caller may be C code in the same statement, such as `map`, which does not drop the result.
        return result if may_be_told and result is not owner else None

    def _may_be_told(self, arguments: list[Any]) -> bool:
        if isinstance(self._owner, RemoteClass):
            return self._owner._is_tested
        return self._owner._is_subject is True or all(_both_named(self._owner, argument) for argument in arguments)


def _is_discarded(frame: types.FrameType) -> bool:
    """Return whether a frame is in a call whose result it drops, as in a statement that is nothing but a call."""
    code, place = frame.f_code.co_code, frame.f_lasti
    if code[place] not in _CALLS:
        return False
    place += 2
    while code[place] == _CACHE:
        place += 2
    return code[place] == _POP


def make_remote_class(
    transport: ProxyTransport,
    number: int,
    name: str,
    bases: tuple[type, ...],
    special_methods: frozenset[str],
    methods: frozenset[str],
) -> RemoteClass:
    """Return a class for the proxies of a class of the submission, with the special methods that it has."""
    content: dict[str, Any] = {"__module__": "solution"}
    if any(issubclass(base, BaseException) for base in bases):
        bases = bases if any(issubclass(base, RemoteProxy) for base in bases) else (RemoteError, *bases)
    else:
        bases = bases or (RemoteObject,)
        content |= {"__slots__": (), "__doc__": property(lambda self: transport.request("get", self, "__doc__"))}
        content["__contains__"] = _contains  # else Python would stop at the first item that fits
    content |= {f"__{part}__": function for part, function in _SPECIAL.items() if part in special_methods}
    content |= {"_asking": transport, "_number": number, "_has": special_methods, "_methods": methods}
    content |= {"_is_named": False, "_is_tested": False}
    return RemoteClass(name, bases, content, number=number)


def mark_suite_class(kind: RemoteClass) -> None:
    """Note that a class is one of the names that the suite tests, as are its subclasses."""
    type.__setattr__(kind, "_is_named", True)


def set_tested(kind: RemoteClass, is_tested: bool) -> None:
    """Note whether a class is tested."""
    type.__setattr__(kind, "_is_tested", is_tested)


def has_suite_base(bases: tuple[type, ...]) -> bool:
    return any(getattr(base, "_is_named", False) is True for base in bases if isinstance(base, RemoteClass))


def iterate(remote: Any) -> Iterator[Any]:
    """Yield the items that an object of the submission yields, when they are asked for."""
    if isinstance(remote, RemoteClass):
        return _claims(remote).items(lambda: _pulled(remote, remote._asking))
    if remote._is_subject or "next" in type(remote)._has:
        return _pulled(remote, type(remote)._asking)
    return _claims(remote).items(lambda: _pulled(remote, type(remote)._asking))


def _pulled(remote: Any, asking: ProxyTransport) -> Iterator[Any]:
    iterator = asking.request("iter", remote)
    if not isinstance(iterator, RemoteProxy):
        yield from iterator
        return
    while True:
        try:
            item = _next(iterator)
        except StopIteration:
            return
        yield item


def _next(iterator: Any) -> Any:
    """Return the next item of an iterator, which stays at its end once it has come to it."""
    asking, number = type(iterator)._asking, iterator._remote
    if number in asking.exhausted_iterators:
        raise StopIteration
    try:
        return asking.request("next", iterator)
    except StopIteration:
        asking.exhausted_iterators.add(number)
        raise


def _claims(owner: Any) -> ReadCache:
    """Return the claims of an object or class that hold at this time."""
    is_class = isinstance(owner, RemoteClass)
    asking: ProxyTransport = owner._asking if is_class else type(owner)._asking
    return asking.read_caches.setdefault(
        (is_class, owner._number if is_class else owner._remote), ReadCache(owner, asking)
    )


def _is_among(item: Any, remote: Any) -> bool:
    """Return whether an object yields an item. All its items are read: one that yields everything has no end."""
    members = list(iterate(remote))
    return any(member is item or member == item for member in members)


def returns_self(operation: str, arguments: tuple[Any, ...]) -> bool:
    """Tell whether an operation asks a subject for what is usually itself, without an answer that could be data."""
    if not (arguments and isinstance(arguments[0], RemoteObject) and arguments[0]._is_subject):
        return False
    return operation in _IN_PLACE or operation in ("iter", "statement") or arguments[1:2] == ("__enter__",)


def _refuse_memory(name: str) -> None:
    """Raise AttributeError for what would let numpy read, as an array, the memory at an address that is told."""
    if name.startswith("__array"):
        raise AttributeError(name)


def _both_named(one: Any, other: Any) -> bool:
    return (
        isinstance(one, RemoteProxy)
        and isinstance(other, RemoteProxy)
        and type(one)._is_named
        and type(other)._is_named
    )


def _exactly(kind: type[Plain], value: Any) -> Plain:
    if type(value) is not kind:
        raise TypeError(f"the submission has answered with {type(value).__name__}, not {kind.__name__}")
    answer: Plain = value
    return answer


def _forwarded(name: str) -> Callable[..., Any]:
    return lambda self, *arguments: type(self)._asking.request(name, self, *arguments)


def _refuse(self: Any, what: str) -> NoReturn:
    asking: ProxyTransport = type(self)._asking
    asking.fail_test(f"{what} is not asked of an object of type {type(self).__name__}: the test did not make it")


def _asked(name: str) -> Callable[..., Any]:
    """Return a special method that asks two named objects, or a subject and anything."""

    def combine(self: Any, other: Any, *more: Any) -> Any:
        if not (self._is_subject or _both_named(self, other)):
            _refuse(self, name)
        return type(self)._asking.request(name, self, other, *more)

    return combine


def _reflected(name: str) -> Callable[[Any, Any], Any]:
    def combine(self: Any, other: Any) -> Any:
        if not (self._is_subject or _both_named(self, other)):
            _refuse(self, name)
        return type(self)._asking.request(name, other, self)

    return combine


def _ordered(name: str) -> Callable[[Any, Any], bool]:
    ask = _asked(name)
    return lambda self, other: ask(self, other) is True


def _unary(name: str, kind: type | None = None) -> Callable[..., Any]:
    def convert(self: Any, *arguments: Any) -> Any:
        if not type(self)._is_named:
            _refuse(self, name)
        value = type(self)._asking.request(name, self, *arguments)
        return value if kind is None else _exactly(kind, value)

    return convert


def _len(self: Any) -> int:
    return _exactly(int, type(self)._asking.request("len", self)) if self._is_subject else _claims(self).length()


def _getitem(self: Any, key: Any) -> Any:
    kind = type(self)
    if self._is_subject or not _is_key(key):
        return kind._asking.request("getitem", self, key)
    pull = (lambda: _pulled(self, kind._asking)) if "iter" in kind._has and "next" not in kind._has else None
    return _claims(self).item(key, pull)


def _is_key(key: Any) -> bool:
    if type(key) is slice:
        return True
    try:
        hash(key)
    except TypeError:
        return False
    return True


def _contains(self: Any, item: Any) -> bool:
    if self._is_subject:
        return type(self)._asking.request("contains", self, item) is True
    if "iter" not in type(self)._has:
        _refuse(self, "in")
    return _is_among(item, self)


def _call(self: Any, /, *arguments: Any, **named: Any) -> Any:
    return type(self)._asking.request("call", self, *arguments, **named)


def _enter(self: Any) -> Any:
    return type(self)._asking.request("method", self, "__enter__")


def _leave(self: Any, kind: Any, error: Any, trace: types.TracebackType | None) -> bool:
    suppresses = type(self)._asking.request("method", self, "__exit__", kind, error, None) is True
    # Otherwise a context manager could keep any failure of the test from being seen.
    is_failure = isinstance(error, AssertionError) or not isinstance(error, Exception)
    return suppresses and not is_failure and _is_raised_by_the_test(trace)


def _is_raised_by_the_test(trace: types.TracebackType | None) -> bool:
    """Return whether an exception comes from a `raise` in the block itself, not from anything that it has called."""
    return trace is not None and trace.tb_next is None and trace.tb_frame.f_code.co_code[trace.tb_lasti] == _RAISE


_CONVERSIONS = {"int": int, "float": float, "complex": complex, "index": int}
_SPECIAL: dict[str, Any] = {
    "len": _len,
    "getitem": _getitem,
    "iter": iterate,
    "next": _next,
    "call": _call,
    "enter": _enter,
    "exit": _leave,
    "round": _unary("round"),
    **{name: _forwarded(name) for name in ("setitem", "delitem", "reversed")},
    **{name: _ordered(name) for name in _ORDER},
    **{name: _asked(name) for name in (*_BINARY, *_IN_PLACE)},
    **{name: _reflected(forward) for name, forward in _REFLECTED.items()},
    **{name: _unary(name, _CONVERSIONS.get(name)) for name in _UNARY},
}
