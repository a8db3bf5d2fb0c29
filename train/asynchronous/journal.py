"""The journal: an append-only log of group events, in segments, with its readers and its audit.

    RUN/journal/000007.frames    the events after batch 6 (or the start of the run) up to and including batch 7

A segment is a series of frames. A frame has the length of the event (4 bytes, little-endian), the first 8 bytes of its
blake3 digest, and the event as msgpack. A batch is fsynced before it is trained on. SIGKILL leaves at most one torn
frame, the last, which `repair` truncates.

A group used at version v was dispatched after batch v - eta - 1, so older segments are needed only to replay their
batches.
"""

import errno
import os
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from io import FileIO
from pathlib import Path

import msgspec
from blake3 import blake3

from train.asynchronous import events
from train.asynchronous.events import Event
from train.asynchronous.group_states import Groups, GroupState, OpenGroup
from train.errors import CheckpointError
from train.rollouts.groups import Group

FOLDER = "journal"  # subfolder of a run
_SUFFIX = ".frames"
_DIGEST_BYTES = 8
_HEAD_BYTES = 4 + _DIGEST_BYTES
_MAX_FINDINGS = 5  # maximum number of findings in an error message
_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Event] = msgspec.msgpack.Decoder(Event)


def fsync_path(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class NullJournal:
    """A journal that records nothing, and the interface of journals."""

    def read_history(self) -> Iterable[Event]:
        """Return all events, also of earlier processes; here none. Raises CheckpointError if the journal is damaged."""
        return ()

    def append(self, event: Event) -> None:
        """Record an event, without fsync. Raises OSError."""

    def rotate(self, header: events.SegmentStarted) -> None:
        """Start a new segment with this header. Raises OSError."""

    def sync(self) -> None:
        """Fsync all appended events. Raises OSError."""

    def prune(self, segments_before: int) -> None:
        """Remove the segments before this number. Raises OSError."""

    def close(self) -> None:
        pass


class CheckpointJournal(NullJournal):
    """A journal whose history is the open groups of a checkpoint; see `Controller.export_open_groups`."""

    def __init__(self, groups: Iterable[Event]) -> None:
        self._groups = groups

    def read_history(self) -> Iterable[Event]:
        return self._groups


def write_events(path: Path, event_log: Iterable[Event]) -> None:
    """Write events to a file of frames. Raises OSError."""
    path.write_bytes(b"".join(map(_encode_frame, event_log)))


def read_event_file(path: Path) -> list[Event]:
    """Read the events of a file of frames. Raises OSError, and ValueError if the file is damaged."""
    frames = list(_read_frames(path))
    if not frames or frames[-1][1] != path.stat().st_size:
        raise ValueError(f"{path.name} is damaged")
    return [event for event, _ in frames]


def _encode_frame(event: Event) -> bytes:
    data = _encoder.encode(event)
    return len(data).to_bytes(4, "little") + blake3(data).digest(_DIGEST_BYTES) + data


class RunJournal(NullJournal):
    """The journal of a run, open for writing. Another thread may call `sync` while one appends."""

    def __init__(self, folder: Path, segment: int) -> None:
        self._folder = folder
        self._file = self._open(segment)
        self._unsynced = [self._file]
        self._lock = threading.Lock()
        self._closed = False

    @classmethod
    def open(cls, folder: Path) -> "RunJournal":
        """Create the folder if missing, then repair and open its journal.

        Raises CheckpointError if it is damaged before its end, and OSError.
        """
        folder.mkdir(parents=True, exist_ok=True)
        repair(folder)
        return cls(folder, max(_list_segments(folder), default=0))

    def read_history(self) -> Iterable[Event]:
        return read_events(self._folder)

    def append(self, event: Event) -> None:
        frame = _encode_frame(event)
        written = self._file.write(frame)
        if written != len(frame):  # a full disk; `repair` truncates the torn frame
            raise OSError(errno.ENOSPC, f"only {written} of {len(frame)} bytes could be written to {self._folder}")

    def rotate(self, header: events.SegmentStarted) -> None:
        with self._lock:
            self._file = self._open(header.batches_taken)
            self._unsynced.append(self._file)
        self.append(header)

    def sync(self) -> None:
        with self._lock:
            if self._closed:
                return
            for file in self._unsynced:
                os.fsync(file.fileno())
                if file is not self._file:
                    file.close()
            self._unsynced = [self._file]
        fsync_path(self._folder)

    def prune(self, segments_before: int) -> None:
        for segment, path in _list_segments(self._folder).items():
            if segment < segments_before:
                path.unlink(missing_ok=True)

    def close(self) -> None:
        with suppress(OSError):
            self.sync()
        with self._lock:
            self._closed = True
            for file in self._unsynced:
                file.close()

    def _open(self, segment: int) -> FileIO:
        path = self._folder / f"{segment:06d}{_SUFFIX}"
        is_new = not path.exists()
        file = path.open("ab", buffering=0)
        if is_new:
            fsync_path(self._folder)
        return file


def repair(folder: Path) -> None:
    """Truncate the journal at a torn frame, and remove the segments after it.

    Raises CheckpointError if a batch was recorded after the torn frame, since it would be lost.
    """
    segments = list(_list_segments(folder).values())
    for number, path in enumerate(segments):
        valid = max((end for _, end in _read_frames(path)), default=0)
        if valid == path.stat().st_size:
            continue
        later = segments[number + 1 :]
        if any(isinstance(event, events.BatchTaken) for after in later for event, _ in _read_frames(after)):
            raise CheckpointError(
                f"{path}: damaged at byte {valid}, and later batches cannot be replayed without it. Restore the file "
                "from a copy, or delete the folder to continue from the newest checkpoint without a journal."
            )
        with path.open("r+b") as file:
            file.truncate(valid)
            os.fsync(file.fileno())
        for after in later:
            after.unlink()
        fsync_path(folder)
        return


def read_events(folder: Path) -> Iterator[Event]:
    """Yield all events of a journal, up to a torn frame at its end. Raises CheckpointError if it is damaged."""
    segments = list(_list_segments(folder).values())
    for path in segments:
        end, size = 0, path.stat().st_size  # measured now, because the caller may prune the file during iteration
        for event, end_of_frame in _read_frames(path):
            end = end_of_frame
            yield event
        if end < size and path is not segments[-1]:
            raise CheckpointError(f"{path}: damaged at byte {end}. Restore the file from a copy.")


def read_batches(folder: Path, after_step: int = 0) -> Iterator[tuple[int, list[Group]]]:
    """Yield the version and the groups of each recorded batch, beginning with step `after_step` + 1.

    The groups are bitwise identical to the groups that the learner trained on.

    Raises CheckpointError if the journal is damaged, or segments with groups of these batches were pruned.
    """
    return replay_batches(read_events(folder), after_step)


def replay_batches(event_log: Iterable[Event], after_step: int) -> Iterator[tuple[int, list[Group]]]:
    """Yield the batches of `read_batches` from the events of a journal."""
    groups = Groups()
    for event in event_log:
        if not isinstance(event, events.BatchTaken):
            groups.apply(event)
            continue
        taken = groups.take(event)
        if event.version < after_step:
            continue
        if len(taken) != len(event.groups):
            raise CheckpointError(
                f"the groups of step {event.version + 1} are no longer in the journal. Runs with run.keep_journal = "
                "true keep them; delete RUN/journal to continue without it."
            )
        yield event.version, [group.build_rollouts() for group in taken]


def _list_segments(folder: Path) -> dict[int, Path]:
    paths = folder.glob(f"*{_SUFFIX}")
    return dict(sorted((int(path.stem), path) for path in paths if path.stem.isdigit()))


def _read_frames(path: Path) -> Iterator[tuple[Event, int]]:
    """Yield each event and the end offset of its frame, up to the first torn frame."""
    end = 0
    with path.open("rb") as file:
        while len(head := file.read(_HEAD_BYTES)) == _HEAD_BYTES:
            length = int.from_bytes(head[:4], "little")
            data = file.read(length)
            if len(data) < length or blake3(data).digest(_DIGEST_BYTES) != head[4:]:
                return
            end += _HEAD_BYTES + length
            try:
                event = _decoder.decode(data)
            except msgspec.MsgspecError as error:
                raise CheckpointError(f"{path}: written by another version of curate ({error})") from error
            yield event, end


@dataclass(slots=True)
class JournalAudit:
    """The result of an audit, which finds groups lost or trained on twice, and tokens beyond the staleness bound.

    n_batches         batches trained on
    n_used            groups trained on
    rejection_counts  rejected groups, by reason
    n_open            groups still open at the end
    max_staleness     staleness of the oldest token trained on, in versions
    findings          descriptions of faults
    """

    n_batches: int = 0
    n_used: int = 0
    rejection_counts: Counter[str] = field(default_factory=Counter)
    n_open: int = 0
    max_staleness: int = 0
    findings: list[str] = field(default_factory=list)


def audit_journal(event_log: Iterable[Event], *, staleness: int) -> JournalAudit:
    """Check the events of a journal against each other and the staleness bound."""
    audit, groups = JournalAudit(), Groups()
    ends: dict[int, str] = {}  # by group: how it ended, for messages
    last_dispatch: dict[int, events.GroupDispatched] = {}  # by group
    group_by_position: dict[int, int] = {}
    partial: set[int] = set()  # groups lost too often, which keep the completions they have
    first_retained = -1  # groups with lower numbers may have been dispatched in a pruned segment

    def check_staleness(name: str, sampled: int, version: int) -> None:
        audit.max_staleness = max(audit.max_staleness, version - sampled)
        if not 0 <= version - sampled <= staleness:
            audit.findings.append(f"{name} was sampled at version {sampled} and used at version {version}; "
                                  f"the staleness bound is {staleness}")  # fmt: skip

    for event in event_log:
        match event:
            case events.SegmentStarted() if first_retained < 0:
                first_retained = event.next_group
            case events.GroupDispatched():
                skipped = range(groups.next_group, event.group)
                audit.findings += [f"group {number} was never dispatched, but a later one was" for number in skipped]
                if event.group in ends:
                    audit.findings.append(f"group {event.group} was dispatched after it was {ends[event.group]}")
                audit.findings += _find_dispatch_faults(event, last_dispatch.get(event.group), group_by_position)
                last_dispatch[event.group] = event
            case events.LeaseLost() if event.pending_group is None:
                partial.add(event.group)
            case events.GroupRejected():
                if event.group not in groups.open and event.group >= first_retained:
                    audit.findings.append(f"group {event.group} was rejected, but not open")
                ends[event.group] = "rejected"
                audit.rejection_counts[event.signal] += 1
            case events.BatchTaken(version=version):
                if version != groups.batches_taken:
                    audit.findings.append(f"after {groups.batches_taken} batches, one of version {version} was taken")
                audit.n_batches += 1
                audit.n_used += len(event.groups)
                for number, attempt, start_version in event.groups:
                    name, group = f"group {number}", groups.open.get(number)
                    if number in ends:
                        audit.findings.append(f"{name} was used at version {version} after it was {ends[number]}")
                    ends[number] = f"used at version {version}"
                    check_staleness(name, start_version, version)
                    if group is not None:
                        audit.findings += _find_use_faults(
                            name, group, attempt, start_version, partial=number in partial
                        )
                        for result, received in group.results.items():
                            for sampled, _, _ in received.result.spans:
                                check_staleness(f"a token of {name}, completion {result},", sampled, version)
                    elif number >= first_retained:
                        audit.findings.append(f"{name} was used, but never dispatched")
        groups.apply(event)
    audit.n_open = len(groups.open) + len(groups.waiting)
    return audit


def _find_dispatch_faults(
    event: events.GroupDispatched, previous: events.GroupDispatched | None, group_by_position: dict[int, int]
) -> Iterator[str]:
    name = f"group {event.group}"
    if previous is not None and event.attempt <= previous.attempt:
        yield f"{name} was dispatched as attempt {event.attempt} after attempt {previous.attempt}"
    if previous is not None and event.position != previous.position:
        yield f"{name} was dispatched with position {previous.position}, then with {event.position}"
    if group_by_position.setdefault(event.position, event.group) != event.group:
        yield f"position {event.position} was dispatched as group {group_by_position[event.position]} and as {name}"


def _find_use_faults(name: str, group: OpenGroup, attempt: int, start_version: int, *, partial: bool) -> Iterator[str]:
    dispatched = group.dispatched
    if (dispatched.attempt, dispatched.start_version) != (attempt, start_version):
        yield f"{name} was used with another attempt or start version than it was dispatched with"
    if group.state is not GroupState.READY or group.scores.keys() != group.results.keys():
        yield f"{name} was used before all its completions were scored"
    if len(group.results) < dispatched.n_completions and not partial:
        yield f"{name} was used with {len(group.results)} of {dispatched.n_completions} completions, but was not lost"


def format_audit(run_folder: Path, *, staleness: int) -> Iterator[str]:
    """Audit a run's journal, and yield the lines of a report; none without a journal.

    staleness: the bound on staleness, in versions

    Raises CheckpointError if the journal is damaged, or the audit has findings.
    """
    audit = audit_journal(read_events(run_folder / FOLDER), staleness=staleness)
    if audit.findings:
        raise CheckpointError(
            f"the journal of {run_folder} has {len(audit.findings)} faults: "
            f"{'; '.join(audit.findings[:_MAX_FINDINGS])}. If a file of {run_folder / FOLDER} was removed or replaced, "
            "restore it from a copy; otherwise, report this as a defect of curate."
        )
    if not audit.n_batches:
        return
    rejected = ", ".join(f"{reason} {n:,}" for reason, n in sorted(audit.rejection_counts.items())) or "none"
    yield (
        f"journal    {audit.n_batches:,} batches, {audit.n_used:,} groups, none trained on twice; "
        f"rejected: {rejected}; open at the end: {audit.n_open:,}"
    )
    yield f"staleness  maximum {audit.max_staleness} versions; the bound is {staleness}"
