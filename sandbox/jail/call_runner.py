"""Run the cases of a suite that calls a function: together if that cannot change a verdict, otherwise one by one. A
stateless program (languages/_purity.py) gets several cases in one run. Each call finds the program freshly executed, or
is a fork of a process that has only executed it. The results of such a run count only in the program's favor, and only
within the limits of a single case:

- A call that is not accepted, or that does not return, is run again, alone, and that run counts. If the
  call returns a value that is not accepted and, run alone, another one, the program has two values for one case: it
  may be guessing, and detect how it is run. Then all cases are run alone, and nothing else counts.
- The CPU time, wall time, memory and output of the whole run stay within the limits of one case, so no case can gain
  from what was spent on another. A run that exceeds a limit shows nothing, and from then on each case is run alone.

A run takes as many calls as fit into a slice of CPU time. The first slices are short, since most wrong programs fail
early. A call that takes much longer ends the run; it is run alone, and so is each case after it until one takes less
than a slice.
"""

from collections import deque
from dataclasses import replace
from itertools import accumulate, takewhile

from sandbox import languages
from sandbox.jail.child import ChildParams
from sandbox.jail.compile_cache import CompiledProgram
from sandbox.jail.run_spec import RunSpec
from sandbox.jail.runner import Runner
from sandbox.judge import CaseRun
from sandbox.program import Outcome, Program, RunResult
from sandbox.suite import Case, Suite

_FIRST_SECONDS = 0.01  # CPU time of the first slice
_GROWTH_FACTOR = 4  # ratio of the CPU time of a slice to that of the one before
_MAX_SECONDS = 0.2
_SHARE = 16  # inverse of a slice's maximum share of a case's CPU time: calls may take a few times the slice
_MAX_BYTES = 1 << 20  # of the inputs of a run, unless the first of them is longer
_MAX_CASES = 1000  # of a run
_HEADER_BYTES = 8  # bytes before each input
_FUTILE = 3  # runs without a result, or ended by a slow call, after which cases are run alone


class CallRunner:
    """Runs one submission for the cases of a suite, in their order. Raises ValueError if its language is not Python."""

    def __init__(self, program: Program, suite: Suite, runner: Runner) -> None:
        assert suite.entry_point is not None
        self._runner = runner
        self._entry_point = suite.entry_point
        self._limits = suite.limits
        self._cases = suite.cases
        self._next = 0  # index of the next case
        self._order = runner.make_run_spec("call", program, suite.limits, suite.entry_point)
        self._found: deque[RunResult] = deque()  # results of the next cases
        self._slice_seconds = min(_FIRST_SECONDS, self._max_slice_seconds)
        self._n_futile = 0
        self._is_slow = False  # whether the next case will probably take longer than a slice

    @property
    def _max_slice_seconds(self) -> float:
        return min(
            _MAX_SECONDS, self._order.run_params.cpu_seconds / _SHARE, self._order.run_params.wall_seconds / _SHARE
        )

    def run(self, case: Case, remaining_seconds: float) -> CaseRun:
        """Run the submission on the next case. Raises ExecutionLost."""
        compiled = self._runner.compile(self._order.program)
        if isinstance(compiled, RunResult):
            return CaseRun(compiled)
        lost_seconds = 0.0
        if (
            not self._found
            and not self._is_slow
            and self._n_futile < _FUTILE
            and languages.load("python").may_share_process(compiled.artifact_fd)
        ):
            lost_seconds = self._run_together(compiled, remaining_seconds)
        self._next += 1
        if self._found:
            return CaseRun(
                self._found.popleft(), rerun_isolated=lambda left: CaseRun(self._alone(case, compiled, left))
            )
        result = self._alone(case, compiled, remaining_seconds - lost_seconds)
        self._is_slow = result.cpu_seconds > self._slice_seconds
        return CaseRun(result, None, lost_seconds)

    def run_isolated(self, case: Case, remaining_seconds: float) -> CaseRun:
        """Run the submission on any case, in its own process. Raises ExecutionLost."""
        compiled = self._runner.compile(self._order.program)
        return CaseRun(compiled if isinstance(compiled, RunResult) else self._alone(case, compiled, remaining_seconds))

    def _alone(self, case: Case, compiled: CompiledProgram, remaining_seconds: float) -> RunResult:
        return self._runner.execute(self._within(remaining_seconds), compiled, _encoded(case))

    def _within(self, remaining_seconds: float) -> RunSpec:
        return self._order.with_time_limits(max(0.001, min(self._limits.wall_seconds, remaining_seconds)))

    def _run_together(self, compiled: CompiledProgram, remaining_seconds: float) -> float:
        """Run the next cases together and keep their results. Returns the wall time of a run without results."""
        inputs = self._inputs()
        if len(inputs) < 2:
            return 0.0
        order = self._within(remaining_seconds).with_child_params(
            ChildParams(self._entry_point, cpu_seconds_budget=self._slice_seconds)
        )
        request = b"".join(len(one).to_bytes(_HEADER_BYTES, "little") + one for one in inputs)
        result = self._runner.execute(order, compiled, request)
        if result.outcome not in (Outcome.EXITED, Outcome.SIGNALLED):
            self._n_futile = _FUTILE
            return result.wall_seconds
        self._found.extend(_results(result, len(inputs)))
        if len(self._found) < len(inputs):
            self._slice_seconds = min(_GROWTH_FACTOR * self._slice_seconds, self._max_slice_seconds)
        self._is_slow = result.outcome is Outcome.SIGNALLED
        self._n_futile += self._is_slow or not self._found
        return 0.0 if self._found else result.wall_seconds

    def _inputs(self) -> list[bytes]:
        """Return the inputs of the next cases, as many as one run may get."""
        cases = self._cases[self._next : self._next + _MAX_CASES]
        sizes = accumulate(len(case.input) for case in cases)
        n_cases = sum(1 for _ in takewhile(lambda size: size <= _MAX_BYTES, sizes))
        return [_encoded(case) for case in cases[:n_cases]]


def _results(result: RunResult, n_cases: int) -> list[RunResult]:
    """Return the result of each case of a run, up to the first that did not return."""
    *lines, _ = (result.returned or b"").split(b"\n", n_cases)  # without an incomplete last line
    claims = [line.partition(b" ") for line in lines]
    try:
        seconds = [float(words) for words, _, _ in claims]
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


def _encoded(case: Case) -> bytes:
    return case.input.encode("utf-8", "surrogatepass")
