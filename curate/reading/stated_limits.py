"""How long a reference may run. Stated limits are meant for C++; Python is allowed several times that."""

import re
from collections.abc import Mapping

from sandbox import Limits

PYTHON_ALLOWANCE = 5.0
LEAST_SECONDS, MOST_SECONDS, UNSTATED_SECONDS = 6.0, 12.0, 10.0
LEAST_MB, MOST_MB = 512, 1024

_SECONDS = {"ms": 0.001, "millisecond": 0.001, "s": 1.0, "sec": 1.0, "second": 1.0}
_MEGABYTES = {
    "kb": 1 / 1024,
    "kilobyte": 1 / 1024,
    "mb": 1.0,
    "megabyte": 1.0,
    "gb": 1024.0,
    "gigabyte": 1024.0,
}


def limits(stated_time: object, stated_memory: object) -> Limits:
    """Limits of one test from a source's own words, such as "2.0 seconds" and "256 megabytes".

    Wall seconds: 5 times the stated time but between 6 and 12; 10 where none is stated or it cannot be read.
    Megabytes: the stated memory but between 512 and 1024; 1024 where none is stated.
    """
    seconds = _quantity(stated_time, _SECONDS)
    megabytes = _quantity(stated_memory, _MEGABYTES)
    return Limits(
        wall_seconds=UNSTATED_SECONDS
        if seconds is None
        else min(max(PYTHON_ALLOWANCE * seconds, LEAST_SECONDS), MOST_SECONDS),
        memory_mb=MOST_MB if megabytes is None else min(max(int(megabytes), LEAST_MB), MOST_MB),
    )


def _quantity(words: object, units: Mapping[str, float]) -> float | None:
    match = re.match(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]+)", words) if isinstance(words, str) else None
    if match is None:
        return None
    unit = match[2].lower()
    factor = units.get(unit) or units.get(unit.removesuffix("s"))
    return None if factor is None else float(match[1]) * factor
