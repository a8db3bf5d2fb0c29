"""A minimal pytest for tests of submissions: raises, approx, fail, skip; fixtures and marks have no effect."""

import math
import re
from collections.abc import Callable
from types import TracebackType
from typing import Any

__all__ = ["approx", "fail", "fixture", "main", "mark", "param", "raises", "skip"]


class Failed(BaseException):
    """The exception of pytest.fail. As in pytest, `except Exception` does not catch it."""


class ExceptionInfo:
    """The `info` of `with raises(...) as info`."""

    value: BaseException
    type: type[BaseException]
    tb: TracebackType | None

    def match(self, pattern: str) -> bool:
        assert re.search(pattern, str(self.value)), f"{pattern!r} does not match {str(self.value)!r}"
        return True


class _Raises:
    def __init__(self, kinds: Any, match: str | re.Pattern[str] | None) -> None:
        self._kinds, self._match = kinds, match
        self._info = ExceptionInfo()

    def __enter__(self) -> ExceptionInfo:
        return self._info

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: Any) -> bool:
        if kind is None or error is None:
            raise Failed(f"DID NOT RAISE {self._kinds!r}")
        if not issubclass(kind, self._kinds):
            return False
        self._info.value, self._info.type, self._info.tb = error, kind, trace
        if self._match is not None:
            self._info.match(self._match)  # type: ignore[arg-type]
        return True


def raises(expected_exception: Any, *arguments: Any, match: Any = None, **named: Any) -> Any:
    """Fail the test unless an exception occurs: in a `with` block, or in a call of a function with these arguments."""
    expectation = _Raises(expected_exception, match)
    if not arguments:
        return expectation
    with expectation as info:
        arguments[0](*arguments[1:], **named)
    return info


class approx:
    """A value that equals close numbers, or lists and dicts with close numbers."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, expected: Any, rel: float | None = None, abs: float | None = None, nan_ok: bool = False) -> None:
        self._expected, self._relative, self._absolute, self._nan_ok = expected, rel, abs, nan_ok

    def __eq__(self, other: object) -> bool:
        return self._is_close(other, self._expected)

    def __repr__(self) -> str:
        return f"approx({self._expected!r})"

    def _is_close(self, value: Any, expected: Any) -> bool:
        if isinstance(expected, dict):
            same_keys = isinstance(value, dict) and value.keys() == expected.keys()
            return same_keys and all(self._is_close(value[key], part) for key, part in expected.items())
        if isinstance(expected, list | tuple):
            fits = isinstance(value, list | tuple) and len(value) == len(expected)
            return fits and all(map(self._is_close, value, expected))
        if isinstance(expected, bool) or not isinstance(expected, int | float | complex):
            return bool(value == expected)
        if isinstance(value, bool) or not isinstance(value, int | float | complex):
            return False
        if value == expected:
            return True
        if math.isnan(abs(expected)) or math.isnan(abs(value)):
            return self._nan_ok and math.isnan(abs(expected)) and math.isnan(abs(value))
        if math.isinf(abs(expected)):
            return False
        relative = (
            (1e-6 if self._absolute is None or self._relative is not None else 0.0)
            if self._relative is None
            else self._relative
        )
        absolute = 1e-12 if self._absolute is None else self._absolute
        return abs(value - expected) <= max(relative * abs(expected), absolute)


def fail(reason: str = "", pytrace: bool = True) -> None:
    raise Failed(reason)


def skip(reason: str = "") -> None:
    raise Failed(f"the test skips itself: {reason}")


def main(*_: Any) -> int:
    return 0


def fixture(function: Any = None, **_: Any) -> Any:
    return function if function is not None else lambda function: function


def param(*values: Any, **_: Any) -> Any:
    return values[0] if len(values) == 1 else values


class _Marks:
    def __getattr__(self, name: str) -> Callable[..., Any]:
        def mark(*arguments: Any, **_: Any) -> Any:
            if len(arguments) == 1 and callable(arguments[0]):
                return arguments[0]
            return lambda function: function

        return mark


mark = _Marks()
