"""What a referee, a program that decides in place of a checker, has said: it ran in the sandbox, and is read here."""

import math
from dataclasses import dataclass, replace

from sandbox.cases import Convention, Referee
from sandbox.errors import RefereeFailed
from sandbox.program import Limits, Outcome, RunResult

INPUT, OUTPUT, ANSWER = "input.txt", "output.txt", "answer.txt"  # what a referee finds beside it
LIMITS = Limits(wall_seconds=30, memory_mb=1024)
_WORDS = 300  # characters for people

# testlib.h, the exit codes of checkers: https://github.com/MikeMirzayanov/testlib
_OK, _FAIL, _POINTS = 0, 3, 7
_WRONG = {1, 2, 4, 8}  # wrong answer, presentation error, dirt after the answer, unexpected end of file
_TRACEBACK = "Traceback (most recent call last):"
_CRASHED = {1, 120}  # statuses of Python: an exception, and one that came again when what was printed was flushed
_PARTIAL = range(50, 151)  # 50 and a hundred steps, with TESTSYS defined
_LEFT_ALONE = "EOFError"  # what a Python referee dies of when its partner has said too little


@dataclass(frozen=True, slots=True)
class Ruling:
    """score: 1.0 is right, 0.0 wrong, partial credit between. detail is for people."""

    score: float
    detail: str = ""


def arguments(convention: Convention) -> tuple[str, ...]:
    """The names of the files, in the order in which a checker of this convention expects them."""
    if convention is Convention.TESTLIB:
        return (INPUT, OUTPUT, ANSWER)
    return (INPUT, ANSWER, OUTPUT)


def ruling(result: RunResult, judge: Referee) -> Ruling:
    """Raises RefereeFailed if it crashed, was too slow or said nothing that can be understood. That may be the work of
    the output that it was shown, which it may also have repeated on stderr: see jail.control."""
    convention = judge.convention
    said = result.stderr.decode("utf-8", "replace").strip()
    if crashed(result, judge):  # with the status of a wrong answer
        raise RefereeFailed(f"it crashed: {said[-_WORDS:]}")
    if result.outcome is not Outcome.EXITED:
        raise RefereeFailed(f"it ended: {result.outcome.value} {said[-_WORDS:]}".strip())
    if convention is Convention.TESTLIB:
        return Ruling(_score_of_exit(result.exit_code, said), said[:_WORDS])
    printed = result.text.strip()
    if result.exit_code != 0:
        raise RefereeFailed(f"exit status {result.exit_code}: {said[-_WORDS:]}")
    return Ruling(_score(printed, f"it printed {printed[:80]!r}"), said[:_WORDS])


def crashed(result: RunResult, judge: Referee) -> bool:
    """Whether it is a Python program that ended by an exception: the last thing it said is a traceback."""
    said = result.stderr.decode("utf-8", "replace").rstrip().splitlines()
    frames = [number for number, line in enumerate(said) if line == _TRACEBACK]
    return (
        judge.program.language == "python"
        and result.exit_code in _CRASHED
        and bool(frames)
        and said[frames[-1] + 1 : frames[-1] + 2] != []
        and said[frames[-1] + 1].startswith('  File "')
    )


def left_alone(result: RunResult, judge: Referee) -> bool:
    """Whether it crashed because its partner ended when it wanted to hear more."""
    last = result.stderr.decode("utf-8", "replace").rstrip().rpartition("\n")[2]
    return crashed(result, judge) and last.startswith(_LEFT_ALONE)


def no_fault_of_its(failure: RefereeFailed) -> Ruling:
    """The ruling where a sound referee failed: what it was shown is wrong."""
    return Ruling(0.0, f"the referee failed on this output, though not on a sound one: {failure}")


def kept_busy(result: RunResult) -> RunResult:
    """A program's run where the time of the submission ran out while a sound referee was at work on its output."""
    words = b"the referee was kept busy by the output until the submission's time was used up"
    return replace(result, outcome=Outcome.TIMED_OUT, stderr=words)


def _score_of_exit(status: int, said: str) -> float:
    if status == _OK:
        return 1.0
    if status in _WRONG:
        return 0.0
    if status in _PARTIAL:
        return (status - _PARTIAL.start) / 100
    if status == _POINTS:
        return _points(said)
    if status == _FAIL:
        raise RefereeFailed(f"it gave up: {said[:_WORDS]}")
    raise RefereeFailed(f"exit status {status}: {said[-_WORDS:]}")


def _points(said: str) -> float:
    """The score in "points 0.5 ...". Of several such lines the lowest counts: the referee may have repeated some of the
    output, which would have given itself a high one."""
    lines = [line.split() for line in said.splitlines()]
    scores = [line[1] if len(line) > 1 else "" for line in lines if line[:1] == ["points"]]
    words = f"it said {said[:80]!r}"
    if said.split()[:1] != ["points"]:
        return _score("", words)
    return min(_score(score, words) for score in scores)


def _score(text: str, words: str) -> float:
    try:
        score = float(text)
    except ValueError:
        score = math.nan
    if not 0 <= score <= 1:
        raise RefereeFailed(f"{words}, not a score from 0 to 1")
    return score
