"""How much a client of the service may ask for; beyond it the kernel or the service would be at a loss."""

from collections.abc import Set
from dataclasses import dataclass

from sandbox import machine, maxima
from sandbox.program import Limits

# The options of `curate serve` that set the bounds; the others have none.
OPTIONS = {
    "wall_seconds": "--most-wall-seconds",
    "memory_mb": "--most-memory-mb",
    "processes": "--most-processes",
    "output_kb": "--most-output-kb",
    "disk_mb": "--most-disk-mb",
}
_WHOLE_MB = 4096  # that a run may have on any machine that has them, however many workers share it


@dataclass(frozen=True, slots=True)
class Bounds:
    """Of one request: the limits of its runs; records, JSON values, and levels of arrays and objects in its body."""

    most: Limits
    records: int = 2_000
    values: int = 500_000
    depth: int = 64


def default_most(workers: int) -> Limits:
    """Unless the operator says otherwise: each of the workers may have its share of the memory at the same time."""
    there_mb = machine.memory_mb()
    most_mb = max(there_mb // workers, min(there_mb, _WHOLE_MB))
    return Limits(
        wall_seconds=3600,
        cpu_seconds=3600,
        memory_mb=most_mb,
        processes=maxima.PROCESSES,
        output_kb=64 * 1024,  # the service holds it in memory
        disk_mb=most_mb,
        budget_seconds=24 * 3600,
    )


def granted(limits: Limits, asked: Set[str], most: Limits) -> Limits:
    """The limits of a run: defaults are lowered to the bounds. Raises ValueError if one that was `asked` for by name
    is above its bound."""
    bounds = maxima.bounds_of(most)
    for name, bound in maxima.above(limits, bounds).items():
        if name in asked:
            option = f"; `curate serve {OPTIONS[name]}` allows more" if name in OPTIONS else ""
            raise ValueError(f"{name} must be at most {bound:,} here, not {getattr(limits, name):,}{option}")
    return maxima.within(limits, bounds)
