"""Execution of the cases of a call suite, several in one run if that cannot change a verdict.

A stateless program (languages/_purity.py) gets several cases in one run. Each call uses a freshly executed program, or
a fork of a process that has only executed it. Such a shared run can accept a case, but never reject one, and only
within the limits of a single case:

- A call without an accepted value gets an isolated rerun, and only that rerun counts. If the rerun is accepted, the
  program has returned two values for one case: it may be guessing, and may detect shared runs. Then all cases get
  isolated reruns, and only these count.
- The whole run has the CPU time, wall time, memory and output limits of one case. If it exceeds one, its results do not
  count, and all further cases run in isolation.

A shared run executes calls until they have used a slice of CPU time. The first slices are short, since most wrong
programs fail early. A call that takes much longer than a slice ends the run. That case and the following ones run in
isolation until one takes less than a slice.
"""

from collections import deque
from dataclasses import replace
from itertools import accumulate, takewhile

from sandbox import languages
from sandbox.jail.child import ChildParams
from sandbox.jail.compile_cache import CompiledProgram
from sandbox.jail.run_spec import RunSpec
from sandbox.judge import CaseRun
from sandbox.judging.message_codec import encode_text
from sandbox.judging.runner import Runner
from sandbox.program import Outcome, Program, RunResult
from sandbox.suite import Case, Suite

_FIRST_SLICE_SECONDS = 0.01  # CPU time of the first slice
_GROWTH_FACTOR = 4  # ratio of consecutive slices
_MAX_SLICE_SECONDS = 0.2
# Minimum ratio of a case's time limits to a slice, since the calls of a run may take a few times the slice.
_MIN_SLICES_PER_CASE = 16
_MAX_INPUT_BYTES = 1 << 20  # total bytes of the inputs of a run
_MAX_CASES_PER_RUN = 1000
_HEADER_BYTES = 8  # size of the length before each input
# A futile run has no result, or a slow call ended it. After this number of them, all cases run in isolation.
_MAX_FUTILE_RUNS = 3


class CallRunner:
    """Runner of one submission for the cases of a call suite. Raises ValueError if its language is not Python."""

    def __init__(self, program: Program, suite: Suite, runner: Runner) -> None:
        assert suite.entry_point is not None
        self._runner = runner
        self._entry_point = suite.entry_point
        self._limits = suite.limits
        self._cases = suite.cases
        self._next_index = 0
        self._run_spec = runner.make_run_spec("call", program, suite.limits, suite.entry_point)
        # Results of a shared run for the next cases.
        self._shared_results: deque[RunResult] = deque()
        self._slice_seconds = min(_FIRST_SLICE_SECONDS, self._max_slice_seconds)
        self._n_futile_runs = 0
        self._is_slow = False  # whether the next case will probably take longer than a slice

    @property
    def _max_slice_seconds(self) -> float:
        return min(
            _MAX_SLICE_SECONDS,
            self._run_spec.run_params.cpu_seconds / _MIN_SLICES_PER_CASE,
            self._run_spec.run_params.wall_seconds / _MIN_SLICES_PER_CASE,
        )

    def run(self, case: Case, remaining_seconds: float) -> CaseRun:
        """Return the run for the next case of the suite, possibly from a shared run. Raises ExecutionLost."""
        compiled = self._runner.compile(self._run_spec.program)
        if isinstance(compiled, RunResult):
            return CaseRun(compiled)
        wasted_seconds = 0.0
        if (
            not self._shared_results
            and not self._is_slow
            and self._n_futile_runs < _MAX_FUTILE_RUNS
            and languages.load("python").may_share_process(compiled.artifact_fd)
        ):
            wasted_seconds = self._execute_shared_run(compiled, remaining_seconds)
        self._next_index += 1
        if self._shared_results:
            return CaseRun(
                self._shared_results.popleft(),
                rerun_isolated=lambda left: CaseRun(self._execute_isolated(case, compiled, left)),
            )
        result = self._execute_isolated(case, compiled, remaining_seconds - wasted_seconds)
        self._is_slow = result.cpu_seconds > self._slice_seconds
        return CaseRun(result, None, wasted_seconds)

    def run_isolated(self, case: Case, remaining_seconds: float) -> CaseRun:
        """Run the submission on any case, in its own process. Raises ExecutionLost."""
        compiled = self._runner.compile(self._run_spec.program)
        if isinstance(compiled, RunResult):
            return CaseRun(compiled)
        return CaseRun(self._execute_isolated(case, compiled, remaining_seconds))

    def _execute_isolated(self, case: Case, compiled: CompiledProgram, remaining_seconds: float) -> RunResult:
        return self._runner.execute(self._limit_run_spec(remaining_seconds), compiled, encode_text(case.input))

    def _limit_run_spec(self, remaining_seconds: float) -> RunSpec:
        return self._run_spec.with_time_limits(max(0.001, min(self._limits.wall_seconds, remaining_seconds)))

    def _execute_shared_run(self, compiled: CompiledProgram, remaining_seconds: float) -> float:
        """Execute a shared run for the next cases, and store its results. Returns its wall seconds if it has none."""
        inputs = self._encode_next_inputs()
        if len(inputs) < 2:
            return 0.0
        run_spec = self._limit_run_spec(remaining_seconds).with_child_params(
            ChildParams(self._entry_point, cpu_seconds_budget=self._slice_seconds)
        )
        request = b"".join(len(data).to_bytes(_HEADER_BYTES, "little") + data for data in inputs)
        result = self._runner.execute(run_spec, compiled, request)
        if result.outcome not in (Outcome.EXITED, Outcome.SIGNALLED):
            self._n_futile_runs = _MAX_FUTILE_RUNS
            return result.wall_seconds
        self._shared_results.extend(_split_results(result, len(inputs)))
        if len(self._shared_results) < len(inputs):
            self._slice_seconds = min(_GROWTH_FACTOR * self._slice_seconds, self._max_slice_seconds)
        self._is_slow = result.outcome is Outcome.SIGNALLED
        self._n_futile_runs += self._is_slow or not self._shared_results
        return 0.0 if self._shared_results else result.wall_seconds

    def _encode_next_inputs(self) -> list[bytes]:
        """Encode the inputs of the next cases, as many as fit into one run."""
        cases = self._cases[self._next_index : self._next_index + _MAX_CASES_PER_RUN]
        sizes = accumulate(len(case.input) for case in cases)
        n_cases = sum(1 for _ in takewhile(lambda size: size <= _MAX_INPUT_BYTES, sizes))
        return [encode_text(case.input) for case in cases[:n_cases]]


def _split_results(result: RunResult, n_cases: int) -> list[RunResult]:
    """Split the result of a run into the results of its cases, up to the first case that did not return."""
    *lines, _ = (result.returned or b"").split(b"\n", n_cases)  # drops an incomplete last line
    claims = [line.partition(b" ") for line in lines]
    try:
        seconds = [float(number) for number, _, _ in claims]
    except ValueError:
        return []
    if not (any(seconds) and all(0 <= claimed <= result.cpu_seconds for claimed in seconds)):
        seconds = [result.cpu_seconds / max(1, len(claims))] * len(claims)
    wall_share = result.wall_seconds / (sum(seconds) or 1.0)
    return [
        replace(
            result,
            outcome=Outcome.EXITED,
            exit_code=0,
            stdout=b"",
            stderr=b"",
            cpu_seconds=cpu_seconds,
            wall_seconds=wall_share * cpu_seconds,
            returned=value,
        )
        for cpu_seconds, (_, _, value) in zip(seconds, claims, strict=True)
    ]
