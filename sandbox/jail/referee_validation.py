"""Validation of failed referees on trusted outputs, which decides whether the suite or the submission is at fault.

The trusted output is the case's trial (a reference's output) or, without one, its expected output; if both are empty, a
trial of another case, and trivial outputs. A referee that gives a ruling on any of them is sound, so the submission's
output was wrong. If it fails on all of them, the suite is at fault.
"""

from collections.abc import Callable, Iterable, Iterator

from sandbox import referee
from sandbox.errors import RefereeError
from sandbox.jail.check_cache import CheckCache
from sandbox.program import Outcome, RunResult
from sandbox.suite import Case, Referee, Suite

_MAX_TIMEOUTS = 3  # outputs on which the referee may time out, within the time limit of all outputs


def generate_trusted_outputs(case: Case, suite: Suite) -> Iterator[str]:
    """Yield trusted outputs for a checker program."""
    trusted = case.trial if case.trial.strip() else case.expected
    if trusted.strip():
        yield trusted
    else:
        yield from _find_shortest_trial(suite)
        yield from ("", "0\n", case.input)


def generate_trusted_inputs(case: Case, suite: Suite) -> Iterator[str]:
    """Yield fixed, trusted inputs for an interactive referee. The last one is empty."""
    yield from [case.trial] if case.trial else _find_shortest_trial(suite)
    for text in (case.expected, case.input):
        if text.strip():
            yield f"{text.rstrip()}\n"
            yield f"! {text.strip()}\n"
    yield ""


def _find_shortest_trial(suite: Suite) -> list[str]:
    """Return a list of the suite's shortest trial; empty without trials."""
    return sorted(filter(None, suite.trials), key=len)[:1]


class RefereeValidator:
    """Validates the referees of one worker. Caches passes, so that many hostile outputs cost as much as one."""

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
        """Return whether the referee gives a ruling on one of the outputs.

        run_referee(output, wall_seconds)  runs the referee on an output
        seconds                            time limit for all outputs together
        cpu_seconds                        CPU time limit for the output with a ruling; None for no limit

        Raises as run_referee does.
        """
        candidates = list(outputs)
        inputs = (referee_spec, case, candidates, seconds, cpu_seconds)
        if self._passed.contains(*inputs):
            return True
        seconds_each = seconds if len(candidates) == 1 else seconds / _MAX_TIMEOUTS
        for output in candidates:
            result = run_referee(output.encode("utf-8", "surrogatepass"), min(seconds_each, seconds))
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
