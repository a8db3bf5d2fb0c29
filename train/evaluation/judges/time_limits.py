"""The rule for when a time limit counts: only if a completion also exceeds it while nothing else of ours runs.

Limits are CPU time, which excludes waiting for a processor. But programs on a busy machine share caches, memory, and
often a core: what takes 1.0 s took 1.2 to 1.7 s at a load of 45.

    judged within its limits: any verdict but a time limit counts
    a time limit: judged again, within FACTOR times the limits
        a time limit again: it counts
        another verdict: deferred until all other completions are judged, then judged alone, and that verdict counts

The run within FACTOR times the limits separates slow programs from those that hang, and is concurrent with others. So
programs that hang never block the machine: each costs three times its limits, even if no completion is correct.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from curate.judging import map_with_retries
from sandbox import Sandbox, SandboxError, Verdict
from train.evaluation.judges.judge import JudgeResult

FACTOR = 2.0
Item = TypeVar("Item")


def judge_all(
    items: Iterable[Item], judge: Callable[[Item, float], JudgeResult], sandbox: Sandbox
) -> Iterator[tuple[Item, JudgeResult | Exception]]:
    """Yield each item with its verdict as verdicts arrive, or with the exception of a judge that fails.

    items    completions with their judges, read only a little ahead of the verdicts
    judge    returns the verdict on an item, given a factor of its time limits; called from many threads

    Raises CurateError if the sandbox fails repeatedly.
    """
    near_limit: list[Item] = []

    def judge_concurrently(item: Item) -> JudgeResult | None:
        found = judge(item, 1.0)
        if _is_time_limit(found) and not _is_time_limit(judge(item, FACTOR)):
            return None
        return found

    for item, found in _judge_each(items, judge_concurrently, sandbox):
        if found is None:
            near_limit.append(item)
        else:
            yield item, found
    for item in near_limit:
        yield from _judge_each([item], lambda item: judge(item, 1.0), sandbox)


Found = TypeVar("Found")


def _judge_each(
    items: Iterable[Item], judge: Callable[[Item], Found], sandbox: Sandbox
) -> Iterator[tuple[Item, Found | Exception]]:
    def judge_or_error(item: Item) -> Found | Exception:
        try:
            return judge(item)
        except SandboxError:
            raise
        except Exception as error:  # most likely RefereeError or NoVerdictError; no completion may end the measurement
            return error

    return map_with_retries(items, judge_or_error, sandbox)


def _is_time_limit(found: JudgeResult) -> bool:
    return found.verdict == Verdict.TIME_LIMIT.value
