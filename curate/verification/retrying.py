"""Work on many problems in a sandbox that may fail now and then."""

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from curate.errors import CurateError
from curate.problem import Problem
from sandbox import Sandbox, SandboxError
from sandbox.concurrency.completed import completed

log = logging.getLogger(__name__)

Result = TypeVar("Result")

# The sandbox repeats lost runs itself, so failing again and again means that something is broken for good.
FAILURES_IN_A_ROW = 3


def each(
    problems: Iterable[Problem], work: Callable[[Problem], Result], sandbox: Sandbox
) -> Iterator[tuple[Problem, Result]]:
    """work(problem) of each problem, as it becomes known. What the sandbox fails at is tried again, after the others.

    Raises CurateError when it fails again and again: nothing is then known about those problems.
    """
    left = iter(problems)
    waiting: deque[Problem] = deque()
    failures = 0

    def next_ones() -> Iterator[Problem]:
        while (problem := waiting.popleft() if waiting else next(left, None)) is not None:
            yield problem

    def attempt(problem: Problem) -> tuple[Problem, Result | SandboxError]:
        try:
            return problem, work(problem)
        except SandboxError as error:
            return problem, error

    while True:
        # Two for each worker: while one problem is being prepared, the programs of another run.
        for _, future in completed(attempt, next_ones(), threads=2 * sandbox.workers):
            problem, found = future.result()
            if not isinstance(found, SandboxError):
                failures = 0
                yield problem, found
                continue
            failures += 1
            if failures == FAILURES_IN_A_ROW:
                raise broken(found) from found
            log.warning("the sandbox failed, trying again: %s", found)
            waiting.append(problem)
        if not waiting:  # a last one may have failed after all others were handed out
            return


def broken(error: SandboxError) -> CurateError:
    """What to say of a sandbox that has failed FAILURES_IN_A_ROW times."""
    return CurateError(
        f"the sandbox failed {FAILURES_IN_A_ROW} times in a row: {error}. What was done so far is saved; "
        "see `curate doctor`, then run the same command again."
    )
