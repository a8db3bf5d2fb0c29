"""DeepCoder's outcome reward: 1.0 if the program in the answer passes every test that is run, else 0.0.

Nothing in between: shares of tests passed are what models learn to collect by printing what tests show.
"""

import logging
import time
from dataclasses import replace
from functools import lru_cache
from hashlib import sha256

from rewards.extract import program_in
from rewards.reward import NO_CODE, SANDBOX_FAILED, TESTS_FAILED, TRUNCATED, Answer, Reward, Task
from rewards.selection import BUDGET, check_way, select
from sandbox import Judgement, Program, Sandbox, SandboxError, Suite, Verdict
from sandbox.concurrency.once import Once

log = logging.getLogger(__name__)

_ATTEMPTS = 3  # at a program whose judging the sandbox failed at; it has tried again itself before it says so
_PAUSE_SECONDS = 0.2  # before the second one; twice that before the third
_REMEMBERED = 10_000  # verdicts, of some hundred bytes each
_LONGEST_PROGRAM = 4 << 20  # characters: written as JSON, less than what a service reads
_SUITES = 32  # of which the selected tests are held ready; the completions of a group come together

Finding = tuple[float | None, str, str]  # value, verdict and detail


class CodeReward:
    """Scores programs in a sandbox, which stays the caller's to close.

    select               which of a problem's tests are run; see selection.py
    tests                at most so many, where not all are
    least_wall_seconds   bounds of a test's limit, wall and CPU seconds. Within them it is the problem's calibrated
    most_wall_seconds    time_limit_seconds or, without one, the suite's own

    Identical programs are judged once for the same tests. A sandbox that fails three times, and tests that nobody can
    be judged by, give no signal. No completion makes it raise.
    Raises ValueError for options that make no sense and, called, for a task without tests.
    """

    _run_all = False

    def __init__(
        self,
        box: Sandbox,
        *,
        select: str = "longest",
        tests: int = BUDGET,
        least_wall_seconds: float = 6.0,
        most_wall_seconds: float = 12.0,
    ) -> None:
        check_way(select, tests)
        if not 0 < least_wall_seconds <= most_wall_seconds:
            raise ValueError(
                "least_wall_seconds must be above 0 and at most most_wall_seconds,"
                f" not {least_wall_seconds} and {most_wall_seconds}"
            )
        self._box = box
        self._select, self._tests = select, tests
        self._least, self._most = least_wall_seconds, most_wall_seconds
        self._asked = lru_cache(_SUITES)(self._ask)
        self._findings: Once[Finding] = Once(_REMEMBERED)
        self._last_words = ""

    def __call__(self, answer: Answer, task: Task) -> Reward:
        begun = time.perf_counter()
        value, verdict, detail = self._finding(answer, task)
        return Reward(value, verdict, time.perf_counter() - begun, detail)

    def _finding(self, answer: Answer, task: Task) -> Finding:
        if task.tests is None:
            raise ValueError("a code reward needs tests; this task has none")
        if len(answer.text) > 4 * _LONGEST_PROGRAM:
            return 0.0, Verdict.COMPILE_ERROR.value, f"an answer of {len(answer.text):,} characters"
        source = program_in(answer.text)
        if source is None:
            return 0.0, TRUNCATED if answer.truncated else NO_CODE, ""
        if len(source) > _LONGEST_PROGRAM:  # what a service refuses to read would be an answer that nobody scores
            return 0.0, Verdict.COMPILE_ERROR.value, f"longer than {_LONGEST_PROGRAM:,} characters"
        try:
            suite, name = self._asked(task.tests, task.strongest_tests, task.time_limit_seconds)
        except ValueError as error:
            return self._no_signal(TESTS_FAILED, error)
        key = name, sha256(source.encode("utf-8", "surrogatepass")).digest()
        return self._findings.get(key, lambda: self._judged(source, suite), lambda finding: finding[0] is not None)

    def _ask(self, tests: Suite, strongest: tuple[int, ...], limit_seconds: float | None) -> tuple[Suite, bytes]:
        """The tests that are run, with their limits, and a name for them."""
        suite = select(tests, self._select, budget=self._tests, strongest=strongest)
        seconds = suite.limits.wall_seconds if limit_seconds is None else limit_seconds
        seconds = min(max(seconds, self._least), self._most)
        suite = replace(suite, limits=replace(suite.limits, wall_seconds=seconds, cpu_seconds=None))
        return suite, sha256(suite.to_json().encode("utf-8", "surrogatepass")).digest()

    def _judged(self, source: str, suite: Suite) -> Finding:
        pause_seconds = _PAUSE_SECONDS
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                judgement = self._box.judge(Program(source), suite, run_all=self._run_all)
            except SandboxError as error:
                if attempt == _ATTEMPTS:
                    return self._no_signal(SANDBOX_FAILED, error)
                time.sleep(pause_seconds)
                pause_seconds *= 2
            except (ValueError, TypeError) as error:  # RefereeFailed is one; programs raise neither
                return self._no_signal(TESTS_FAILED, error)
            except Exception as error:  # the sandbox has a defect, and the completion found it
                log.exception("the sandbox raised what it should not")
                return self._no_signal(SANDBOX_FAILED, error)
            else:
                return self._worth(judgement), judgement.verdict.value, ""
        raise AssertionError("unreachable")

    def _worth(self, judgement: Judgement) -> float:
        return float(judgement.accepted)

    def _no_signal(self, verdict: str, error: Exception) -> Finding:
        words = f"{verdict}: {error}"
        if words != self._last_words:  # a sandbox that is gone says the same of each completion
            log.warning("no reward for a completion, %s", words)
        self._last_words = words
        return None, verdict, str(error)
