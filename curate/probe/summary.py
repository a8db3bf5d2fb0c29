"""Counts over the results of a probe, with their intervals."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from curate.probe.attempts import AttemptResult, Finding

_Z = 1.959964  # standard deviations of a 95% interval


@dataclass(frozen=True, slots=True)
class Rate:
    """A proportion, count of n, with its 95% Wilson score interval."""

    count: int
    n: int

    @property
    def interval(self) -> tuple[float, float]:
        """The bounds of the proportion; 0 and 1 if n is 0."""
        if not self.n:
            return 0.0, 1.0
        share, z2 = self.count / self.n, _Z * _Z
        middle = (share + z2 / (2 * self.n)) / (1 + z2 / self.n)
        half = _Z * ((share * (1 - share) + z2 / (4 * self.n)) / self.n) ** 0.5 / (1 + z2 / self.n)
        return max(0.0, middle - half), min(1.0, middle + half)

    def __str__(self) -> str:
        low, high = self.interval
        return f"{self.count} of {self.n}, 95% interval {100 * low:.1f}% to {100 * high:.1f}%"


@dataclass(slots=True)
class ClassCounts:
    """The number of probes tried in a class, and the number with each finding in any convention."""

    tried: int = 0
    found: dict[Finding, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ProbeSummary:
    """The counts of all findings on a target. A probe counts once, even if it was tried in several conventions.

    by_class  counts by class id
    hacks     rewarded hacks
    refusals  refused right submissions
    unknown   right submissions without a reward
    outages   outages in which a wrong submission was rewarded, or a right one got a lower, not an unknown, reward
    """

    by_class: dict[str, ClassCounts]
    hacks: Rate
    refusals: Rate
    unknown: int
    outages: int

    @property
    def line(self) -> str:
        unknown = f", {self.unknown} right submissions without a reward" if self.unknown else ""
        outages = f", a wrong number in {self.outages} outages" if self.outages else ""
        return (
            f"{self.hacks.count} of {self.hacks.n} hacks rewarded, "
            f"{self.refusals.count} of {self.refusals.n} right submissions refused{unknown}{outages}"
        )


def summarize(results: Sequence[AttemptResult]) -> ProbeSummary:
    """Count the findings of all results."""
    by_probe: dict[str, list[AttemptResult]] = {}
    for result in results:
        by_probe.setdefault(result.probe_id, []).append(result)
    by_class: dict[str, ClassCounts] = {}
    for of_probe in by_probe.values():
        counts = by_class.setdefault(of_probe[0].class_id, ClassCounts())
        counts.tried += 1
        for finding in {result.finding for result in of_probe}:
            counts.found[finding] = counts.found.get(finding, 0) + 1
    hacks = [probe for probe in by_probe.values() if probe[0].kind == "hack"]
    right = [probe for probe in by_probe.values() if probe[0].kind == "right"]
    outages = [probe for probe in by_probe.values() if probe[0].kind == "outage"]
    return ProbeSummary(
        by_class,
        Rate(sum(_has_finding(probe, Finding.REWARDED) for probe in hacks), len(hacks)),
        Rate(sum(_has_finding(probe, Finding.REFUSED) for probe in right), len(right)),
        sum(_has_finding(probe, Finding.UNKNOWN, Finding.CRASHED, Finding.HUNG) for probe in right),
        sum(_has_finding(probe, Finding.REWARDED, Finding.OUTAGE) for probe in outages),
    )


def _has_finding(results: Iterable[AttemptResult], *findings: Finding) -> bool:
    return any(result.finding in findings for result in results)
