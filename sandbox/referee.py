"""Parser of a referee's ruling. A referee is a suite's own program that decides whether an output is correct."""

import math
from dataclasses import dataclass, replace

from sandbox.errors import RefereeError
from sandbox.languages.python import REFEREE_CRASHED, REFEREE_HIT_EOF
from sandbox.program import Limits, Outcome, RunResult
from sandbox.suite import Referee, RefereeConvention

INPUT, OUTPUT, ANSWER = "input.txt", "output.txt", "answer.txt"  # names of the files in a referee's directory
LIMITS = Limits(wall_seconds=30, memory_mb=1024)
_MAX_DETAIL_CHARS = 300

# Exit statuses of a checker, from testlib.h: https://github.com/MikeMirzayanov/testlib
_OK, _FAIL, _POINTS = 0, 3, 7
_WRONG = {1, 2, 4, 8}  # wrong answer, presentation error, extra output, unexpected end of file
_PARTIAL = range(50, 151)  # partial credit in percent, plus 50; used if TESTSYS is defined


@dataclass(frozen=True, slots=True)
class RefereeResult:
    """A referee's ruling.

    score    1.0 for correct, 0.0 for wrong, in between for partial credit
    detail   human-readable explanation
    """

    score: float
    detail: str = ""


def list_arguments(convention: RefereeConvention) -> tuple[str, ...]:
    """Return the arguments of a checker program: the names of its files, in the order of its convention."""
    if convention is RefereeConvention.TESTLIB:
        return (INPUT, OUTPUT, ANSWER)
    return (INPUT, ANSWER, OUTPUT)


def read_result(result: RunResult, referee_spec: Referee) -> RefereeResult:
    """Return the ruling of a finished referee.

    Raises RefereeError if it crashed, timed out or gave no valid ruling. The judged output may be the cause; see
    judging/referee_validation.py.
    """
    convention = referee_spec.convention
    message = result.stderr.decode("utf-8", "replace").strip()
    if referee_spec.program.language == "python" and result.exit_code in (REFEREE_CRASHED, REFEREE_HIT_EOF):
        raise RefereeError(f"it crashed: {message[-_MAX_DETAIL_CHARS:]}")
    if result.outcome is not Outcome.EXITED:
        raise RefereeError(f"it ended: {result.outcome.value} {message[-_MAX_DETAIL_CHARS:]}".strip())
    if convention is RefereeConvention.TESTLIB:
        return RefereeResult(_parse_exit_status(result.exit_code, message), message[:_MAX_DETAIL_CHARS])
    printed = result.text.strip()
    if result.exit_code != 0:
        raise RefereeError(f"exit status {result.exit_code}: {message[-_MAX_DETAIL_CHARS:]}")
    return RefereeResult(_parse_score(printed, f"it printed {printed[:80]!r}"), message[:_MAX_DETAIL_CHARS])


def has_hit_eof(result: RunResult, referee_spec: Referee) -> bool:
    """Return whether the referee crashed because the submission's output ended too early."""
    return referee_spec.program.language == "python" and result.exit_code == REFEREE_HIT_EOF


def make_wrong_answer_result(failure: RefereeError) -> RefereeResult:
    """Return the ruling "wrong" for an output on which the referee failed. It did not fail on trusted outputs."""
    return RefereeResult(0.0, f"the referee failed on this output, but not on a trusted one: {failure}")


def mark_timed_out(result: RunResult) -> RunResult:
    """Return the program's result with the outcome TIMED_OUT, because only its output made the referee time out."""
    message = b"the output kept the referee busy until the submission's time was used up"
    return replace(result, outcome=Outcome.TIMED_OUT, stderr=message)


def _parse_exit_status(status: int, message: str) -> float:
    if status == _OK:
        return 1.0
    if status in _WRONG:
        return 0.0
    if status in _PARTIAL:
        return (status - _PARTIAL.start) / 100
    if status == _POINTS:
        return _parse_points(message)
    if status == _FAIL:
        raise RefereeError(f"it reported its own failure: {message[:_MAX_DETAIL_CHARS]}")
    raise RefereeError(f"exit status {status}: {message[-_MAX_DETAIL_CHARS:]}")


def _parse_points(message: str) -> float:
    """Return the lowest score of all lines "points SCORE ...", since some may be copies of the submission's output."""
    lines = [line.split() for line in message.splitlines()]
    scores = [line[1] if len(line) > 1 else "" for line in lines if line[:1] == ["points"]]
    error_prefix = f"it printed {message[:80]!r}"
    if message.split()[:1] != ["points"]:
        return _parse_score("", error_prefix)
    return min(_parse_score(score, error_prefix) for score in scores)


def _parse_score(text: str, error_prefix: str) -> float:
    """Parse a score from 0 to 1. Raises RefereeError, with a message that begins with `error_prefix`."""
    try:
        score = float(text)
    except ValueError:
        score = math.nan
    if not 0 <= score <= 1:
        raise RefereeError(f"{error_prefix}, not a score from 0 to 1")
    return score
