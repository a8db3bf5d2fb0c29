"""A journal that is open for writing."""

import errno
import os
import threading
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from train.asynchronous.groups import events
from train.asynchronous.groups.events import Event
from train.asynchronous.journal.frames import encode_frame, open_segment, segment_paths
from train.asynchronous.journal.reader import read_events
from train.asynchronous.journal.repair import repair
from train.fsync import fsync_path


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
