"""Confirmation of time limits: a completion near its limit is judged again after all others, alone on the machine.

CPU time excludes waiting for a core, but programs on a busy machine share caches and memory bandwidth. At a load of 45,
a program of 1.0 s took 1.2 to 1.7 s.

    run with the limits          any verdict but a time limit is final
    run with FACTOR times them   a time limit is final; with another verdict, the completion is judged alone at the end

Only the last run is not concurrent with others. Hanging programs never reach the last run; each costs three times its
limits.
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
    """Yield each item with its verdict as verdicts arrive, or with the exception of its judge.

    items    completions with their exercises, read lazily
    judge    function that judges an item with its time limits multiplied by a factor; called from many threads

    Raises CurateError if the sandbox fails repeatedly.
    """
    near_limit: list[Item] = []

    def judge_concurrently(item: Item) -> JudgeResult | None:
        result = judge(item, 1.0)
        if _is_time_limit(result) and not _is_time_limit(judge(item, FACTOR)):
            return None
        return result

    for item, result in _judge_each(items, judge_concurrently, sandbox):
        if result is None:
            near_limit.append(item)
        else:
            yield item, result
    for item in near_limit:
        yield from _judge_each([item], lambda item: judge(item, 1.0), sandbox)


JudgeOutput = TypeVar("JudgeOutput")


def _judge_each(
    items: Iterable[Item], judge: Callable[[Item], JudgeOutput], sandbox: Sandbox
) -> Iterator[tuple[Item, JudgeOutput | Exception]]:
    def judge_or_error(item: Item) -> JudgeOutput | Exception:
        try:
            return judge(item)
        except SandboxError:
            raise
        except Exception as error:  # usually RefereeError or NoVerdictError; continue with the other completions
            return error

    return map_with_retries(items, judge_or_error, sandbox)


def _is_time_limit(result: JudgeResult) -> bool:
    return result.verdict == Verdict.TIME_LIMIT.value
