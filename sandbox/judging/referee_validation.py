"""Validation of failed referees on trusted outputs, which decides whether the suite or the submission is at fault.

The trusted output is the case's trial (a reference's output) or, without one, its expected output. If both are empty,
the trusted outputs are a trial of another case and trivial outputs. A referee that gives a ruling on any of them is
sound, so the submission's output was wrong. If it fails on all of them, the suite is at fault.
"""

from collections.abc import Callable, Iterable, Iterator

from sandbox import referee
from sandbox.errors import RefereeError
from sandbox.judging.check_cache import CheckCache
from sandbox.judging.message_codec import encode_text
from sandbox.program import Outcome, RunResult
from sandbox.suite import Case, Referee, Suite

_MAX_TIMEOUTS = 3  # maximum number of outputs on which the referee times out


def generate_trusted_outputs(case: Case, suite: Suite) -> Iterator[str]:
    """Yield trusted outputs for a checker program."""
    trusted = case.trial if case.trial.strip() else case.expected
    if trusted.strip():
        yield trusted
    else:
        yield from _find_shortest_trial(suite)
        yield from ("", "0\n", case.input)


def generate_trusted_inputs(case: Case, suite: Suite) -> Iterator[str]:
    """Yield trusted inputs for an interactive referee, in place of a program's output. The last one is empty."""
    yield from [case.trial] if case.trial else _find_shortest_trial(suite)
    for text in (case.expected, case.input):
        if text.strip():
            yield f"{text.rstrip()}\n"
            yield f"! {text.strip()}\n"
    yield ""


def _find_shortest_trial(suite: Suite) -> list[str]:
    """Return the suite's shortest trial in a list; empty without trials."""
    return sorted(filter(None, suite.trials), key=len)[:1]


class RefereeValidator:
    """Validator of the referees of one worker. Caches passes, so that many hostile outputs cost as much as one."""

    def __init__(self) -> None:
        self._passed = CheckCache()

    def is_sound(
        self,
        referee_spec: Referee,
        case: Case,
        outputs: Iterable[str],
        run_referee: Callable[[bytes, float], RunResult],
        seconds: float,
        cpu_seconds: float | None = None,
    ) -> bool:
        """Return whether the referee gives a ruling on one of the outputs. Raises as run_referee does.

        run_referee(output, wall_seconds)  runs the referee on an output
        seconds                            wall time limit for all outputs together
        cpu_seconds                        CPU time limit for a ruling; None for no limit
        """
        candidates = list(outputs)
        inputs = (referee_spec, case, candidates, seconds, cpu_seconds)
        if self._passed.contains(*inputs):
            return True
        seconds_each = seconds if len(candidates) == 1 else seconds / _MAX_TIMEOUTS
        for output in candidates:
            result = run_referee(encode_text(output), min(seconds_each, seconds))
            if _has_ruling(result, referee_spec) and (cpu_seconds is None or result.cpu_seconds <= cpu_seconds):
                self._passed.add(*inputs)
                return True
            seconds -= seconds_each if result.outcome is Outcome.TIMED_OUT else result.wall_seconds
            if seconds <= 0:
                break
        return False


def _has_ruling(result: RunResult, referee_spec: Referee) -> bool:
    try:
        referee.read_result(result, referee_spec)
    except RefereeError:
        return False
    return True
