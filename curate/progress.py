"""Progress reports from long-running work to its caller."""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

Item = TypeVar("Item")

# Called with the name of a stage, the number of items done, and the total number of items (None: not yet known).
Progress = Callable[[str, int, int | None], None]


def no_progress(stage: str, done: int, total: int | None) -> None:
    """Ignore a progress report."""


def with_progress(items: Iterable[Item], stage: str, progress: Progress, *, total: int | None = None) -> Iterator[Item]:
    """Yield the items, and report each as done when the consumer requests the next one."""
    for done, item in enumerate(items, start=1):
        yield item
        progress(stage, done, total)


def with_batch_progress(
    batches: Iterable[list[Item]], stage: str, progress: Progress, *, total: int | None = None
) -> Iterator[list[Item]]:
    """Yield the batches, and report how many items the consumer has finished."""
    done = 0
    for batch in batches:
        yield batch
        done += len(batch)
        progress(stage, done, total)
