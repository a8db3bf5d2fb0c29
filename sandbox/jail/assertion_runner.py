"""The cases of an assertion suite: a call whose value is compared, or statements that call the submission.

A failure before the submission is first called is the suite's fault, never the submission's.
"""

import contextlib
import hashlib
import json
import os
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from sandbox import referee
from sandbox.errors import RefereeError
from sandbox.jail.child import ChildParams
from sandbox.jail.compile_cache import CompiledProgram
from sandbox.jail.interactive import (
    REFEREE_EXIT_SECONDS,
    REFEREE_FACTOR,
    REFEREE_GRACE_SECONDS,
    WALL_FACTOR,
    InteractionResult,
    Participant,
    prepare_zygotes,
    retry_lost,
    run_connected,
)
from sandbox.jail.runner import Runner
from sandbox.judge import CaseRun
from sandbox.program import Limits, Outcome, Program, RunResult
from sandbox.referee import RefereeResult
from sandbox.suite import Case, Suite

_MAX_DETAIL_CHARS = 300
_EXTRA_CPU_SECONDS = 10  # CPU time of the tests, in addition to the wall seconds of the submission
_CACHE_SIZE = 4096  # preambles that have passed their check
_NOTHING = Program("")
_CLASS = "class {}:\n    def __init__(self, *_, **__): pass\n"
# Usable as a function and as a class, since the suite does not say which a name is.
_FUNCTION = "class {}:\n    def __new__(cls, *arguments, **_): return arguments[0] if arguments else None\n"
_ATOM = b"0"  # the shortest expression


class PreambleCache:
    """The compiled preambles of one worker's suites, and which of them have passed their check."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self._sound: OrderedDict[bytes, None] = OrderedDict()

    @contextlib.contextmanager
    def open_compiled(self, source: str) -> Iterator[int]:
        """Open the compiled code. Raises RefereeError if it does not compile."""
        compiled = self._runner.compile(Program(source))
        if isinstance(compiled, RunResult):
            raise RefereeError(f"their given code does not compile: {_tail(compiled)}")
        descriptor = os.dup(compiled.artifact_fd)  # the cache may evict the compilation meanwhile
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def check(self, source: str, limits: Limits) -> None:
        """Check that the code runs without a submission. Raises RefereeError."""
        name = hashlib.sha256(repr((source, limits)).encode("utf-8", "surrogatepass")).digest()
        if name in self._sound:
            self._sound.move_to_end(name)
            return
        order = self._runner.make_run_spec("evaluate", _NOTHING, limits)
        nothing = self._runner.compile(_NOTHING)
        assert not isinstance(nothing, RunResult)
        with self.open_compiled(source) as descriptor:
            result = self._runner.execute(order.with_preamble(descriptor, source), nothing, _ATOM)
        if has_failed(result):
            raise RefereeError(f"their given code fails by itself: {result.outcome.value} {_tail(result)}")
        self._sound[name] = None
        if len(self._sound) > _CACHE_SIZE:
            self._sound.popitem(last=False)


class AssertionRunner:
    """Runs one submission for the cases of an assertion suite. Raises ValueError if its language is not Python.

    second       returns the runner for the tests' process, which runs concurrently
    given_code   the preambles of this worker
    """

    def __init__(
        self, program: Program, suite: Suite, runner: Runner, second: Callable[[], Runner], given_code: PreambleCache
    ) -> None:
        assert suite.assertions is not None
        self._program = program
        self._limits = suite.limits
        self._shared = suite.assertions
        self._runner = runner
        self._second = second
        self._given_code = given_code
        self._evaluate = runner.make_run_spec("evaluate", program, suite.limits)
        self._serve = runner.make_run_spec("serve", program, suite.limits).with_child_params(
            ChildParams("", self._shared.names)
        )

    def run(self, case: Case, remaining_seconds: float) -> CaseRun:
        """Run the submission on one case. Raises ExecutionLost, and RefereeError if the suite's own code fails."""
        compiled = self._runner.compile(self._program)
        if isinstance(compiled, RunResult):
            return CaseRun(compiled)
        if not case.expected:
            return self._run_statements(case, compiled, remaining_seconds)
        order = self._evaluate.with_time_limits(min(self._limits.wall_seconds, remaining_seconds))
        with self._given_code.open_compiled(self._shared.given) as given:
            order = order.with_preamble(given, self._shared.given)
            result = self._runner.execute(order, compiled, case.input.encode("utf-8", "surrogatepass"))
        if has_failed(result):
            self._given_code.check(self._shared.given, self._limits)
        return CaseRun(result)

    def _run_statements(self, case: Case, compiled: CompiledProgram, remaining_seconds: float) -> CaseRun:
        """Run statements in their own process, connected to the submission."""
        wall_seconds = min(WALL_FACTOR * self._limits.wall_seconds, remaining_seconds)
        patience_seconds = min(
            REFEREE_FACTOR * wall_seconds + REFEREE_GRACE_SECONDS, remaining_seconds + REFEREE_EXIT_SECONDS
        )
        ended, report = self._talk(case, compiled, wall_seconds, patience_seconds)
        if has_failed(ended.program.result) and not report.has_reached("met"):
            self._given_code.check(self._shared.given, self._limits)
        hurried = patience_seconds < REFEREE_FACTOR * wall_seconds + REFEREE_GRACE_SECONDS
        try:
            return _ran(ended, report, hurried)
        except RefereeError as failure:
            if not (report.has_reached("met") and self._is_sound(case)):
                raise
            result = replace(ended.program.result, outcome=Outcome.EXITED, exit_code=0)
            return CaseRun(result, referee.wrong_answer_result(failure), ended.referee_extra_seconds)

    def _talk(
        self, case: Case, compiled: CompiledProgram, wall_seconds: float, patience_seconds: float
    ) -> tuple[InteractionResult, "AssertionReport"]:
        """Run a submission, for wall_seconds at most, and the tests. Return how both ended, and the tests' report."""
        second = self._second()
        setup = second.compile(Program(self._shared.setup))
        if isinstance(setup, RunResult):
            raise RefereeError(f"their setup does not compile: {_tail(setup)}")
        order = second.make_run_spec("examine", Program(self._shared.setup), referee.LIMITS, referee=True)
        order = order.with_child_params(ChildParams(case.input, self._shared.names, classes=self._shared.classes))
        order = order.with_time_limits(patience_seconds, wall_seconds + _EXTRA_CPU_SECONDS)
        texts = f"{self._shared.given}\n{case.input}"
        with self._given_code.open_compiled(self._shared.given) as given:
            program = Participant(
                self._serve.with_time_limits(wall_seconds).with_preamble(given, self._shared.given),
                compiled,
                self._runner,
            )
            tests = Participant(order.with_preamble(given, texts), setup, second)
            ended = retry_lost(lambda: prepare_zygotes(program, tests) or run_connected(program, tests))
        return ended, AssertionReport.read(ended.referee.result.returned or b"")

    def _is_sound(self, case: Case) -> bool:
        """Return whether the setup works with stubs in place of the submission's functions and classes."""
        classes = self._shared.classes
        parts = [_CLASS if name in classes else _FUNCTION for name in self._shared.names]
        source = "".join(part.format(name) for part, name in zip(parts, self._shared.names, strict=True))
        stand_in = self._runner.compile(Program(source))
        assert not isinstance(stand_in, RunResult)
        wall_seconds = self._limits.wall_seconds
        _, report = self._talk(case, stand_in, wall_seconds, REFEREE_FACTOR * wall_seconds)
        return report.has_reached("ready") or report.has_reached("called")


@dataclass(frozen=True, slots=True)
class AssertionReport:
    """The report of the tests' process; see languages/_assertion_report.py.

    stages   the stages reached: given (the preamble has run), met (the submission has listed its names), ready (setup
             is done), called (the submission has received a request)
    verdict  passed; failed; gone: the submission ended early; unreadable: it sent a malformed frame; "": none
    detail   explains the verdict to people
    """

    stages: frozenset[str]
    verdict: str = ""
    detail: str = ""

    @classmethod
    def read(cls, written: bytes) -> "AssertionReport":
        """Read the records of an AssertionReportWriter, up to the verdict. A last line without its end is ignored."""
        stages: set[str] = set()
        for line in written.split(b"\n")[:-1]:
            match json.loads(line):
                case {"stage": str(stage)}:
                    stages.add(stage)
                case {"verdict": str(verdict), "detail": str(detail)}:
                    return cls(frozenset(stages), verdict, detail)
        return cls(frozenset(stages))

    def has_reached(self, stage: str) -> bool:
        return stage in self.stages

    @property
    def is_suite_fault(self) -> bool:
        """Whether the tests failed or hung before they called the submission."""
        waits_for_submission = self.has_reached("given") and not self.has_reached("met")
        return self.verdict in ("", "failed") and not self.has_reached("called") and not waits_for_submission


def _ran(ended: InteractionResult, report: AssertionReport, hurried: bool) -> CaseRun:
    """Return the submission's run and its result. Raises RefereeError if the tests failed by themselves.

    hurried: whether the tests had less time than usual, since the submission had little left of its budget
    """
    result, tests = ended.program.result, ended.referee.result
    score: RefereeResult | None = None
    ruled_first = report.verdict in ("failed", "unreadable") and ended.referee_ended_first
    if ended.output_exceeded:
        result = replace(result, outcome=Outcome.OUTPUT_LIMIT)
    elif report.is_suite_fault and not report.has_reached("ready"):
        if not (hurried and tests.outcome is Outcome.TIMED_OUT):
            raise RefereeError(
                f"before they used the submission: {tests.outcome.value} {report.detail or _tail(tests)}"
            )
        result = referee.mark_timed_out(result)
    elif ruled_first or not has_failed(result):
        match report.verdict:
            case "passed":
                score = RefereeResult(1.0)
            case "failed" | "unreadable":
                words = "the program's reply is malformed: " if report.verdict == "unreadable" else ""
                result = replace(result, outcome=Outcome.EXITED, exit_code=0)
                score = RefereeResult(0.0, f"{words}{report.detail}"[:_MAX_DETAIL_CHARS])
            case "gone":
                result = replace(result, exit_code=1, stderr=b"the program ended while its tests were running")
            case _:
                result = _without_verdict(result, tests)
    return CaseRun(result, score, ended.referee_extra_seconds)


def _without_verdict(result: RunResult, tests: RunResult) -> RunResult:
    """Return the run of a program whose return values made the tests time out, run out of memory, or crash."""
    message = f"the tests did not end with what the program returned: {tests.outcome.value} {_tail(tests)}"
    outcome = tests.outcome if tests.outcome in (Outcome.TIMED_OUT, Outcome.OUT_OF_MEMORY) else Outcome.SIGNALLED
    return replace(result, outcome=outcome, stderr=message.encode())


def has_failed(result: RunResult) -> bool:
    return result.outcome is not Outcome.EXITED or result.exit_code != 0


def _tail(result: RunResult) -> str:
    return result.stderr[-4 * _MAX_DETAIL_CHARS :].decode("utf-8", "replace").strip()[-_MAX_DETAIL_CHARS:]
