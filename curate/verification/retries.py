"""Judge a stream of items in a sandbox that may fail now and then."""

import logging
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from curate.errors import CurateError
from sandbox import Sandbox, SandboxError
from sandbox.concurrency.thread_map import map_results

log = logging.getLogger(__name__)

Item = TypeVar("Item")
Result = TypeVar("Result")

# The sandbox itself repeats lost runs, so repeated failures mean that something is permanently broken.
FAILURES_IN_A_ROW = 3


def map_with_retries(
    items: Iterable[Item], work: Callable[[Item], Result], sandbox: Sandbox
) -> Iterator[tuple[Item, Result]]:
    """Yield (item, work(item)) for each item as results become known, not in the order of the items.

    items    the items, which may be very many: they are read only a little ahead of the results
    work     called in several threads at once; it may use `sandbox` as often as it needs. An item for which it raises
             SandboxError is tried again after all others. Any other exception of `work` is raised here
    sandbox  the sandbox that `work` uses; its number of workers decides how many items are worked on at once

    Raises CurateError after FAILURES_IN_A_ROW failures of the sandbox without a result in between. Nothing is then
    known about the items that have not been yielded.
    """

    def attempt(item: Item) -> tuple[Item, Result | SandboxError]:
        try:
            return item, work(item)
        except SandboxError as error:
            return item, error

    failures = 0
    remaining = items
    while True:
        failed: list[Item] = []
        # There are two items for each worker: while one is being prepared, the programs of the other run.
        for _, attempted in map_results(attempt, remaining, threads=2 * sandbox.workers):
            if isinstance(attempted, Exception):
                raise attempted
            item, result = attempted
            if not isinstance(result, SandboxError):
                failures = 0
                yield item, result
                continue
            failures += 1
            if failures == FAILURES_IN_A_ROW:
                raise CurateError(
                    f"the sandbox failed {failures} times in a row: {result}. Results up to here are saved. "
                    "Type `curate doctor` to see what is wrong, then run the same command again to continue."
                ) from result
            log.warning("the sandbox failed, will try again: %s", result)
            failed.append(item)
        if not failed:
            return
        remaining = failed
