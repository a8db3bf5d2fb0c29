"""Cut off what a killed process left at the end of a journal."""

import os
from pathlib import Path

from train.asynchronous.groups import events
from train.asynchronous.journal.frames import read_frames, segment_paths
from train.errors import CheckpointError
from train.fsync import fsync_path


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
