"""The groups of a run and their journal, which change only together.

Every event is recorded before it has an effect. A resumed run replays its journal: batches recorded after the
checkpoint are returned first, then new ones are taken.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from train.asynchronous import journal
from train.asynchronous.groups import events
from train.asynchronous.groups.events import Event
from train.asynchronous.groups.open_group import OpenGroup
from train.asynchronous.groups.states import Groups
from train.errors import RolloutError
from train.recovery_hints import recovery_hint
from train.rollouts.batch_collector import Group


class JournaledGroups:
    """The groups as the journal has them. Callers hold the controller's lock, except in `sync` and `replay_batch`.

    recorder                  the journal, open for writing, or NullJournal()
    step                      steps that the trainer has made: a checkpoint's, or 0
    position                  position in the data of the first prompt, if the journal does not know better

    groups                    their states; only methods of this class change them
    first_unrecorded_version  the version of the first cut that was not recorded when this began

    Raises CheckpointError if the journal is damaged, and RolloutError if it cannot be written.
    """

    def __init__(self, recorder: journal.Recorder, *, step: int, position: int) -> None:
        self.groups = Groups()
        self._journal = recorder
        self._recorded: Iterator[tuple[int, list[Group]]] = iter(())
        for event in recorder.history():
            self.groups.apply(event)
        if self.groups.batches_taken < step:  # batches were taken without this journal
            first = max(self.groups.next_group, position)
            self.groups.apply(events.SegmentStarted(step, first, max(self.groups.next_position, position)))
        elif self.groups.next_group == 0:
            self.groups.next_position = position
        elif step < self.groups.batches_taken:
            self._recorded = journal.replay_batches(recorder.history(), step)
        self.first_unrecorded_version = self.groups.batches_taken
        # A killed process can have left the segment without its first event, or not have begun it.
        self._begin_segment()

    def append(self, event: Event) -> OpenGroup | None:
        """Record an event, and return the group that it changed. Raises RolloutError."""
        with _writing():
            self._journal.append(event)
        return self.groups.apply(event)

    def take_batch(self, batch: Sequence[OpenGroup]) -> None:
        """Record that these groups are the next batch. Raises RolloutError."""
        cut = events.BatchTaken(
            self.groups.batches_taken,
            tuple(
                (group.dispatched.group, group.dispatched.attempt, group.dispatched.start_version) for group in batch
            ),
        )
        with _writing():
            self._journal.append(cut)
        self.groups.take(cut)
        self._begin_segment()

    def replay_batch(self, version: int) -> list[Group]:
        """Return the groups of a cut that the journal had when this began; each can be had once, in their order."""
        recorded, groups = next(self._recorded, (-1, []))
        if recorded != version:
            raise ValueError(f"the cut of version {version} was handed out before")
        if version + 1 == self.first_unrecorded_version:
            self._recorded = iter(())  # it would read on in a file that is being written
        return groups

    def sync(self) -> None:
        """Return when everything that happened is on disk. Raises RolloutError."""
        with _writing():
            self._journal.sync()

    def prune(self, segments_before: int) -> None:
        """Remove old segments of the journal. Raises OSError."""
        self._journal.prune(segments_before)

    def close(self) -> None:
        self._journal.close()

    def _begin_segment(self) -> None:
        with _writing():
            self._journal.rotate(self.groups.segment_header())


@contextmanager
def _writing() -> Iterator[None]:
    """Say what an error of the disk means. Raises RolloutError."""
    try:
        yield
    except OSError as error:
        raise RolloutError(
            f"the journal cannot be written: {error}. {recovery_hint(error)}; the same command with --resume continues."
        ) from error
