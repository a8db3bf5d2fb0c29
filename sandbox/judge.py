"""Decision of verdicts, in the trusted worker. Only this module decides between accepted and wrong_answer."""

import ast
import json
import math
import reprlib
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple

from sandbox import checkers, literals
from sandbox.checkers import _python_values, _text
from sandbox.program import Outcome, RunResult
from sandbox.referee import RefereeResult
from sandbox.return_values import decode, decode_literal, may_equal, may_equal_literal
from sandbox.suite import INTERACTIVE, PROGRAM, PYTHON, Assertions, Case, RefereeConvention, Suite

_MAX_DETAIL_CHARS = 300
MAX_OUTPUT_BYTES = 16 << 10  # maximum size of one output in Judgement.outputs
MAX_OUTPUTS_BYTES = 256 << 10  # maximum size of all outputs in Judgement.outputs together
_NOTHING_RETURNED = "the call ended the process instead of returning"


class _ValueForm(NamedTuple):
    """The operations on return values in one notation: JSON, or Python literals.

    may_equal   returns False if an encoded value certainly differs from the expected value in this notation
    parse       parses an expected value
    decode      decodes an encoded value
    describe    describes a decoded value for humans
    """

    may_equal: Callable[[bytes, str], bool]
    parse: Callable[[str], Any]
    decode: Callable[[bytes], Any]
    describe: Callable[[Any], str]


_JSON = _ValueForm(may_equal, json.loads, decode, reprlib.repr)
_LITERALS = _ValueForm(may_equal_literal, literals.parse_literal, decode_literal, _python_values.describe)


class Verdict(Enum):
    """The verdict on a submission or on one test. A failure of the sandbox is an exception instead.

    In JSON records, judge_record.JudgeVerdict is a Judgement: this verdict, scores and resource usage.
    """

    ACCEPTED = "accepted"
    WRONG_ANSWER = "wrong_answer"
    TIME_LIMIT = "time_limit"
    MEMORY_LIMIT = "memory_limit"
    OUTPUT_LIMIT = "output_limit"
    RUNTIME_ERROR = "runtime_error"
    COMPILE_ERROR = "compile_error"
    SANDBOX_VIOLATION = "sandbox_violation"


@dataclass(frozen=True, slots=True)
class CaseJudgement:
    """The judgement of one case.

    detail    human-readable explanation: the end of stderr, the actual output, or the referee's message
    partial   a referee's partial credit, less than 1, for an output that it did not accept
    """

    verdict: Verdict
    cpu_seconds: float
    wall_seconds: float
    memory_mb: float
    detail: str = ""
    partial: float = 0.0

    @property
    def score(self) -> float:
        return 1.0 if self.verdict is Verdict.ACCEPTED else self.partial


@dataclass(frozen=True, slots=True)
class Judgement:
    """The judgement of a submission by a suite.

    verdict   the first verdict of a case other than accepted; accepted if there is none
    cases     one entry per executed case, in order. Without `run_all`, the cases after the first failure are skipped
    n_cases   number of cases in the suite
    outputs   with `keep_outputs`: the output of each executed case; empty if it was not accepted, is not UTF-8, is
              longer than 16 KiB, or exceeds 256 KiB together with earlier outputs
    """

    verdict: Verdict
    cases: tuple[CaseJudgement, ...]
    n_cases: int
    outputs: tuple[str, ...] = ()

    @property
    def accepted(self) -> bool:
        return self.verdict is Verdict.ACCEPTED

    @property
    def pass_rate(self) -> float:
        """Fraction of the suite's cases that were accepted; skipped cases count as not accepted."""
        return sum(case.verdict is Verdict.ACCEPTED for case in self.cases) / self.n_cases

    @property
    def score(self) -> float:
        """Mean score of the suite's cases, with partial credit; skipped cases count as 0."""
        return sum(case.score for case in self.cases) / self.n_cases


_FAILURE_VERDICTS = {
    Outcome.SIGNALLED: Verdict.RUNTIME_ERROR,
    Outcome.TIMED_OUT: Verdict.TIME_LIMIT,
    Outcome.OUT_OF_MEMORY: Verdict.MEMORY_LIMIT,
    Outcome.OUTPUT_LIMIT: Verdict.OUTPUT_LIMIT,
    Outcome.NOT_COMPILED: Verdict.COMPILE_ERROR,
    Outcome.VIOLATION: Verdict.SANDBOX_VIOLATION,
}


@dataclass(frozen=True, slots=True)
class CaseRun:
    """A program's run on one case.

    referee_result      the ruling of the referee or of statement tests; None if a comparison decides
    extra_wall_seconds  wall time in excess of `result`: of a referee after the program's end, or of a lost run
    rerun_isolated      reruns the case in its own process, given the remaining seconds; None if it already had its own.
                        The judge calls it after a failure. If the rerun is accepted, the program has two outputs for
                        one case, and may have guessed one of them
    """

    result: RunResult
    referee_result: RefereeResult | None = None
    extra_wall_seconds: float = 0.0
    rerun_isolated: "Callable[[float], CaseRun] | None" = None

    @property
    def total_wall_seconds(self) -> float:
        return self.result.wall_seconds + self.extra_wall_seconds


def judge(
    suite: Suite,
    run: Callable[[Case, float], CaseRun],
    *,
    run_all: bool = False,
    keep_outputs: bool = False,
    run_isolated: Callable[[Case, float], CaseRun] | None = None,
) -> Judgement:
    """Judge one submission.

    run           runs the submission on a case, given the case and the remaining seconds of the budget. It must pass
                  only the case's input to the program
    run_all       whether to continue after a failed case
    keep_outputs  whether to return the accepted outputs
    run_isolated  like `run`, with a process for each case; None if `run` never shares a process. If a case is accepted
                  only in its own process, this judges all cases again by `run_isolated`

    Raises ValueError for an invalid suite.
    """
    checker = _check_suite(suite)
    remaining_seconds = math.inf if suite.limits.budget_seconds is None else suite.limits.budget_seconds
    cases: list[CaseJudgement] = []
    outputs: list[str] = []
    remaining_bytes = MAX_OUTPUTS_BYTES
    for case in suite.cases:
        if remaining_seconds <= 0:
            cases.append(CaseJudgement(Verdict.TIME_LIMIT, 0, 0, 0, "the submission's budget_seconds are used up"))
            break
        case_run = run(case, remaining_seconds)
        remaining_seconds -= case_run.total_wall_seconds
        case_judgement = _judge_case(case, case_run, checker, suite)
        if case_run.rerun_isolated is not None and case_judgement.verdict is not Verdict.ACCEPTED:
            case_run = case_run.rerun_isolated(remaining_seconds)
            remaining_seconds -= case_run.total_wall_seconds
            case_judgement = _judge_case(case, case_run, checker, suite)
            if case_judgement.verdict is Verdict.ACCEPTED and run_isolated is not None:
                return judge(suite, run_isolated, run_all=run_all, keep_outputs=keep_outputs)
        cases.append(case_judgement)
        if keep_outputs:
            output = _select_output(case_judgement, case_run.result.stdout, min(MAX_OUTPUT_BYTES, remaining_bytes))
            remaining_bytes -= len(output.encode())
            outputs.append(output)
        if case_judgement.verdict is Verdict.COMPILE_ERROR:
            break
        if case_judgement.verdict is not Verdict.ACCEPTED and not run_all:
            break
    failures = [case.verdict for case in cases if case.verdict is not Verdict.ACCEPTED]
    verdict = failures[0] if failures else Verdict.ACCEPTED
    return Judgement(verdict, tuple(cases), len(suite.cases), tuple(outputs))


def _select_output(case_judgement: CaseJudgement, output: bytes, max_bytes: int) -> str:
    if case_judgement.verdict is not Verdict.ACCEPTED or len(output) > max_bytes:
        return ""
    try:
        return output.decode()
    except UnicodeDecodeError:
        return ""


def _check_suite(suite: Suite) -> checkers.Checker | None:
    """Return the suite's checker; None if a referee decides. Raises ValueError for an invalid suite."""
    if not suite.cases:
        raise ValueError("a suite needs at least one case")
    for number, case in enumerate(suite.cases if suite.entry_point is not None else ()):
        for name, text, kind in (("input", case.input, list), ("expected", case.expected, object)):
            try:
                is_valid = isinstance(json.loads(text), kind)
            except (ValueError, RecursionError):
                is_valid = False
            if not is_valid:
                requirement = "a JSON list of arguments" if kind is list else "a JSON value"
                raise ValueError(f"case {number}: {name} of a call must be {requirement}, not {text[:80]!r}")
    if suite.assertions is not None:
        return _check_assertions(suite, suite.assertions)
    if suite.checker == PYTHON:
        raise ValueError("the checker 'python' is only for suites with assertions")
    if suite.checker not in (PROGRAM, INTERACTIVE):
        if suite.referee is not None:
            raise ValueError(f"a suite with a referee needs the checker program or interactive, not {suite.checker!r}")
        return checkers.load(suite.checker)
    if suite.referee is None:
        raise ValueError(f"the checker {suite.checker!r} needs a referee")
    if suite.entry_point is not None:
        raise ValueError("a referee judges printed output, but this suite calls a function")
    if suite.checker == INTERACTIVE and suite.referee.convention is not RefereeConvention.TESTLIB:
        raise ValueError("an interactive referee cannot print its ruling; its convention must be testlib")
    return None


def _check_assertions(suite: Suite, assertions: Assertions) -> checkers.Checker:
    """Return the checker of an assertion suite. Raises ValueError for an invalid suite."""
    if suite.checker != PYTHON:
        raise ValueError(f"a suite with assertions needs the checker 'python', not {suite.checker!r}")
    if suite.entry_point is not None or suite.referee is not None:
        raise ValueError("a suite with assertions cannot have an entry_point or a referee")
    if wrong := [name for name in assertions.names if not (isinstance(name, str) and name.isidentifier())]:
        raise ValueError(f"the names of assertions must be Python names, not {wrong[0]!r}"[:200])
    if not assertions.names:
        raise ValueError("Assertions.names is empty; list the functions and classes that a submission must define")
    for number, case in enumerate(suite.cases):
        try:
            part = "input"
            if not case.expected:
                _check_statements(case.input)
                continue
            literals.check_call(case.input, assertions.names)
            part = "expected"
            literals.parse_literal(case.expected)
        except ValueError as error:
            raise ValueError(f"case {number}: {part} {error}") from None
    return checkers.load(PYTHON)


def _check_statements(text: str) -> None:
    """Raise ValueError, with a message that begins with "must be", unless the text is Python statements."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # SyntaxWarning for invalid escapes, such as "\d"
            statements = ast.parse(text).body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ValueError(f"must be Python statements: {error}"[:200]) from None
    if not statements:
        raise ValueError("must be Python statements, and there are none")


def _judge_case(case: Case, case_run: CaseRun, checker: checkers.Checker | None, suite: Suite) -> CaseJudgement:
    result, partial = case_run.result, 0.0
    if result.outcome is not Outcome.EXITED:
        # The first errors of a compiler and the last lines of a program are the most informative.
        extract = _decode_head if result.outcome is Outcome.NOT_COMPILED else _decode_tail
        verdict, detail = _FAILURE_VERDICTS[result.outcome], extract(result.stderr)
    elif result.exit_code != 0:
        verdict, detail = Verdict.RUNTIME_ERROR, _decode_tail(result.stderr) or f"exit status {result.exit_code}"
    elif case_run.referee_result is not None or checker is None:
        assert case_run.referee_result is not None
        verdict = Verdict.ACCEPTED if case_run.referee_result.score == 1 else Verdict.WRONG_ANSWER
        partial, detail = case_run.referee_result.score % 1, case_run.referee_result.detail
    elif suite.assertions is not None:
        verdict, detail = _judge_call(case, result, checker, _LITERALS)
    elif suite.entry_point is not None:
        verdict, detail = _judge_call(case, result, checker, _JSON)
    elif _text.is_much_longer(result.stdout, case.expected):  # before decoding, which can take four times the memory
        verdict, detail = Verdict.WRONG_ANSWER, result.stdout[:_MAX_DETAIL_CHARS].decode("utf-8", "replace")
    else:
        same = checker.same_output(result.text, case.expected)
        verdict, detail = (Verdict.ACCEPTED, "") if same else (Verdict.WRONG_ANSWER, result.text[:_MAX_DETAIL_CHARS])
    return CaseJudgement(verdict, result.cpu_seconds, result.wall_seconds, result.memory_mb, detail, partial)


def _judge_call(case: Case, result: RunResult, checker: checkers.Checker, form: _ValueForm) -> tuple[Verdict, str]:
    if not result.returned:
        return Verdict.RUNTIME_ERROR, _NOTHING_RETURNED
    if not form.may_equal(result.returned, case.expected):
        prefix = result.returned[:_MAX_DETAIL_CHARS].decode("ascii", "replace")
        return Verdict.WRONG_ANSWER, f"much longer than expected: {prefix}"
    expected = form.parse(case.expected)
    try:
        returned = form.decode(result.returned)
        same = checker.same_value(returned, expected)
    except (ValueError, TypeError, RecursionError) as error:  # same_value also raises RecursionError, for nested sets
        return Verdict.WRONG_ANSWER, f"the returned value cannot be read: {error}"[:_MAX_DETAIL_CHARS]
    return (Verdict.ACCEPTED, "") if same else (Verdict.WRONG_ANSWER, form.describe(returned)[:_MAX_DETAIL_CHARS])


def _decode_head(stderr: bytes) -> str:
    return stderr[: 4 * _MAX_DETAIL_CHARS].decode("utf-8", "replace").strip()[:_MAX_DETAIL_CHARS]


def _decode_tail(stderr: bytes) -> str:
    return stderr[-4 * _MAX_DETAIL_CHARS :].decode("utf-8", "replace").strip()[-_MAX_DETAIL_CHARS:]
