"""After a referee failure, runs the referee on trusted outputs to decide whether the suite or the submission is at
fault.

These are the case's trial (a reference's output) or else its expected output; if both are empty, trials of other cases
and trivial outputs. If the referee gives a ruling on one of them, it is sound, and the submission's output was wrong.
If it fails on all of them, the suite is at fault.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator

from sandbox import referee
from sandbox.errors import RefereeError
from sandbox.program import Outcome, RunResult
from sandbox.suite import Case, Referee, Suite

_CACHE_SIZE = 4096  # trials
_SHARE = 3  # inverse of each output's share of the time, so that this many may hang


def validation_outputs(case: Case, suite: Suite) -> Iterator[str]:
    """Yield outputs that a referee must be able to read."""
    known = case.trial if case.trial.strip() else case.expected
    if known.strip():
        yield known
    else:
        yield from _shortest_trial(suite)
        yield from ("", "0\n", case.input)


def scripted_inputs(case: Case, suite: Suite) -> Iterator[str]:
    """Yield inputs for an interactive referee, as from a program that ignores it. The last one is empty."""
    yield from [case.trial] if case.trial else _shortest_trial(suite)
    for text in (case.expected, case.input):
        if text.strip():
            yield f"{text.rstrip()}\n"
            yield f"! {text.strip()}\n"
    yield ""


def _shortest_trial(suite: Suite) -> list[str]:
    """Return a trial that another case may borrow, in a list; an empty list if there is none."""
    return sorted(filter(None, suite.trials), key=len)[:1]


class RefereeValidator:
    """The validation of one worker's referees. Caches passes, so that many hostile outputs cost as much as one."""

    def __init__(self) -> None:
        self._passed: OrderedDict[bytes, None] = OrderedDict()

    def passes(
        self,
        referee_spec: Referee,
        case: Case,
        answers: Iterable[str],
        run_referee: Callable[[bytes, float], RunResult],
        seconds: float,
        cpu_seconds: float | None = None,
    ) -> bool:
        """Return whether the referee gives a ruling on one of the outputs.

        ask(answer, wall_seconds)   runs the referee on an answer
        seconds                     time for all answers together
        cpu_seconds                 CPU time that it may use for the answer on which it rules; None: any

        Raises as ask does.
        """
        to_try = list(answers)
        name = _name(referee_spec, case, to_try, seconds, cpu_seconds)
        if name in self._passed:
            self._passed.move_to_end(name)
            return True
        seconds_for_one = seconds if len(to_try) == 1 else seconds / _SHARE
        for answer in to_try:
            result = run_referee(answer.encode("utf-8", "surrogatepass"), min(seconds_for_one, seconds))
            if _rules(result, referee_spec) and (cpu_seconds is None or result.cpu_seconds <= cpu_seconds):
                self._passed[name] = None
                if len(self._passed) > _CACHE_SIZE:
                    self._passed.popitem(last=False)
                return True
            seconds -= seconds_for_one if result.outcome is Outcome.TIMED_OUT else result.wall_seconds
            if seconds <= 0:
                break
        return False


def _rules(result: RunResult, judge: Referee) -> bool:
    try:
        referee.read_result(result, judge)
    except RefereeError:
        return False
    return True


def _name(judge: Referee, case: Case, answers: list[str], seconds: float, cpu_seconds: float | None) -> bytes:
    content = repr((judge, case, answers, seconds, cpu_seconds))
    return hashlib.sha256(content.encode("utf-8", "surrogatepass")).digest()
