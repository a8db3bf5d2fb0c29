"""After a referee failure, runs the referee on trusted outputs to decide whether the suite or the submission is at
fault.

The trusted output is the case's trial (a reference's output) or, without one, its expected output; if both are empty, a
trial of another case, and trivial outputs. If the referee gives a ruling on any of them, it is sound, and the
submission's output was wrong. If it fails on all of them, the suite is at fault.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator

from sandbox import referee
from sandbox.errors import RefereeError
from sandbox.program import Outcome, RunResult
from sandbox.suite import Case, Referee, Suite

_CACHE_SIZE = 4096  # passed validations
_MAX_HANGS = 3  # outputs that may hang within the time limit


def validation_outputs(case: Case, suite: Suite) -> Iterator[str]:
    """Yield trusted outputs for a checker program."""
    trusted = case.trial if case.trial.strip() else case.expected
    if trusted.strip():
        yield trusted
    else:
        yield from _shortest_trial(suite)
        yield from ("", "0\n", case.input)


def scripted_inputs(case: Case, suite: Suite) -> Iterator[str]:
    """Yield trusted inputs for an interactive referee, fixed in advance. The last one is empty."""
    yield from [case.trial] if case.trial else _shortest_trial(suite)
    for text in (case.expected, case.input):
        if text.strip():
            yield f"{text.rstrip()}\n"
            yield f"! {text.strip()}\n"
    yield ""


def _shortest_trial(suite: Suite) -> list[str]:
    """Return the suite's shortest trial, in a list; an empty list without trials."""
    return sorted(filter(None, suite.trials), key=len)[:1]


class RefereeValidator:
    """Validates the referees of one worker. Caches passes, so that many hostile outputs cost as much as one."""

    def __init__(self) -> None:
        self._passed: OrderedDict[bytes, None] = OrderedDict()

    def passes(
        self,
        referee_spec: Referee,
        case: Case,
        outputs: Iterable[str],
        run_referee: Callable[[bytes, float], RunResult],
        seconds: float,
        cpu_seconds: float | None = None,
    ) -> bool:
        """Return whether the referee gives a ruling on one of the outputs.

        run_referee(output, wall_seconds)  runs the referee on an output
        seconds                            time limit for all outputs together
        cpu_seconds                        CPU time limit for the output with a ruling; None for no limit

        Raises as run_referee does.
        """
        candidates = list(outputs)
        key = _cache_key(referee_spec, case, candidates, seconds, cpu_seconds)
        if key in self._passed:
            self._passed.move_to_end(key)
            return True
        seconds_each = seconds if len(candidates) == 1 else seconds / _MAX_HANGS
        for output in candidates:
            result = run_referee(output.encode("utf-8", "surrogatepass"), min(seconds_each, seconds))
            if _gives_ruling(result, referee_spec) and (cpu_seconds is None or result.cpu_seconds <= cpu_seconds):
                self._passed[key] = None
                if len(self._passed) > _CACHE_SIZE:
                    self._passed.popitem(last=False)
                return True
            seconds -= seconds_each if result.outcome is Outcome.TIMED_OUT else result.wall_seconds
            if seconds <= 0:
                break
        return False


def _gives_ruling(result: RunResult, referee_spec: Referee) -> bool:
    try:
        referee.read_result(result, referee_spec)
    except RefereeError:
        return False
    return True


def _cache_key(
    referee_spec: Referee, case: Case, outputs: list[str], seconds: float, cpu_seconds: float | None
) -> bytes:
    content = repr((referee_spec, case, outputs, seconds, cpu_seconds))
    return hashlib.sha256(content.encode("utf-8", "surrogatepass")).digest()
