"""Whose fault is it when a referee fails? It is tried on answers in which no submission has had a hand.

These are the suite's own expected answer or, where that is empty, trivial ones. A referee that gives a ruling on one of
them is sound, and what it failed on was wrong. One that fails on all of them is the suite's fault.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator

from sandbox import referee
from sandbox.cases import Case, Referee
from sandbox.errors import RefereeFailed
from sandbox.program import Outcome, RunResult

_REMEMBERED = 4096  # trials
_SHARE = 3  # of several answers each may take this part of the time, so that as many may come to no end
_TRIVIAL = ("", "0\n", "1\n", "-1\n", "0 0\n", "1 1 1\n", "0\n0\n", "YES\n", "NO\n", "1 " * 1000, "1\n" * 1000)
_LINES = 64  # of a monologue: so many turns that a referee gets to its own rules
_REMARKS = ("0", "1", "0 0", "1 1", "! 0", "! 1", "? 1", "? 1 1")


def outputs(case: Case) -> Iterator[str]:
    """Outputs that a referee must be able to read."""
    if case.expected.strip():
        yield case.expected
    else:
        yield from _TRIVIAL
        yield case.input


def monologues(case: Case) -> Iterator[str]:
    """What a partner may say that does not listen. The last one says nothing and ends at once."""
    for text in (case.expected, case.input):
        if text.strip():
            yield f"{text.rstrip()}\n"
            yield f"! {text.strip()}\n"
    for remark in _REMARKS:
        yield f"{remark}\n" * _LINES
    yield ""


class Trials:
    """Trials of the referees of one worker. It remembers which of them have passed, so that a group of hostile answers
    costs no more than one of them."""

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
        """Whether the referee gives a ruling on one of the answers.

        ask(answer, wall_seconds) runs it. seconds: for all answers together. cpu_seconds: what it may use on the one
        that it rules on. Raises as ask does.
        """
        name = _name(judge, case, seconds, cpu_seconds)
        if name in self._passed:
            self._passed.move_to_end(name)
            return True
        tried = list(answers)
        each_seconds = seconds if len(tried) == 1 else seconds / _SHARE
        for answer in tried:
            result = ask(answer.encode("utf-8", "surrogatepass"), min(each_seconds, seconds))
            if _rules(result, judge, answer) and (cpu_seconds is None or result.cpu_seconds <= cpu_seconds):
                self._passed[name] = None
                if len(self._passed) > _REMEMBERED:
                    self._passed.popitem(last=False)
                return True
            seconds -= each_seconds if result.outcome is Outcome.TIMED_OUT else result.wall_seconds
            if seconds <= 0:
                break
        return False


def _rules(result: RunResult, judge: Referee, answer: str) -> bool:
    try:
        referee.ruling(result, judge)
    except RefereeFailed:
        # It got through many lines, and died of their end alone. At the end of fewer it may not have begun.
        return answer.count("\n") >= _LINES and referee.left_alone(result, judge)
    return True


def _name(judge: Referee, case: Case, seconds: float, cpu_seconds: float | None) -> bytes:
    return hashlib.sha256(repr((judge, case, seconds, cpu_seconds)).encode("utf-8", "surrogatepass")).digest()
