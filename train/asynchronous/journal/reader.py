"""A journal as it is read: its events, and the batches that were cut."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from train.asynchronous.groups import events
from train.asynchronous.groups.events import Event
from train.asynchronous.groups.states import Groups
from train.asynchronous.journal.frames import read_frames, segment_paths
from train.errors import CheckpointError
from train.rollouts.batch_collector import Group


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
