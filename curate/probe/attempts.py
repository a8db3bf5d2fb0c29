"""Attempts to run probes on a target, and their results."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

import msgspec

from curate.probe.target import Score
from sandbox.probes import probe_classes
from sandbox.probes.probe import Convention, Group, JudgeProbe, ProbeClass, ProbeProblem, Submissions
from sandbox.probes.problems import first_problem

_LONG_SECONDS = 5.0


class Finding(StrEnum):
    """The finding of an attempt."""

    SOUND = "sound"
    REWARDED = "rewarded wrongly"
    SPOILED = "spoiled the next"  # the judge rejects the simplest right completion after this one
    REFUSED = "refused wrongly"
    UNKNOWN = "unknown"
    CRASHED = "crashed"
    HUNG = "hung"
    LENIENT = "lenient"
    OUTAGE = "a number in an outage"


@dataclass(frozen=True, slots=True)
class Attempt:
    """A probe for one problem."""

    of_class: ProbeClass
    probe: JudgeProbe
    problem: ProbeProblem

    @property
    def id(self) -> str:
        """The name of the attempt, GROUP/CLASS/PROBE/CONVENTION."""
        return f"{self.of_class.id}/{self.probe.name}/{self.problem.convention}"

    @property
    def kind(self) -> str:
        """The kind of the submission: "hack", "right", "lenient" or "outage"."""
        if self.of_class.group is Group.OUTAGE:
            return "outage"
        return "right" if self.probe.is_correct else "lenient" if self.probe.leniency else "hack"


@dataclass(frozen=True, slots=True)
class AttemptResult:
    """The result of an attempt.

    id       of the attempt
    scores   the judge's score of each completion
    answers  the submitted completions, preceded by those of Submissions.earlier
    tests    the suite as JSON
    """

    id: str
    kind: str  # "hack", "right", "lenient" or "outage"
    finding: Finding
    scores: tuple[Score, ...]
    answers: tuple[str, ...]
    tests: str
    detail: str = ""

    @property
    def class_id(self) -> str:
        """The class of its probe, GROUP/CLASS."""
        return self.id.rsplit("/", 2)[0]

    @property
    def probe_id(self) -> str:
        """Its probe, GROUP/CLASS/PROBE."""
        return self.id.rsplit("/", 1)[0]

    def as_record(self) -> dict[str, Any]:
        """Return the result as a JSON object, for a journal."""
        return asdict(self)

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> "AttemptResult":
        """Parse the result of `as_record`. Raises ValueError for anything else."""
        return msgspec.convert(record, cls)


def plan(
    conventions: Iterable[Convention],
    *,
    takes_text: bool,
    conditions: bool,
    host: bool,
    quick: bool,
    only: Sequence[str] = (),
    more: Sequence[ProbeClass] = (),
) -> Iterator[Attempt]:
    """Yield the attempts for a target.

    conventions  the forms of problems that the target supports
    takes_text   whether it takes whole completions
    conditions   whether outages of its backend can be simulated
    host         whether it claims to isolate programs from the machine
    quick        whether to try each probe in one convention only, in turn, and skip slow ones
    only         if not empty, make only attempts whose ids begin with one of these names
    more         classes of probes beside the catalogue
    """
    allowed = [convention for convention in Convention if convention in set(conventions)]
    turn = 0
    for of_class in (*probe_classes(), *more):
        skipped = (
            (of_class.group is Group.EXTRACT and not takes_text)
            or (of_class.group is Group.OUTAGE and not conditions)
            or (of_class.group is Group.HOST and not host)
        )
        tried: dict[Convention, list[Attempt]] = {convention: [] for convention in allowed}
        for probe in () if skipped else of_class.probes:
            fitting = [convention for convention in allowed if convention in probe.conventions]
            if quick and not only:
                fitting = fitting[turn % len(fitting) :][:1] if fitting and probe.seconds < _LONG_SECONDS else []
                turn += 1
            for convention in fitting:
                attempt = Attempt(of_class, probe, first_problem(convention))
                if not only or _is_named(attempt.id, only):
                    tried[convention].append(attempt)
        for of_convention in tried.values():
            yield from of_convention


def unknown_names(names: Sequence[str], more: Sequence[ProbeClass] = ()) -> list[str]:
    """Return the names that no group, class or probe of the catalogue, or of more classes, has."""
    classes = (*probe_classes(), *more)
    probes = [f"{each.id}/{probe.name}/{form}" for each in classes for probe in each.probes for form in Convention]
    return [name for name in names if not any(_is_named(id, [name]) for id in (*probes, *(c.id for c in classes)))]


def _is_named(id: str, names: Sequence[str]) -> bool:
    return any(f"{id}/".startswith(f"{name.rstrip('/')}/") for name in names)


def make_submissions(attempt: Attempt) -> Submissions:
    """Return the submissions of an attempt; its tests contain fresh secrets."""
    return attempt.probe.make(attempt.problem)
