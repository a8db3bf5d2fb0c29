"""Holm's correction (1979) of the p-values of several comparisons.

Among many comparisons, some look significant by chance alone. If a comparison counts as significant when its corrected
p-value is below 0.05, the probability that any comparison of equals counts as significant is at most 5%.
"""

from collections.abc import Mapping


def holm(p_values: Mapping[str, float]) -> dict[str, float]:
    """Return the corrected p-values, under the same names and in the same order."""
    corrected: dict[str, float] = {}
    largest = 0.0
    for place, name in enumerate(sorted(p_values, key=lambda name: p_values[name])):
        largest = max(largest, min(1.0, (len(p_values) - place) * p_values[name]))
        corrected[name] = largest
    return {name: corrected[name] for name in p_values}
