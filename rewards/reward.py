"""What every reward takes and gives: a completion, what was asked, and what the one is worth for the other.

A reward is called as `reward(answer, task)` by any number of threads. None is worth nothing and costs nothing: it says
that nobody knows, as when the sandbox failed, and is never a zero.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

from sandbox import Suite

# Verdicts; those of programs are the sandbox's words, such as these two.
ACCEPTED, WRONG = "accepted", "wrong_answer"
NO_CODE = "no_code"
NO_ANSWER = "no_answer"
TRUNCATED = "truncated"  # cut off before there was anything to judge
SANDBOX_FAILED = "sandbox_failed"  # no signal
CHECKER_FAILED = "checker_failed"  # no signal
LATE = "late"  # no signal: there was none in time
TESTS_FAILED = "tests_failed"  # no signal: these tests cannot be judged by, or their own checker crashed


@dataclass(frozen=True, slots=True)
class Answer:
    """A completion of a model. n_tokens: all that it consists of; truncated: it was cut off, not ended."""

    text: str
    n_tokens: int
    truncated: bool = False

    def __post_init__(self) -> None:
        if self.n_tokens < 0:
            raise ValueError(f"n_tokens must be at least 0, not {self.n_tokens}")


@dataclass(frozen=True, slots=True)
class Task:
    """What was asked, as far as rewards look at it; each says which of these it needs.

    tests               of a program, with strongest_tests and time_limit_seconds as the columns of those names
    expected            the answer to a question of mathematics
    target_tokens       the length that the prompt asks for
    max_tokens          at which an answer is cut off
    """

    tests: Suite | None = None
    strongest_tests: tuple[int, ...] = ()
    time_limit_seconds: float | None = None
    expected: str = ""
    target_tokens: int | None = None
    max_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Reward:
    """value: None where nothing is known; detail then says why, for people. verdict: a fixed word that is counted.
    seconds: that scoring took."""

    value: float | None
    verdict: str
    seconds: float = 0.0
    detail: str = ""

    def __post_init__(self) -> None:
        if self.value is not None and not math.isfinite(self.value):
            raise ValueError(f"a reward is a finite number, or None where nothing is known, not {self.value}")


# Raises ValueError where the task lacks what the reward looks at.
Score = Callable[[Answer, Task], Reward]
