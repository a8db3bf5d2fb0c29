"""Everything that happened to groups, in files that only grow, and the ways to read them.

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

from train.asynchronous.journal.frames import FOLDER
from train.asynchronous.journal.reader import read_batches, read_events, replay_batches
from train.asynchronous.journal.recorder import NullJournal, Recorder
from train.asynchronous.journal.repair import repair
from train.asynchronous.journal.writer import RunJournal

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
