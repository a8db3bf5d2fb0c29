"""How much a client of the service may ask for one run; beyond it the kernel or the service would be at a loss."""

from sandbox.program import Limits

MOST = {
    "wall_seconds": 3600,
    "cpu_seconds": 3600,
    "budget_seconds": 24 * 3600,
    "memory_mb": 1 << 20,
    "processes": 1 << 16,
    "output_kb": 64 * 1024,  # the service holds it in memory
    "disk_mb": 1 << 20,
}
_LEAST = {"memory_mb": 1, "processes": 1, "output_kb": 1, "disk_mb": 1}


def check(limits: Limits) -> None:
    """Raises ValueError, naming the limit and the bound."""
    for name, most in MOST.items():
        value = getattr(limits, name)
        if value is not None and not _LEAST.get(name, 0) <= value <= most:
            raise ValueError(f"{name} must be at most {most:,} and at least {_LEAST.get(name, 0)}, not {value!r}")
