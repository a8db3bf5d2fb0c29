"""Bounds above what rows and callers ask for: what is higher is lowered to its bound, which is logged once."""

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sandbox.program import Limits

log = logging.getLogger(__name__)

PROCESSES = 4096  # of one run; a machine has some ten thousand
_NAMES = ("wall_seconds", "cpu_seconds", "memory_mb", "processes", "output_kb", "disk_mb", "budget_seconds")


def of_machine(memory_mb: int) -> Limits:
    """The most that makes sense on a machine with so much memory; times are not bounded by it."""
    longest, largest_mb = 10**5, min(memory_mb, 2**24)  # what Limits itself allows
    return Limits(longest, longest, largest_mb, PROCESSES, 2**22, largest_mb)  # /tmp is memory, too


def bounds_of(most: Limits) -> dict[str, float]:
    """Limit -> bound. cpu_seconds: None is the same as wall_seconds; budget_seconds: None is no bound."""
    cpu_seconds = most.cpu_seconds if most.cpu_seconds is not None else most.wall_seconds
    bounds = {name: getattr(most, name) for name in _NAMES} | {"cpu_seconds": cpu_seconds}
    return {name: bound for name, bound in bounds.items() if bound is not None}


def above(asked: Limits, bounds: Mapping[str, float]) -> dict[str, float]:
    """Limit -> bound, of those that are above theirs."""
    return {name: bound for name, bound in bounds.items() if (getattr(asked, name) or 0) > bound}


def within(asked: Limits, bounds: Mapping[str, float]) -> Limits:
    """`asked` itself if it is within the bounds."""
    lowered: dict[str, Any] = above(asked, bounds)
    if asked.budget_seconds is None and "budget_seconds" in bounds:
        lowered["budget_seconds"] = bounds["budget_seconds"]
    return replace(asked, **lowered) if lowered else asked


class Maxima:
    """most: every field is a bound, as bounds_of has them."""

    def __init__(self, most: Limits) -> None:
        self._bounds = bounds_of(most)
        self._said: set[str] = set()

    def bounded(self, request: tuple[Any, ...]) -> tuple[Any, ...]:
        """The request (see sandbox/backends/__init__.py) with limits within the bounds."""
        asked = limits_of(request)
        limits = self.limits(asked)
        if limits is asked:
            return request
        if request[0] == "run":
            return (*request[:3], limits)
        return (*request[:2], replace(request[2], limits=limits), *request[3:])

    def limits(self, asked: Limits) -> Limits:
        """`asked` itself if it is within the bounds."""
        for name, bound in above(asked, self._bounds).items():
            self._say(name, getattr(asked, name), bound)
        return within(asked, self._bounds)

    def _say(self, name: str, value: float, bound: float) -> None:
        if name not in self._said:
            self._said.add(name)
            log.warning("%s of %s was asked for; programs get %s at most (said once)", name, value, bound)


def limits_of(request: tuple[Any, ...]) -> Limits:
    limits: Limits = request[3] if request[0] == "run" else request[2].limits
    return limits
