"""The cases of an assertion suite: a call whose value is compared, or statements that call the submission.

Whatever fails before the submission has a part in it is the suite's fault, and never held against the submission.
"""

import contextlib
import hashlib
import os
from collections import OrderedDict
from collections.abc import Iterator

from sandbox.cases import Case, Suite
from sandbox.errors import RefereeFailed
from sandbox.jail.runner import Runner
from sandbox.judge import Ran
from sandbox.program import Limits, Outcome, Program, RunResult

_DETAIL = 300  # characters for people
_REMEMBERED = 4096  # pieces of given code that are known to be sound
_NOTHING = Program("")
_ATOM = b"0"  # the shortest call, of nothing


class GivenCode:
    """The code that the suites of one worker give their submissions. It remembers which of it is sound."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self._sound: OrderedDict[bytes, None] = OrderedDict()

    @contextlib.contextmanager
    def compiled(self, source: str, runner: Runner | None = None) -> Iterator[int]:
        """Open the compiled code. Raises RefereeFailed if it does not compile."""
        compiled = (runner or self._runner).compile(Program(source))
        if isinstance(compiled, RunResult):
            message = compiled.stderr.decode("utf-8", "replace").strip()
            raise RefereeFailed(f"its given code or setup does not compile: {message[-_DETAIL:]}")
        descriptor = os.dup(compiled.artifact)  # the compilation itself may be forgotten meanwhile
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def check(self, source: str, limits: Limits) -> None:
        """Check that the code by itself does not fail. Raises RefereeFailed."""
        name = hashlib.sha256(repr((source, limits)).encode("utf-8", "surrogatepass")).digest()
        if name in self._sound:
            self._sound.move_to_end(name)
            return
        order = self._runner.order("evaluate", _NOTHING, limits)
        nothing = self._runner.compile(_NOTHING)
        assert not isinstance(nothing, RunResult)
        with self.compiled(source) as descriptor:
            result = self._runner.execute(order.after(descriptor), nothing, _ATOM)
        if failed(result):
            message = result.stderr.decode("utf-8", "replace").strip()
            raise RefereeFailed(f"its given code fails by itself: {result.outcome.value} {message[-_DETAIL:]}")
        self._sound[name] = None
        if len(self._sound) > _REMEMBERED:
            self._sound.popitem(last=False)


class AssertionRuns:
    """Runs one submission for the cases of an assertion suite. Raises ValueError if its language is not Python."""

    def __init__(self, program: Program, suite: Suite, runner: Runner, given_code: GivenCode) -> None:
        assert suite.assertions is not None
        self._program = program
        self._limits = suite.limits
        self._shared = suite.assertions
        self._runner = runner
        self._given_code = given_code
        self._evaluate = runner.order("evaluate", program, suite.limits)

    def run(self, case: Case, left_seconds: float) -> Ran:
        """Run the submission on one case. Raises ExecutionLost, and RefereeFailed if the suite's own code fails."""
        if not case.expected:
            raise ValueError("tests that are statements cannot be run yet")
        compiled = self._runner.compile(self._program)
        if isinstance(compiled, RunResult):
            return Ran(compiled)
        order = self._evaluate.within(min(self._limits.wall_seconds, left_seconds))
        with self._given_code.compiled(self._shared.given) as given:
            result = self._runner.execute(order.after(given), compiled, case.input.encode("utf-8", "surrogatepass"))
        if failed(result):
            self._given_code.check(self._shared.given, self._limits)
        return Ran(result)


def failed(result: RunResult) -> bool:
    return result.outcome is not Outcome.EXITED or result.exit_code != 0
