"""fsync files and directories.

MERGED The files of a journal: segments, each a series of frames, as the docstring of this package describes them.

MERGED Cut off what a killed process left at the end of a journal.

MERGED A journal as it is read: its events, and the batches that were cut.

MERGED A journal that is open for writing.

MERGED What a controller needs of a journal, and a journal that records nothing.

MERGED Everything that happened to groups, in files that only grow, and the ways to read them.

    RUN/journal/000007.frames    from the cut of version 6 (or the start of the run) to the cut of version 7, inclusive

A file is a series of frames: the length of the event (4 bytes, little-endian), the first 8 bytes of its blake3 digest,
and the event as msgpack. A cut is on disk before it is trained on, with everything before it. A process that is killed
leaves at most one torn frame, the last, which is cut off when the journal is opened again.

A group that is used at version v was asked after the cut of version v - eta - 1, so older files are needed only to
train these versions again.

recorder.py      what a controller needs of a journal
frames.py        the files
reader.py        events and cuts out of the files
repair.py        what a killed process left at the end is cut off
writer.py        a journal that is open for writing
audit.py         proof from the journal: nothing was lost, doubled, or too old
audit_report.py  what a journal proves, in words
"""

import errno
import os
import threading
from collections.abc import Iterable, Iterator
from contextlib import suppress
from io import FileIO
from pathlib import Path
from typing import Protocol

import msgspec
from blake3 import blake3

from train.asynchronous import events
from train.asynchronous.events import Event
from train.asynchronous.group_states import Groups
from train.errors import CheckpointError
from train.rollouts.groups import Group


def fsync_path(path: Path) -> None:
    """Wait until a file, or the list of files in a folder, is on the disk. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


FOLDER = "journal"  # of a run
_SUFFIX = ".frames"
_DIGEST_BYTES = 8
_HEAD_BYTES = 4 + _DIGEST_BYTES
_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Event] = msgspec.msgpack.Decoder(Event)


def encode_frame(event: Event) -> bytes:
    data = _encoder.encode(event)
    return len(data).to_bytes(4, "little") + blake3(data).digest(_DIGEST_BYTES) + data


def read_frames(path: Path) -> Iterator[tuple[Event, int]]:
    """Yield each event, and where its frame ends. Ends before the first frame that is torn."""
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
                raise CheckpointError(f"{path}: written by another version of this program ({error})") from error
            yield event, end


def segment_paths(folder: Path) -> dict[int, Path]:
    paths = folder.glob(f"*{_SUFFIX}")
    return dict(sorted((int(path.stem), path) for path in paths if path.stem.isdigit()))


def open_segment(folder: Path, segment: int) -> FileIO:
    path = folder / f"{segment:06d}{_SUFFIX}"
    is_new = not path.exists()
    file = path.open("ab", buffering=0)
    if is_new:
        fsync_path(folder)
    return file


def repair(folder: Path) -> None:
    """Cut off what a killed process left behind: a torn frame, and segments after it.

    Raises CheckpointError if batches were cut after that place, so that cutting it off would lose them.
    """
    segments = list(segment_paths(folder).values())
    for place, path in enumerate(segments):
        valid = max((end for _, end in read_frames(path)), default=0)
        if valid == path.stat().st_size:
            continue
        later = segments[place + 1 :]
        if any(isinstance(event, events.BatchTaken) for after in later for event, _ in read_frames(after)):
            raise CheckpointError(
                f"{path}: damaged at byte {valid}, and later batches cannot be repeated without it. Restore the file "
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
    """Yield all events of a journal; a torn frame at its end is left out. Raises CheckpointError if it is damaged."""
    segments = list(segment_paths(folder).values())
    for path in segments:
        end, size = 0, path.stat().st_size  # the file may be removed while its last event is worked on
        for event, end_of_frame in read_frames(path):
            end = end_of_frame
            yield event
        if end < size and path is not segments[-1]:
            raise CheckpointError(f"{path}: damaged at byte {end}. Restore the file from a copy.")


def read_batches(folder: Path, after_step: int = 0) -> Iterator[tuple[int, list[Group]]]:
    """Yield the version and the groups of each recorded cut, beginning with the cut that step `after_step` + 1 uses.

    All that a learner needs is in them, to the last bit.

    Raises CheckpointError if the journal is damaged, or if groups of these cuts were in segments that were removed.
    """
    return replay_batches(read_events(folder), after_step)


def replay_batches(recorded: Iterable[Event], after_step: int) -> Iterator[tuple[int, list[Group]]]:
    """Do the same with the events of a journal."""
    groups = Groups()
    for event in recorded:
        if not isinstance(event, events.BatchTaken):
            groups.apply(event)
            continue
        taken = groups.take(event)
        if event.version < after_step:
            continue
        if len(taken) != len(event.groups):
            raise CheckpointError(
                f"the groups of step {event.version + 1} are not in the journal any more. Runs with run.keep_journal = "
                "true keep them; delete RUN/journal to continue without it."
            )
        yield event.version, [group.rollouts() for group in taken]


class RunJournal:
    """The journal of a run, open for writing. Another thread may call `sync` while one appends."""

    def __init__(self, folder: Path, segment: int) -> None:
        self._folder = folder
        self._file = open_segment(folder, segment)
        self._unsynced = [self._file]
        self._lock = threading.Lock()
        self._closed = False

    @classmethod
    def open(cls, folder: Path) -> "RunJournal":
        """Open the journal in a folder, which is made if needed, after repairing its end.

        Raises CheckpointError if it is damaged before its end, and OSError.
        """
        folder.mkdir(parents=True, exist_ok=True)
        repair(folder)
        return cls(folder, max(segment_paths(folder), default=0))

    def history(self) -> Iterable[Event]:
        return read_events(self._folder)

    def append(self, event: Event) -> None:
        frame = encode_frame(event)
        written = self._file.write(frame)
        if written != len(frame):  # a full disk; what is torn is cut off when the journal is opened again
            raise OSError(errno.ENOSPC, f"only {written} of {len(frame)} bytes could be written to {self._folder}")

    def rotate(self, header: events.SegmentStarted) -> None:
        with self._lock:
            self._file = open_segment(self._folder, header.batches_taken)
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
        for segment, path in segment_paths(self._folder).items():
            if segment < segments_before:
                path.unlink(missing_ok=True)

    def close(self) -> None:
        with suppress(OSError):
            self.sync()
        with self._lock:
            self._closed = True
            for file in self._unsynced:
                file.close()


class Recorder(Protocol):
    """What a controller needs of a journal."""

    def history(self) -> Iterable[Event]:
        """Return what was appended, in this process and before. Raises CheckpointError if that is damaged."""

    def append(self, event: Event) -> None:
        """Record an event, without waiting for the disk. Raises OSError."""

    def rotate(self, header: events.SegmentStarted) -> None:
        """Begin the segment after a cut. Raises OSError."""

    def sync(self) -> None:
        """Return when everything that was appended before is on disk. Raises OSError."""

    def prune(self, segments_before: int) -> None:
        """Remove old segments."""

    def close(self) -> None: ...


class NullJournal:
    """Records nothing, for simulations."""

    def history(self) -> Iterable[Event]:
        return ()

    def append(self, event: Event) -> None: ...

    def rotate(self, header: events.SegmentStarted) -> None: ...

    def sync(self) -> None: ...

    def prune(self, segments_before: int) -> None: ...

    def close(self) -> None: ...


__all__ = [
    "FOLDER",
    "RunJournal",
    "NullJournal",
    "Recorder",
    "read_batches",
    "replay_batches",
    "read_events",
    "repair",
]
