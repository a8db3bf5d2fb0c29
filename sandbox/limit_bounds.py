"""Upper bounds for requested limits. A limit above its bound is clamped, with one warning."""

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sandbox.program import Limits
from sandbox.request import Request, Response

log = logging.getLogger(__name__)

MAX_PROCESSES = 4096  # maximum for one run; a machine typically permits some 10,000
_NAMES = ("wall_seconds", "cpu_seconds", "memory_mb", "processes", "output_kb", "disk_mb", "budget_seconds")


def make_machine_limits(memory_mb: int) -> Limits:
    """Return the upper bounds of limits on a machine with this much memory."""
    max_seconds, max_mb = 10**5, min(memory_mb, 2**24)  # no more than Limits accepts
    return Limits(max_seconds, max_seconds, max_mb, MAX_PROCESSES, 2**22, max_mb)  # /tmp is a tmpfs, so memory, too


def list_bounds(max_limits: Limits) -> dict[str, float]:
    """Return the upper bounds by limit. cpu_seconds=None means wall_seconds, and budget_seconds=None no bound."""
    cpu_seconds = max_limits.cpu_seconds if max_limits.cpu_seconds is not None else max_limits.wall_seconds
    bounds = {name: getattr(max_limits, name) for name in _NAMES} | {"cpu_seconds": cpu_seconds}
    return {name: bound for name, bound in bounds.items() if bound is not None}


def find_exceeded(requested: Limits, bounds: Mapping[str, float]) -> dict[str, float]:
    """Return the bounds of the limits that exceed them, by limit."""
    return {name: bound for name, bound in bounds.items() if (getattr(requested, name) or 0) > bound}


def clamp(requested: Limits, bounds: Mapping[str, float]) -> Limits:
    """Clamp limits to the bounds; return `requested` itself if it is within them."""
    lowered: dict[str, Any] = find_exceeded(requested, bounds)
    if requested.budget_seconds is None and "budget_seconds" in bounds:
        lowered["budget_seconds"] = bounds["budget_seconds"]
    return replace(requested, **lowered) if lowered else requested


class LimitClamp:
    """Clamps limits to the bounds of `max_limits` (see list_bounds), with a logged warning for each clamped limit."""

    def __init__(self, max_limits: Limits) -> None:
        self._bounds = list_bounds(max_limits)
        self._warned: set[str] = set()

    def clamp_request(self, request: Request[Response]) -> Request[Response]:
        """Clamp the limits of a request; return the request itself if they are within the bounds."""
        limits = self.clamp_limits(request.run_limits)
        return request if limits is request.run_limits else request.with_limits(limits)

    def clamp_limits(self, requested: Limits) -> Limits:
        """Clamp limits; return `requested` itself if it is within the bounds. Warns once for each field of Limits."""
        limits = clamp(requested, self._bounds)
        if limits is not requested:
            for name, bound in find_exceeded(requested, self._bounds).items():
                if name not in self._warned:
                    self._warned.add(name)
                    value = getattr(requested, name)
                    log.warning("%s of %s was requested; programs get at most %s (logged once)", name, value, bound)
        return limits
