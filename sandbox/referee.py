"""The ruling of a referee (a program that decides in place of a checker), read from its run."""

import math
from dataclasses import dataclass, replace

from sandbox.errors import RefereeError
from sandbox.languages.python import REFEREE_CRASHED, REFEREE_LEFT_ALONE
from sandbox.program import Limits, Outcome, RunResult
from sandbox.suite import Referee, RefereeConvention

INPUT, OUTPUT, ANSWER = "input.txt", "output.txt", "answer.txt"  # files in a referee's directory
LIMITS = Limits(wall_seconds=30, memory_mb=1024)
_MAX_DETAIL_CHARS = 300

# testlib.h, the exit codes of checkers: https://github.com/MikeMirzayanov/testlib
_OK, _FAIL, _POINTS = 0, 3, 7
_WRONG = {1, 2, 4, 8}  # wrong answer, presentation error, dirt after the answer, unexpected end of file
_PARTIAL = range(50, 151)  # 50 and a hundred steps, with TESTSYS defined


@dataclass(frozen=True, slots=True)
class RefereeResult:
    """A referee's ruling.

    score    1.0 is right, 0.0 is wrong, partial credit is in between
    detail   for people
    """

    score: float
    detail: str = ""


def arguments(convention: RefereeConvention) -> tuple[str, ...]:
    """Return the names of the files, in the order in which a checker of this convention expects them."""
    if convention is RefereeConvention.TESTLIB:
        return (INPUT, OUTPUT, ANSWER)
    return (INPUT, ANSWER, OUTPUT)


def read_result(result: RunResult, referee_spec: Referee) -> RefereeResult:
    """Return the ruling of a finished referee. Raises RefereeError if it crashed, timed out or gave no valid ruling.
    The judged output may have caused that, and parts of it may be in its stderr: see jail/referee_validation.py.
    """
    convention = referee_spec.convention
    message = result.stderr.decode("utf-8", "replace").strip()
    if referee_spec.program.language == "python" and result.exit_code in (REFEREE_CRASHED, REFEREE_LEFT_ALONE):
        raise RefereeError(f"it crashed: {message[-_MAX_DETAIL_CHARS:]}")
    if result.outcome is not Outcome.EXITED:
        raise RefereeError(f"it ended: {result.outcome.value} {message[-_MAX_DETAIL_CHARS:]}".strip())
    if convention is RefereeConvention.TESTLIB:
        return RefereeResult(_score_of_exit(result.exit_code, message), message[:_MAX_DETAIL_CHARS])
    printed = result.text.strip()
    if result.exit_code != 0:
        raise RefereeError(f"exit status {result.exit_code}: {message[-_MAX_DETAIL_CHARS:]}")
    return RefereeResult(_score(printed, f"it printed {printed[:80]!r}"), message[:_MAX_DETAIL_CHARS])


def hit_eof(result: RunResult, referee_spec: Referee) -> bool:
    """Return whether the referee crashed because the submission's output ended while it expected more."""
    return referee_spec.program.language == "python" and result.exit_code == REFEREE_LEFT_ALONE


def wrong_answer_result(failure: RefereeError) -> RefereeResult:
    """Return the ruling for an output that made a sound referee fail: the output is wrong."""
    return RefereeResult(0.0, f"the referee failed on this output, though not on a sound one: {failure}")


def mark_timed_out(result: RunResult) -> RunResult:
    """Return the run of a program as timed out, for an output on which a sound referee timed out."""
    message = b"the referee was kept busy by the output until the submission's time was used up"
    return replace(result, outcome=Outcome.TIMED_OUT, stderr=message)


def _score_of_exit(status: int, message: str) -> float:
    if status == _OK:
        return 1.0
    if status in _WRONG:
        return 0.0
    if status in _PARTIAL:
        return (status - _PARTIAL.start) / 100
    if status == _POINTS:
        return _points(message)
    if status == _FAIL:
        raise RefereeError(f"it gave up: {message[:_MAX_DETAIL_CHARS]}")
    raise RefereeError(f"exit status {status}: {message[-_MAX_DETAIL_CHARS:]}")


def _points(message: str) -> float:
    """Return the score in a message that has a line such as "points 0.5 ...".

    If there are several such lines, the lowest score counts: the referee may have repeated a forged line of the output.
    """
    lines = [line.split() for line in message.splitlines()]
    scores = [line[1] if len(line) > 1 else "" for line in lines if line[:1] == ["points"]]
    complaint = f"it said {message[:80]!r}"
    if message.split()[:1] != ["points"]:
        return _score("", complaint)
    return min(_score(score, complaint) for score in scores)


def _score(text: str, complaint: str) -> float:
    """Return the score in a text. Raises RefereeError, whose message begins with `complaint`, if it has none."""
    try:
        score = float(text)
    except ValueError:
        score = math.nan
    if not 0 <= score <= 1:
        raise RefereeError(f"{complaint}, not a score from 0 to 1")
    return score
