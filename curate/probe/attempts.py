"""Attempts to run probes on a target, and their results."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

import msgspec

from curate.probe.target import Score
from sandbox.probes import list_probe_classes
from sandbox.probes.probe import Convention, Group, JudgeProbe, ProbeClass, ProbeProblem
from sandbox.probes.problems import get_first_problem

_LONG_SECONDS = 5.0


class Finding(StrEnum):
    """The classification of an attempt by the judge's scores."""

    SOUND = "sound"
    REWARDED = "rewarded wrongly"
    CORRUPTED = "spoiled the next"  # afterward, the judge refuses the simplest right submission
    REFUSED = "refused wrongly"
    UNKNOWN = "unknown"
    CRASHED = "crashed"
    HUNG = "hung"
    LENIENT = "lenient"
    OUTAGE = "a number in an outage"  # a right submission got a lower instead of an unknown reward


@dataclass(frozen=True, slots=True)
class Attempt:
    """A probe to submit for one problem."""

    probe_class: ProbeClass
    probe: JudgeProbe
    problem: ProbeProblem

    @property
    def id(self) -> str:
        """The name of the attempt, GROUP/CLASS/PROBE/CONVENTION."""
        return f"{self.probe_class.id}/{self.probe.name}/{self.problem.convention}"

    @property
    def kind(self) -> str:
        """The kind of the submission: "hack", "right", "lenient" or "outage"."""
        if self.probe_class.group is Group.OUTAGE:
            return "outage"
        return "right" if self.probe.is_correct else "lenient" if self.probe.leniency else "hack"


@dataclass(frozen=True, slots=True)
class AttemptResult:
    """The result of an attempt.

    id       id of the attempt
    kind     "hack", "right", "lenient" or "outage"
    scores   the judge's score of each completion
    answers  the submitted completions, preceded by `Submissions.earlier`
    tests    the suite as JSON
    """

    id: str
    kind: str
    finding: Finding
    scores: tuple[Score, ...]
    answers: tuple[str, ...]
    tests: str
    detail: str = ""

    @property
    def class_id(self) -> str:
        """The id of the probe class, GROUP/CLASS."""
        return self.id.rsplit("/", 2)[0]

    @property
    def probe_id(self) -> str:
        """The id of the probe, GROUP/CLASS/PROBE."""
        return self.id.rsplit("/", 1)[0]

    def to_record(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> "AttemptResult":
        """Parse the output of `to_record`. Raises ValueError for any other content."""
        return msgspec.convert(record, cls)


def plan_attempts(
    conventions: Iterable[Convention],
    *,
    accepts_text: bool,
    include_outages: bool,
    include_host: bool,
    quick: bool,
    only: Sequence[str] = (),
    extra_classes: Sequence[ProbeClass] = (),
) -> Iterator[Attempt]:
    """Yield the attempts for a target.

    conventions      conventions that the target supports
    accepts_text     whether it accepts whole completions
    include_outages  whether to simulate outages of its backend
    include_host     whether to include probes that try to leave the sandbox
    quick            whether to try each probe in only one convention, in rotation, and skip slow probes
    only             prefixes of attempt ids; empty for all
    extra_classes    classes of probes outside the catalogue
    """
    supported = [convention for convention in Convention if convention in set(conventions)]
    rotation = 0
    for probe_class in (*list_probe_classes(), *extra_classes):
        skipped = (
            (probe_class.group is Group.EXTRACT and not accepts_text)
            or (probe_class.group is Group.OUTAGE and not include_outages)
            or (probe_class.group is Group.HOST and not include_host)
        )
        attempts: dict[Convention, list[Attempt]] = {convention: [] for convention in supported}
        for probe in () if skipped else probe_class.probes:
            candidates = [convention for convention in supported if convention in probe.conventions]
            if quick and not only:
                is_quick = candidates and probe.seconds < _LONG_SECONDS
                candidates = [candidates[rotation % len(candidates)]] if is_quick else []
                rotation += 1
            for convention in candidates:
                attempt = Attempt(probe_class, probe, get_first_problem(convention))
                if not only or _matches_name(attempt.id, only):
                    attempts[convention].append(attempt)
        for attempts_of_convention in attempts.values():
            yield from attempts_of_convention


def find_unknown_names(names: Sequence[str], extra_classes: Sequence[ProbeClass] = ()) -> list[str]:
    """Return the names that match no group, class, probe or attempt."""
    classes = (*list_probe_classes(), *extra_classes)
    probes = [f"{each.id}/{probe.name}/{form}" for each in classes for probe in each.probes for form in Convention]
    return [name for name in names if not any(_matches_name(id, [name]) for id in (*probes, *(c.id for c in classes)))]


def _matches_name(id: str, names: Sequence[str]) -> bool:
    return any(f"{id}/".startswith(f"{name.rstrip('/')}/") for name in names)
