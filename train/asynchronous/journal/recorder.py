"""What a controller needs of a journal, and a journal that records nothing."""

from collections.abc import Iterable
from typing import Protocol

from train.asynchronous.groups import events
from train.asynchronous.groups.events import Event


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
