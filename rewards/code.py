"""DeepCoder's outcome reward: 1.0 if the program in the completion passes every selected test, else 0.0.

It gives no partial credit, because a model with rewards for some of the tests learns to print the outputs in the
prompt.
"""

import logging
import time
from dataclasses import dataclass, replace
from functools import lru_cache
from hashlib import sha256

from rewards.argument_checks import check_bool, check_number
from rewards.case_selection import DEFAULT_MAX_CASES, check_strategy, select_cases
from rewards.extract import PYTHON_ONLY, check_languages, extract_submission, select_languages
from rewards.reward import COMPILE_ERROR, NO_CODE, SANDBOX_FAILED, TESTS_FAILED, TRUNCATED, Completion, Reward, Task
from sandbox import Judgement, Program, Sandbox, SandboxError, Suite
from sandbox.concurrency.single_flight import SingleFlightCache

log = logging.getLogger(__name__)

_ATTEMPTS = 3  # attempts to judge a program, in addition to the retries of the backend
_FIRST_BACKOFF_SECONDS = 0.2  # before the second attempt; doubled before the third
_CACHE_SIZE = 10_000  # rewards, each of a few hundred bytes
_MAX_PROGRAM_CHARACTERS = 4 << 20  # as JSON, below the maximum request size of a service
_SELECTION_CACHE_SIZE = 32  # tasks; a trainer scores the completions of a group together


@dataclass(frozen=True, slots=True)
class _SelectedTests:
    suite: Suite
    digest: bytes


class CodeReward:
    """A reward for programs, judged in a sandbox that the caller opens and closes.

    box               the sandbox
    select            strategy that selects a problem's tests; see case_selection.py
    tests             maximum number of tests, unless `select` is "all"
    min_test_seconds  lower bound of a test's limit in wall and CPU seconds
    max_test_seconds  upper bound of that limit. Within the bounds, the limit is the problem's calibrated
                      time_limit_seconds or, without one, the limit of the suite
    languages         allowed languages of labeled blocks, "python" and "cpp"; only Python if tests call functions
    labeled_only      whether to ignore unlabeled blocks, as in DeepCoder's paper

    Identical programs are judged once for the same tests. The reward is unknown if the sandbox fails three times or the
    tests cannot be used. No completion raises an exception.

    Raises TypeError or ValueError for invalid options and, when called, ValueError for a task without tests.
    """

    _run_all = False

    def __init__(
        self,
        box: Sandbox,
        *,
        select: str = "longest",
        tests: int = DEFAULT_MAX_CASES,
        min_test_seconds: float = 6.0,
        max_test_seconds: float = 12.0,
        languages: tuple[str, ...] = PYTHON_ONLY,
        labeled_only: bool = False,
    ) -> None:
        if not callable(getattr(box, "judge", None)):
            raise TypeError(f"box must be a Sandbox, not {type(box).__name__}: {type(self).__name__}(Sandbox())")
        check_strategy(select, tests, names=("select", "tests"))
        check_number("min_test_seconds", min_test_seconds, above=0)
        check_number("max_test_seconds", max_test_seconds, above=0)
        if not 0 < min_test_seconds <= max_test_seconds:
            raise ValueError(
                "min_test_seconds must be above 0 and at most max_test_seconds,"
                f" not {min_test_seconds} and {max_test_seconds}"
            )
        self._box = box
        check_bool("labeled_only", labeled_only)
        self._languages, self._labeled_only = check_languages("languages", languages), labeled_only
        self._select, self._tests = select, tests
        self._min_seconds, self._max_seconds = min_test_seconds, max_test_seconds
        self._selection = lru_cache(_SELECTION_CACHE_SIZE)(self._select_tests)
        self._rewards: SingleFlightCache[Reward] = SingleFlightCache(_CACHE_SIZE)
        self._last_warning = ""

    def __call__(self, completion: Completion, task: Task) -> Reward:
        begun = time.perf_counter()
        reward = self._score(completion, task)
        return replace(reward, seconds=time.perf_counter() - begun)

    def _score(self, completion: Completion, task: Task) -> Reward:
        if task.tests is None:
            raise ValueError("a code reward needs tests; this task has none")
        if len(completion.text) > 4 * _MAX_PROGRAM_CHARACTERS:
            return Reward(0.0, COMPILE_ERROR, detail=f"a completion of {len(completion.text):,} characters")
        languages = select_languages(task.tests, self._languages)
        program = extract_submission(completion.text, languages, labeled_only=self._labeled_only)
        if program is None:
            return Reward(0.0, TRUNCATED if completion.truncated else NO_CODE)
        # A service would reject the request, so the reward would be unknown.
        if len(program.source) > _MAX_PROGRAM_CHARACTERS:
            return Reward(0.0, COMPILE_ERROR, detail=f"longer than {_MAX_PROGRAM_CHARACTERS:,} characters")
        try:
            selection = self._selection(task.tests, task.strongest_tests, task.time_limit_seconds)
        except ValueError as error:
            return self._report_unknown(TESTS_FAILED, error)
        key = selection.digest, _hash_text(f"{program.language} {program.source}")
        return self._rewards.get(key, lambda: self._judge(program, selection.suite), _is_known)

    def _select_tests(self, tests: Suite, strongest: tuple[int, ...], limit_seconds: float | None) -> _SelectedTests:
        suite = select_cases(tests, self._select, budget=self._tests, strongest=strongest)
        seconds = suite.limits.wall_seconds if limit_seconds is None else limit_seconds
        seconds = min(max(seconds, self._min_seconds), self._max_seconds)
        suite = replace(suite, limits=replace(suite.limits, wall_seconds=seconds, cpu_seconds=None))
        return _SelectedTests(suite, _hash_text(suite.to_json()))

    def _judge(self, program: Program, suite: Suite) -> Reward:
        backoff_seconds = _FIRST_BACKOFF_SECONDS
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                judgement = self._box.judge(program, suite, run_all=self._run_all)
            except SandboxError as error:
                if attempt == _ATTEMPTS:
                    return self._report_unknown(SANDBOX_FAILED, error)
                time.sleep(backoff_seconds)
                backoff_seconds *= 2
            # Only the tests can cause these, such as RefereeError.
            except (ValueError, TypeError) as error:
                return self._report_unknown(TESTS_FAILED, error)
            # A defect of the sandbox must not stop training.
            except Exception as error:
                log.exception("the sandbox raised an unexpected exception")
                return self._report_unknown(SANDBOX_FAILED, error)
            else:
                return Reward(self._compute_value(judgement), judgement.verdict.value)
        raise AssertionError("unreachable")

    def _compute_value(self, judgement: Judgement) -> float:
        return float(judgement.accepted)

    def _report_unknown(self, verdict: str, error: Exception) -> Reward:
        warning = f"{verdict}: {error}"
        # A broken sandbox fails in the same way for every completion.
        if warning != self._last_warning:
            log.warning("the reward of a completion is unknown, %s", warning)
        self._last_warning = warning
        return Reward(None, verdict, detail=str(error))


class PartialReward(CodeReward):
    """The share of passed tests, from 0.0 to 1.0; otherwise like CodeReward.

    Use it only for analysis. In training, a model learns to print the most common output, or the outputs of the
    examples in the statement.
    """

    _run_all = True

    def _compute_value(self, judgement: Judgement) -> float:
        return judgement.pass_rate


def _hash_text(text: str) -> bytes:
    return sha256(text.encode("utf-8", "surrogatepass")).digest()


def _is_known(reward: Reward) -> bool:
    return reward.value is not None
