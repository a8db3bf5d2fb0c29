"""Execution of assertion cases: a call with an expected value, or statements that call the submission.

A failure before the first call of the submission is the suite's fault, never the submission's.
"""

import contextlib
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from sandbox import referee
from sandbox.errors import RefereeError
from sandbox.jail.child import ChildParams
from sandbox.jail.compile_cache import CompiledProgram
from sandbox.judge import CaseRun
from sandbox.judging.check_cache import CheckCache
from sandbox.judging.interactive import (
    REFEREE_EXIT_SECONDS,
    REFEREE_FACTOR,
    REFEREE_GRACE_SECONDS,
    WALL_FACTOR,
    InteractionResult,
    Participant,
    prepare_zygotes,
    retry_lost_run,
    run_connected,
)
from sandbox.judging.message_codec import encode_text
from sandbox.judging.runner import Runner
from sandbox.program import Limits, Outcome, Program, RunResult
from sandbox.referee import RefereeResult
from sandbox.suite import Case, Suite

_MAX_DETAIL_CHARS = 300
_EXTRA_CPU_SECONDS = 10  # CPU time of the tests, in addition to the wall seconds of the submission
_EMPTY_PROGRAM = Program("")
_STUB_CLASS = "class {}:\n    def __init__(self, *_, **__): pass\n"
# Callable as a function and as a class, since a suite may omit its list of classes.
_STUB_FUNCTION = "class {}:\n    def __new__(cls, *arguments, **_): return arguments[0] if arguments else None\n"
_TRIVIAL_EXPRESSION = b"0"


class PreambleCache:
    """Compiler of the preambles of one worker's suites, with a cache of passed checks."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self._passed = CheckCache()

    @contextlib.contextmanager
    def open_compiled(self, source: str) -> Iterator[int]:
        """Yield a descriptor of the compiled preamble. Raises RefereeError if it does not compile."""
        compiled = self._runner.compile(Program(source))
        if isinstance(compiled, RunResult):
            raise RefereeError(f"Assertions.given does not compile: {_decode_stderr_tail(compiled)}")
        descriptor = os.dup(compiled.artifact_fd)  # an eviction from the compile cache closes the original
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def check(self, source: str, limits: Limits) -> None:
        """Check that the preamble runs without a submission. Raises RefereeError."""
        if self._passed.contains(source, limits):
            return
        run_spec = self._runner.make_run_spec("evaluate", _EMPTY_PROGRAM, limits)
        empty_program = self._runner.compile(_EMPTY_PROGRAM)
        assert not isinstance(empty_program, RunResult)
        with self.open_compiled(source) as descriptor:
            run_spec = run_spec.with_preamble(descriptor, source)
            result = self._runner.execute(run_spec, empty_program, _TRIVIAL_EXPRESSION)
        if has_failed(result):
            tail = _decode_stderr_tail(result)
            raise RefereeError(f"Assertions.given fails without a submission: {result.outcome.value} {tail}")
        self._passed.add(source, limits)


class AssertionRunner:
    """Runner of one submission for the cases of an assertion suite. Raises ValueError if its language is not Python.

    get_tests_runner  returns the runner for the tests, whose process runs concurrently with the submission's
    """

    def __init__(
        self, program: Program, suite: Suite, runner: Runner, get_tests_runner: Callable[[], Runner],
        preambles: PreambleCache,
    ) -> None:  # fmt: skip
        assert suite.assertions is not None
        self._program = program
        self._limits = suite.limits
        self._shared = suite.assertions
        self._runner = runner
        self._get_tests_runner = get_tests_runner
        self._preambles = preambles
        self._evaluate = runner.make_run_spec("evaluate", program, suite.limits)
        child_params = ChildParams("", self._shared.names)
        self._serve = runner.make_run_spec("serve", program, suite.limits).with_child_params(child_params)

    def run(self, case: Case, remaining_seconds: float) -> CaseRun:
        """Run the submission on one case. Raises ExecutionLost, and RefereeError if the suite's own code fails."""
        compiled = self._runner.compile(self._program)
        if isinstance(compiled, RunResult):
            return CaseRun(compiled)
        if not case.expected:
            return self._run_statements(case, compiled, remaining_seconds)
        run_spec = self._evaluate.with_time_limits(min(self._limits.wall_seconds, remaining_seconds))
        with self._preambles.open_compiled(self._shared.given) as preamble_fd:
            run_spec = run_spec.with_preamble(preamble_fd, self._shared.given)
            result = self._runner.execute(run_spec, compiled, encode_text(case.input))
        if has_failed(result):
            self._preambles.check(self._shared.given, self._limits)
        return CaseRun(result)

    def _run_statements(self, case: Case, compiled: CompiledProgram, remaining_seconds: float) -> CaseRun:
        wall_seconds = min(WALL_FACTOR * self._limits.wall_seconds, remaining_seconds)
        timeout_seconds = min(
            REFEREE_FACTOR * wall_seconds + REFEREE_GRACE_SECONDS, remaining_seconds + REFEREE_EXIT_SECONDS
        )
        interaction, report = self._run_tests(case, compiled, wall_seconds, timeout_seconds)
        if has_failed(interaction.program.result) and not report.has_reached("names_listed"):
            self._preambles.check(self._shared.given, self._limits)
        is_shortened = timeout_seconds < REFEREE_FACTOR * wall_seconds + REFEREE_GRACE_SECONDS
        try:
            return _to_case_run(interaction, report, is_shortened)
        except RefereeError as failure:
            if not (report.has_reached("names_listed") and self._is_setup_sound(case)):
                raise
            result = replace(interaction.program.result, outcome=Outcome.EXITED, exit_code=0)
            return CaseRun(result, referee.make_wrong_answer_result(failure), interaction.referee_extra_seconds)

    def _run_tests(
        self, case: Case, compiled: CompiledProgram, wall_seconds: float, timeout_seconds: float
    ) -> tuple[InteractionResult, "AssertionReport"]:
        """Run a submission connected to the tests; return both results and the tests' report.

        wall_seconds     wall time limit of the submission
        timeout_seconds  wall time limit of the tests
        """
        tests_runner = self._get_tests_runner()
        setup = tests_runner.compile(Program(self._shared.setup))
        if isinstance(setup, RunResult):
            raise RefereeError(f"Assertions.setup does not compile: {_decode_stderr_tail(setup)}")
        run_spec = tests_runner.make_run_spec("run_tests", Program(self._shared.setup), referee.LIMITS, referee=True)
        run_spec = run_spec.with_child_params(ChildParams(case.input, self._shared.names, classes=self._shared.classes))
        run_spec = run_spec.with_time_limits(timeout_seconds, wall_seconds + _EXTRA_CPU_SECONDS)
        sources = f"{self._shared.given}\n{case.input}"
        with self._preambles.open_compiled(self._shared.given) as preamble_fd:
            program = Participant(
                self._serve.with_time_limits(wall_seconds).with_preamble(preamble_fd, self._shared.given),
                compiled,
                self._runner,
            )
            tests = Participant(run_spec.with_preamble(preamble_fd, sources), setup, tests_runner)
            interaction = retry_lost_run(lambda: prepare_zygotes(program, tests) or run_connected(program, tests))
        return interaction, AssertionReport.read(interaction.referee.result.returned or b"")

    def _is_setup_sound(self, case: Case) -> bool:
        """Return whether the setup succeeds with stubs for the submission's functions and classes."""
        classes = self._shared.classes
        parts = [_STUB_CLASS if name in classes else _STUB_FUNCTION for name in self._shared.names]
        source = "".join(part.format(name) for part, name in zip(parts, self._shared.names, strict=True))
        stub = self._runner.compile(Program(source))
        assert not isinstance(stub, RunResult)
        wall_seconds = self._limits.wall_seconds
        _, report = self._run_tests(case, stub, wall_seconds, REFEREE_FACTOR * wall_seconds)
        return report.has_reached("setup_done") or report.has_reached("submission_called")


@dataclass(frozen=True, slots=True)
class AssertionReport:
    """The report of the tests' process; see languages/_assertion_report.py.

    stages   completed stages: preamble_done, names_listed (sent by the submission), setup_done, submission_called
    verdict  passed; failed; disconnected: the submission exited early; malformed: it sent a malformed frame; "": none
    detail   human-readable explanation of the verdict
    """

    stages: frozenset[str]
    verdict: str = ""
    detail: str = ""

    @classmethod
    def read(cls, written: bytes) -> "AssertionReport":
        """Parse the lines of an AssertionReportWriter up to the verdict. Ignores an unterminated last line."""
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
        """True if the tests failed or timed out before they called the submission."""
        waits_for_submission = self.has_reached("preamble_done") and not self.has_reached("names_listed")
        return self.verdict in ("", "failed") and not self.has_reached("submission_called") and not waits_for_submission


def _to_case_run(interaction: InteractionResult, report: AssertionReport, is_shortened: bool) -> CaseRun:
    """Return the submission's run with its score. Raises RefereeError if the suite's own code failed.

    is_shortened: whether the submission's remaining time reduced the time limit of the tests
    """
    result, tests = interaction.program.result, interaction.referee.result
    score: RefereeResult | None = None
    ruled_first = report.verdict in ("failed", "malformed") and interaction.referee_ended_first
    if interaction.output_exceeded:
        result = replace(result, outcome=Outcome.OUTPUT_LIMIT)
    elif report.is_suite_fault and not report.has_reached("setup_done"):
        if not (is_shortened and tests.outcome is Outcome.TIMED_OUT):
            raise RefereeError(
                f"before they used the submission: {tests.outcome.value} {report.detail or _decode_stderr_tail(tests)}"
            )
        result = referee.mark_timed_out(result)
    elif ruled_first or not has_failed(result):
        match report.verdict:
            case "passed":
                score = RefereeResult(1.0)
            case "failed" | "malformed":
                prefix = "the program's reply is malformed: " if report.verdict == "malformed" else ""
                result = replace(result, outcome=Outcome.EXITED, exit_code=0)
                score = RefereeResult(0.0, f"{prefix}{report.detail}"[:_MAX_DETAIL_CHARS])
            case "disconnected":
                result = replace(result, exit_code=1, stderr=b"the program ended while its tests were running")
            case _:
                result = _convert_tests_failure(result, tests)
    return CaseRun(result, score, interaction.referee_extra_seconds)


def _convert_tests_failure(result: RunResult, tests: RunResult) -> RunResult:
    """Return a failed run for a program whose return values made the tests time out, run out of memory, or crash."""
    message = f"the tests failed on the program's return values: {tests.outcome.value} {_decode_stderr_tail(tests)}"
    outcome = tests.outcome if tests.outcome in (Outcome.TIMED_OUT, Outcome.OUT_OF_MEMORY) else Outcome.SIGNALLED
    return replace(result, outcome=outcome, stderr=message.encode())


def has_failed(result: RunResult) -> bool:
    return result.outcome is not Outcome.EXITED or result.exit_code != 0


def _decode_stderr_tail(result: RunResult) -> str:
    return result.stderr[-4 * _MAX_DETAIL_CHARS :].decode("utf-8", "replace").strip()[-_MAX_DETAIL_CHARS:]
