"""The interface of rewards: functions of a completion and its task that return a Reward.

Any number of threads may call `reward(completion, task)`. A value of None means that the reward is unknown, such as
after a failure of the sandbox. Callers must not replace it by zero.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

from rewards.argument_checks import check_int, check_number, check_str
from sandbox import Suite, Verdict

# Verdicts on programs are the values of sandbox.Verdict. Rewards may give these four without the sandbox:
ACCEPTED = Verdict.ACCEPTED.value
WRONG_ANSWER = Verdict.WRONG_ANSWER.value
TIME_LIMIT = Verdict.TIME_LIMIT.value
COMPILE_ERROR = Verdict.COMPILE_ERROR.value
# The completion has nothing to judge:
NO_CODE = "no_code"
NO_ANSWER = "no_answer"
TRUNCATED = "truncated"  # the completion ends before its program or its answer
# The reward is unknown:
SANDBOX_FAILED = "sandbox_failed"
CHECKER_FAILED = "checker_failed"
TESTS_FAILED = "tests_failed"  # the tests cannot be used, or their referee crashed
SCORING_TIMEOUT = "late"


@dataclass(frozen=True, slots=True)
class Completion:
    """A model's output for one prompt.

    text        without special tokens
    n_tokens    length of the whole completion, in tokens
    truncated   whether the completion was cut off at its maximum length
    """

    text: str
    n_tokens: int
    truncated: bool = False

    def __post_init__(self) -> None:
        check_str("Completion.text", self.text)
        check_int("Completion.n_tokens", self.n_tokens, minimum=0)


@dataclass(frozen=True, slots=True)
class Task:
    """The task of a completion. Each reward documents the fields that it needs.

    tests                the tests that a program must pass
    strongest_tests      indices of tests that kill mutants, the strongest first, from the column of this name
    time_limit_seconds   the problem's calibrated limit for one test, from the column of this name
    expected             the right answer to a math problem
    id                   the id of the task in its dataset
    prompt               the text of the last message of the prompt
    target_tokens        the target length that the prompt states
    max_tokens           the maximum length of completions
    """

    tests: Suite | None = None
    strongest_tests: tuple[int, ...] = ()
    time_limit_seconds: float | None = None
    expected: str = ""
    target_tokens: int | None = None
    max_tokens: int | None = None
    id: str = ""
    prompt: str = ""

    def __post_init__(self) -> None:
        if self.tests is not None and not isinstance(self.tests, Suite):
            advice = "; call Suite.from_json(text) for the text of a column" if isinstance(self.tests, str) else ""
            raise TypeError(f"Task.tests must be a Suite, not {type(self.tests).__name__}{advice}")
        check_str("Task.expected", self.expected)


@dataclass(frozen=True, slots=True)
class Reward:
    """The reward of a completion.

    value     None if the reward is unknown
    verdict   a machine-readable reason, which metrics count
    seconds   wall time of the scoring
    detail    explanation of an unknown reward or a wrong completion, for users
    parts     name and unweighted value of each reward in a weighted sum; nan if unknown or not called
    steps     (end, reward) of each step of the completion, in order, for process supervision; end is the offset in
              characters
    """

    value: float | None
    verdict: str
    seconds: float = 0.0
    detail: str = ""
    parts: tuple[tuple[str, float], ...] = ()
    steps: tuple[tuple[int, float], ...] = ()

    def __post_init__(self) -> None:
        if self.value is not None and not math.isfinite(self.value):
            raise ValueError(f"a reward must be a finite number, or None if it is unknown, not {self.value}")
        if self.steps:
            _check_steps(self.steps)


def _check_steps(steps: tuple[tuple[int, float], ...]) -> None:
    """Raise ValueError unless each step has a finite reward and ends at or after the one before it."""
    for index, (end, value) in enumerate(steps):
        check_int("the end of a step", end, minimum=steps[index - 1][0] if index else 0)
        check_number("the reward of a step", value)


# A reward as a function. It raises ValueError if the task lacks a field that the reward needs.
RewardCallable = Callable[[Completion, Task], Reward]
