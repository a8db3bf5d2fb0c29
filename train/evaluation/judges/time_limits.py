"""When a time limit counts: only if the answer exceeds it also while nothing else of ours runs.

Limits are CPU time, which waiting for a processor does not use up. But CPU time itself grows on a busy machine, whose
programs share caches and memory, and often a core: what takes 1.0 s took 1.2 to 1.7 s at a load of 45.

    judged within its limits: any verdict but a time limit counts
    a time limit: judged again, within FACTOR times the limits
        a time limit again: it counts
        another verdict: put aside until all other answers are judged, then judged alone, and that verdict counts

Only a run that may take FACTOR times as long shows whether an answer exceeds a limit by less than that: at the limit
itself, a slow program looks like one that hangs. This run is beside the others, and only after a time limit. So
programs that hang never keep the machine waiting. They cost three times their limits, even if no other answer is right.
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
    """Yield each item with its verdict as verdicts become known, or with the exception of a judge that fails.

    items    answers with what judges them; they are read only a little ahead of the verdicts
    judge    returns the verdict on an item with these times its time limits. Many threads call it at once

    Raises CurateError if the sandbox fails again and again.
    """
    near_limit: list[Item] = []

    def judge_beside_others(item: Item) -> JudgeResult | None:
        found = judge(item, 1.0)
        if _is_time_limit(found) and not _is_time_limit(judge(item, FACTOR)):
            return None
        return found

    for item, found in _judge_each(items, judge_beside_others, sandbox):
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
    def judged(item: Item) -> Found | Exception:
        try:
            return judge(item)
        except SandboxError:
            raise
        except Exception as error:  # RefereeError or NoVerdictError, most likely; no answer may end the measurement
            return error

    return map_with_retries(items, judged, sandbox)


def _is_time_limit(found: JudgeResult) -> bool:
    return found.verdict == Verdict.TIME_LIMIT.value
