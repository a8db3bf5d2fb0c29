"""The limits of a test, derived from the limits in a source. Stated times are for C++, so Python gets a multiple."""

import re
from collections.abc import Mapping

from sandbox import Limits

PYTHON_ALLOWANCE = 5.0
MIN_SECONDS, MAX_SECONDS, UNSTATED_SECONDS = 6.0, 12.0, 10.0
MIN_MB, MAX_MB = 512, 1024

_SECONDS = {"ms": 0.001, "millisecond": 0.001, "s": 1.0, "sec": 1.0, "second": 1.0}
_MEGABYTES = {
    "kb": 1 / 1024,
    "kilobyte": 1 / 1024,
    "mb": 1.0,
    "megabyte": 1.0,
    "gb": 1024.0,
    "gigabyte": 1024.0,
}


def derive_limits(stated_time: object, stated_memory: object) -> Limits:
    """Derive the limits of a test from stated ones, such as "2.0 seconds" and "256 megabytes".

    The wall time is 5 times the stated time, clamped to 6 to 12 s; 10 s if none can be parsed. The memory is the stated
    memory, clamped to 512 to 1024 MB; 1024 MB if none can be parsed.
    """
    seconds = _parse_quantity(stated_time, _SECONDS)
    megabytes = _parse_quantity(stated_memory, _MEGABYTES)
    return Limits(
        wall_seconds=UNSTATED_SECONDS
        if seconds is None
        else min(max(PYTHON_ALLOWANCE * seconds, MIN_SECONDS), MAX_SECONDS),
        memory_mb=MAX_MB if megabytes is None else min(max(int(megabytes), MIN_MB), MAX_MB),
    )


def _parse_quantity(stated: object, units: Mapping[str, float]) -> float | None:
    match = re.match(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]+)", stated) if isinstance(stated, str) else None
    if match is None:
        return None
    unit = match[2].lower()
    factor = units.get(unit) or units.get(unit.removesuffix("s"))
    return None if factor is None else float(match[1]) * factor


UNSTATED = derive_limits(None, None)
