"""Callbacks for progress reports."""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

Item = TypeVar("Item")

# A callback with the name of a stage, the number of finished items, and the total number of items (None: unknown).
Progress = Callable[[str, int, int | None], None]


def ignore_progress(stage: str, done: int, total: int | None) -> None:
    """Ignore a progress report."""


def track_progress(
    items: Iterable[Item], stage: str, progress: Progress, *, total: int | None = None
) -> Iterator[Item]:
    """Yield the items, and report each as finished when the consumer requests the next one."""
    for done, item in enumerate(items, start=1):
        yield item
        progress(stage, done, total)


def track_batch_progress(
    batches: Iterable[list[Item]], stage: str, progress: Progress, *, total: int | None = None
) -> Iterator[list[Item]]:
    """Yield the batches, and report the number of finished items."""
    done = 0
    for batch in batches:
        yield batch
        done += len(batch)
        progress(stage, done, total)
