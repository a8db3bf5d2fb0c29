"""Checks of the arguments of rewards. The errors have the name of the parameter and its valid values."""

import math
from numbers import Real
from typing import SupportsIndex


def check_int(name: str, value: object, *, minimum: int = 1) -> None:
    """Raise TypeError unless the value is an integer, and ValueError if it is below `minimum`."""
    if isinstance(value, bool) or not isinstance(value, SupportsIndex):
        raise TypeError(f"{name} must be a whole number, not {_describe(value)}")
    if value.__index__() < minimum:
        raise ValueError(f"{name} must be at least {minimum}, not {value}")


def check_number(name: str, value: object, *, above: float = -math.inf) -> None:
    """Raise TypeError unless the value is a number, and ValueError unless it is finite and above `above`."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a number, not {_describe(value)}")
    if not (math.isfinite(value) and float(value) > above):
        bound = "" if above == -math.inf else f" above {above:g}"
        raise ValueError(f"{name} must be a finite number{bound}, not {value}")


def check_str(name: str, value: object) -> None:
    if not isinstance(value, str):
        raise TypeError(f"{name} must be text, not {_describe(value)}")


def check_bool(name: str, value: object) -> None:
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be True or False, not {_describe(value)}")


def check_callable(name: str, value: object, example: str) -> None:
    """Raise TypeError unless the value is callable. example: a valid argument, for the message"""
    if not callable(value):
        raise TypeError(f"{name} must be a reward, such as {example}, not {_describe(value)}")


def _describe(value: object) -> str:
    return f"{type(value).__name__} {value!r}"[:100]
