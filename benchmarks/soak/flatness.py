"""A comparison of resources at the start and the end: medians of the first and the last quarter of the samples."""

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from benchmarks.soak.resources import MEASURES


def quarters(samples: Sequence[Mapping[str, float]]) -> dict[str, dict[str, float]]:
    """Return the median in the first and in the last quarter by name, for the names that all samples have."""
    size = max(1, len(samples) // 4)
    return {
        name: {
            "first": round(median(held[name] for held in samples[:size]), 2),
            "last": round(median(held[name] for held in samples[-size:]), 2),
        }
        for name in samples[0]
        if all(name in held for held in samples)
    }


def judged(samples: Sequence[Mapping[str, float]]) -> dict[str, dict[str, Any]]:
    return {
        name: {**ends, "flat": ends["last"] - ends["first"] <= MEASURES[name].allowed}
        for name, ends in quarters(samples).items()
    }
