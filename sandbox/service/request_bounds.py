"""The bounds of requests, which protect the kernel and the service."""

from collections.abc import Mapping
from dataclasses import dataclass

from sandbox import limit_bounds, machine
from sandbox.program import Limits

# Limit -> the option of `curate serve` for its bound. Other limits have no option.
OPTIONS = {
    "wall_seconds": "--most-wall-seconds",
    "memory_mb": "--most-memory-mb",
    "processes": "--most-processes",
    "output_kb": "--most-output-kb",
    "disk_mb": "--most-disk-mb",
}
_MIN_SHARE_MB = 4096  # minimum bound of a run's memory, for any number of workers, if the machine has that much


@dataclass(frozen=True, slots=True)
class RequestBounds:
    """Bounds of one request.

    max_limits   upper bounds for the limits of its runs
    max_records  maximum number of records in its body
    max_values   maximum number of JSON values in its body
    max_depth    maximum depth of nested arrays and objects in its body
    """

    max_limits: Limits
    max_records: int = 2_000
    max_values: int = 500_000
    max_depth: int = 64

    def clamp_limits(self, limits: Limits, requested: Mapping[str, str]) -> Limits:
        """Return the limits of a run. Defaults are clamped to the bounds; values of the request must be within them.

        requested   the limits that the request sets: limit -> field of the request

        Raises ValueError if one of these exceeds its bound.
        """
        bounds = limit_bounds.list_bounds(self.max_limits)
        for name, bound in limit_bounds.find_exceeded(limits, bounds).items():
            if name in requested:
                option = f"; `curate serve {OPTIONS[name]}` allows more" if name in OPTIONS else ""
                message = f"must be at most {bound:,} on this service, not {getattr(limits, name):,}{option}"
                raise ValueError(f"field {requested[name]!r} {message}")
        return limit_bounds.clamp(limits, bounds)


def make_default_max_limits(workers: int) -> Limits:
    """Return the default upper bounds of limits.

    The memory bound is the machine's memory divided by the number of workers, but at least _MIN_SHARE_MB.
    """
    machine_mb = machine.get_available_memory_mb()
    max_mb = max(machine_mb // workers, min(machine_mb, _MIN_SHARE_MB))
    return Limits(
        wall_seconds=3600,
        cpu_seconds=3600,
        memory_mb=max_mb,
        processes=limit_bounds.MAX_PROCESSES,
        output_kb=64 * 1024,  # the service holds it in memory
        disk_mb=max_mb,
        budget_seconds=24 * 3600,
    )
