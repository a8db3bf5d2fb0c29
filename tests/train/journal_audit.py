"""Proof from a journal alone: no group was trained on twice, none was lost, and no token was too old.

This second reading of the events shares no code with group_states.py, whose errors it has to find.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from train.asynchronous import events, journal
from train.asynchronous.events import Event


@dataclass(slots=True)
class JournalAudit:
    """What a journal says of a run.

    n_batches                batches that were trained on
    n_dispatched             different groups that were asked
    n_used                   groups that were trained on
    rejection_counts         groups that were given up, by reason
    n_open                   groups that were neither, at the end
    n_abandoned              groups that were open when training went on without this journal
    n_used_without_dispatch  groups that were used, and asked before the first segment that is kept
    max_staleness            the age of the oldest token that was trained on, in versions
    findings                 what must not be, in words; a sound journal has none
    """

    n_batches: int = 0
    n_dispatched: int = 0
    n_used: int = 0
    rejection_counts: dict[str, int] = field(default_factory=dict)
    n_open: int = 0
    n_abandoned: int = 0
    n_used_without_dispatch: int = 0
    max_staleness: int = 0
    findings: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _Asked:
    event: events.GroupDispatched
    spans: dict[int, tuple[tuple[int, int, int], ...]] = field(default_factory=dict)
    scored: set[int] = field(default_factory=set)
    lost: bool = False
    accepted: bool = False


def audit_journal(recorded: Iterable[Event], *, staleness: int) -> JournalAudit:
    """Check the events of a journal against the bound on staleness and against each other, and the audit of the product
    against this one."""
    recorded, result = list(recorded), JournalAudit()
    result.findings = list(_Auditor(result, staleness).findings(recorded))
    if not result.findings:
        found = journal.audit_journal(recorded, staleness=staleness)
        assert found.findings == []
        counts = (found.n_batches, found.n_used, found.rejection_counts, found.n_open, found.max_staleness)
        assert counts == (result.n_batches, result.n_used, result.rejection_counts, result.n_open, result.max_staleness)
    return result


class _Auditor:
    """What was asked and not used yet, by number, and the end of every group that had one."""

    def __init__(self, result: JournalAudit, staleness: int) -> None:
        self._result = result
        self._staleness = staleness
        self._open: dict[int, _Asked] = {}
        self._ends: dict[int, str] = {}
        self._positions: dict[int, int] = {}  # the group that was asked with each position
        self._first_kept = -1  # groups below this number were asked before the first segment that is kept
        self._batches = 0

    def findings(self, recorded: Iterable[Event]) -> Iterator[str]:
        for event in recorded:
            match event:
                case events.SegmentStarted():
                    self._begin(event)
                case events.GroupDispatched():
                    yield from self._ask(event)
                case events.ResultReceived(result=result):
                    if (asked := self._known(result.group, result.attempt)) and not asked.lost:
                        asked.spans.setdefault(result.number, result.spans)
                case events.ResultScored():
                    if asked := self._known(event.group, event.attempt):
                        asked.scored.add(event.number)
                case events.GroupAccepted():
                    if asked := self._known(event.group, event.attempt):
                        asked.accepted = True
                case events.LeaseLost():
                    if asked := self._known(event.group, event.attempt):
                        asked.lost = True
                case events.GroupRejected():
                    yield from self._reject(event)
                case events.BatchTaken():
                    yield from self._cut(event)
        self._result.n_open = len(self._open)
        missing = set(range(max(self._first_kept, 0), max(self._ends | self._open, default=-1) + 1))
        for number in sorted(missing - set(self._ends) - set(self._open)):
            yield f"group {number} was never dispatched, but a later one was"

    def _known(self, number: int, attempt: int) -> _Asked | None:
        asked = self._open.get(number)
        return asked if asked is not None and asked.event.attempt == attempt else None

    def _begin(self, begun: events.SegmentStarted) -> None:
        if self._first_kept < 0:
            self._first_kept, self._batches = begun.next_group, begun.batches_taken
        if begun.batches_taken > self._batches:
            self._result.n_abandoned += len(self._open)
            skipped = range(max(self._ends | self._open, default=-1) + 1, begun.next_group)
            self._ends |= dict.fromkeys([*self._open, *skipped], "abandoned")
            self._open.clear()
            self._batches = begun.batches_taken

    def _ask(self, event: events.GroupDispatched) -> Iterator[str]:
        before = self._open.get(event.group)
        name = f"group {event.group}"
        if event.group in self._ends:
            yield f"{name} was dispatched after it was {self._ends[event.group]}"
        if before is not None and event.attempt <= before.event.attempt:
            yield f"{name} was dispatched as attempt {event.attempt} after attempt {before.event.attempt}"
        if before is not None and event.position != before.event.position:
            yield f"{name} was dispatched with position {before.event.position}, then with {event.position}"
        if self._positions.setdefault(event.position, event.group) != event.group:
            yield f"position {event.position} was dispatched as group {self._positions[event.position]} and as {name}"
        self._result.n_dispatched += before is None
        self._open[event.group] = _Asked(event)

    def _reject(self, event: events.GroupRejected) -> Iterator[str]:
        if self._open.pop(event.group, None) is None and event.group >= self._first_kept:
            yield f"group {event.group} was rejected, but not open"
        self._ends[event.group] = "rejected"
        self._result.rejection_counts[event.signal] = self._result.rejection_counts.get(event.signal, 0) + 1

    def _cut(self, batch: events.BatchTaken) -> Iterator[str]:
        if batch.version != self._batches:
            yield f"after {self._batches} batches, one of version {batch.version} was taken"
        self._batches = batch.version + 1
        self._result.n_batches += 1
        for number, attempt, start_version in batch.groups:
            name = f"group {number}"
            if number in self._ends:
                yield f"{name} was used at version {batch.version} after it was {self._ends[number]}"
            self._ends[number] = f"used at version {batch.version}"
            self._result.n_used += 1
            yield from self._age(name, start_version, batch.version)
            asked = self._open.pop(number, None)
            if asked is None:
                if number >= self._first_kept:
                    yield f"{name} was used, but never dispatched"
                self._result.n_used_without_dispatch += 1
            else:
                yield from self._used(name, asked, attempt, start_version, batch.version)

    def _used(self, name: str, asked: _Asked, attempt: int, start_version: int, version: int) -> Iterator[str]:
        if (asked.event.attempt, asked.event.start_version) != (attempt, start_version):
            yield f"{name} was used with another attempt or start version than it was dispatched with"
        if not asked.accepted or asked.scored != set(asked.spans):
            yield f"{name} was used before all its completions were scored"
        if len(asked.spans) < asked.event.n_completions and not asked.lost:
            n, expected = len(asked.spans), asked.event.n_completions
            yield f"{name} was used with {n} of {expected} completions, but was not lost"
        for number, spans in asked.spans.items():
            for of_span, _, _ in spans:
                yield from self._age(f"a token of {name}, completion {number},", of_span, version)

    def _age(self, what: str, born: int, version: int) -> Iterator[str]:
        self._result.max_staleness = max(self._result.max_staleness, version - born)
        if not 0 <= version - born <= self._staleness:
            yield (
                f"{what} was sampled at version {born} and used at version {version}; the staleness bound is "
                f"{self._staleness}"
            )
