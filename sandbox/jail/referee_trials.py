"""When a referee has failed, tries it on answers in which no submission had a hand, to tell whose fault the failure is.

These are the suite's own expected answer or, if that is empty, trivial ones. A referee that gives a ruling on one of
them is sound, and the output that it failed on was wrong. If it fails on all of them, the suite is at fault.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator

from sandbox import referee
from sandbox.cases import Case, Referee
from sandbox.errors import RefereeFailed
from sandbox.program import Outcome, RunResult

_REMEMBERED = 4096  # trials
_SHARE = 3  # each of several answers may take this fraction of the time, so that this many may hang
_TRIVIAL = ("", "0\n", "1\n", "-1\n", "0 0\n", "1 1 1\n", "0\n0\n", "YES\n", "NO\n", "1 " * 1000, "1\n" * 1000)
_LINES = 64  # lines of a monologue: enough turns for a referee to apply its own rules
_REMARKS = ("0", "1", "0 0", "1 1", "! 0", "! 1", "? 1", "? 1 1")


def outputs(case: Case) -> Iterator[str]:
    """Yield outputs that a referee must be able to read."""
    if case.expected.strip():
        yield case.expected
    else:
        yield from _TRIVIAL
        yield case.input


def monologues(case: Case) -> Iterator[str]:
    """Yield what a partner that does not listen may say. The last one says nothing and ends at once."""
    for text in (case.expected, case.input):
        if text.strip():
            yield f"{text.rstrip()}\n"
            yield f"! {text.strip()}\n"
    for remark in _REMARKS:
        yield f"{remark}\n" * _LINES
    yield ""


class Trials:
    """Trials of the referees of one worker.

    It remembers which of them have passed, so that many hostile answers cost no more than one.
    """

    def __init__(self) -> None:
        self._passed: OrderedDict[bytes, None] = OrderedDict()

    def passes(
        self,
        judge: Referee,
        case: Case,
        answers: Iterable[str],
        ask: Callable[[bytes, float], RunResult],
        seconds: float,
        cpu_seconds: float | None = None,
    ) -> bool:
        """Tell whether the referee gives a ruling on one of the answers.

        ask(answer, wall_seconds)   runs the referee on an answer
        seconds                     time for all answers together
        cpu_seconds                 CPU time that it may use for the answer on which it rules; None: any

        Raises as ask does.
        """
        name = _name(judge, case, seconds, cpu_seconds)
        if name in self._passed:
            self._passed.move_to_end(name)
            return True
        to_try = list(answers)
        seconds_for_one = seconds if len(to_try) == 1 else seconds / _SHARE
        for answer in to_try:
            result = ask(answer.encode("utf-8", "surrogatepass"), min(seconds_for_one, seconds))
            if _rules(result, judge, answer) and (cpu_seconds is None or result.cpu_seconds <= cpu_seconds):
                self._passed[name] = None
                if len(self._passed) > _REMEMBERED:
                    self._passed.popitem(last=False)
                return True
            seconds -= seconds_for_one if result.outcome is Outcome.TIMED_OUT else result.wall_seconds
            if seconds <= 0:
                break
        return False


def _rules(result: RunResult, judge: Referee, answer: str) -> bool:
    try:
        referee.ruling(result, judge)
    except RefereeFailed:
        # It read many lines, and died only because there were no more. With fewer lines it may not have begun to judge.
        return answer.count("\n") >= _LINES and referee.left_alone(result, judge)
    return True


def _name(judge: Referee, case: Case, seconds: float, cpu_seconds: float | None) -> bytes:
    return hashlib.sha256(repr((judge, case, seconds, cpu_seconds)).encode("utf-8", "surrogatepass")).digest()
