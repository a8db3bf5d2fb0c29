"""1.0 if the final answer to a mathematical question equals the expected one, as math-verify compares them, else 0.0.

The final answer is the last complete `\\boxed{...}` after the thought or, if there is none, the number in the last
`\\boxed 33`, or the content of the only pair of `<answer>` tags. A full stop at its end does not belong to it. Both
sides are read as LaTeX, so 0.5, 1/2 and \\frac{2}{4} are equal.

An answer that takes too long to compare is wrong, since models write towers of powers. The reward is unknown if the
expected answer cannot be read and the given one is not the same text, or if a comparison dies for any other reason.
"""

import re
import time
from dataclasses import replace
from importlib.util import find_spec
from types import TracebackType
from typing import Self

from rewards.argument_checks import check_int
from rewards.errors import CheckerLost
from rewards.extract.thinking import strip_thinking
from rewards.format import ANSWER_BEGIN, ANSWER_END
from rewards.mathematics.answer_comparer import AnswerComparer, ComparisonResult
from rewards.reward import (
    ACCEPTED,
    CHECKER_FAILED,
    NO_ANSWER,
    TESTS_FAILED,
    TIME_LIMIT,
    TRUNCATED,
    WRONG_ANSWER,
    Completion,
    Reward,
    Task,
)
from sandbox import machine
from sandbox.concurrency.single_flight import SingleFlightCache
from sandbox.extras import install_command

__all__ = ["MathReward", "extract_final_answer"]

_BOXED = r"\boxed"
_BRACES = re.compile(r"\\boxed\s*+\{|\\.|[{}]", re.DOTALL)
_BOXED_NUMBER = re.compile(r"\\boxed[ \t]++([+-]?(?:\d++(?:\.\d++)?+|\.\d++))")
_MATH_SIGNS = (("$$", "$$"), ("$", "$"), (r"\(", r"\)"), (r"\[", r"\]"))
_MAX_ANSWER = 4096  # characters; no expected answer is longer
_CACHE_SIZE = 10_000
_REWARDS = {
    ComparisonResult.RIGHT: Reward(1.0, ACCEPTED),
    ComparisonResult.WRONG: Reward(0.0, WRONG_ANSWER),
    ComparisonResult.TOO_SLOW: Reward(0.0, TIME_LIMIT),
    ComparisonResult.UNREADABLE: Reward(None, TESTS_FAILED, detail="the expected answer cannot be read"),
}


class MathReward:
    """Compares answers in processes of its own. Use it as a context manager, or call close().

    processes   the most processes; by default one for each processor that this process may keep busy

    Raises ModuleNotFoundError if math-verify is not installed and, when called, ValueError for a task without an
    expected answer.
    """

    def __init__(self, processes: int | None = None) -> None:
        if processes is not None:
            check_int("processes", processes)
        if find_spec("math_verify") is None:
            raise ModuleNotFoundError(f"the reward for mathematics needs math-verify; type: {install_command('math')}")
        self._comparer = AnswerComparer(processes or machine.cpu_count())
        self._compared: SingleFlightCache[Reward] = SingleFlightCache(_CACHE_SIZE)

    def __call__(self, answer: Completion, task: Task) -> Reward:
        begun = time.perf_counter()
        reward = self._score(answer, task)
        return replace(reward, seconds=time.perf_counter() - begun)

    def close(self) -> None:
        self._comparer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _score(self, answer: Completion, task: Task) -> Reward:
        if not task.expected.strip():
            raise ValueError("a reward for mathematics needs an expected answer; this task has none")
        given = extract_final_answer(answer.text)
        if given is None:
            return Reward(0.0, TRUNCATED if answer.truncated else NO_ANSWER)
        if len(given) > _MAX_ANSWER:
            return Reward(0.0, WRONG_ANSWER)
        expected = _bare(task.expected)
        return self._compared.get((expected, given), lambda: self._compare(expected, given), _is_known)

    def _compare(self, expected: str, given: str) -> Reward:
        try:
            return _REWARDS[self._comparer.compare(expected, given)]
        except CheckerLost as error:
            return Reward(None, CHECKER_FAILED, detail=str(error))


def _is_known(reward: Reward) -> bool:
    return reward.value is not None


def extract_final_answer(text: str) -> str | None:
    """Return the LaTeX of the final answer, or None if there is no answer. Takes linear time on any text."""
    text_without_thoughts = strip_thinking(text, lambda part: _last_answer(part) is not None)
    return None if text_without_thoughts is None else _last_answer(text_without_thoughts)


def _last_answer(text: str) -> str | None:
    latex = _last_boxed(text)
    if latex is None and (numbers := _BOXED_NUMBER.findall(text)):
        latex = numbers[-1]
    if latex is None and text.count(ANSWER_BEGIN) == text.count(ANSWER_END) == 1:
        latex = text.partition(ANSWER_BEGIN)[2].partition(ANSWER_END)[0]
    return None if latex is None else _bare(latex) or None


def _last_boxed(text: str) -> str | None:
    """Return the content of the last box, the outermost one if boxes are nested. An unclosed box does not count."""
    open_braces: list[int | None] = []  # for each open brace of a box, where its content begins; None for other braces
    last: tuple[int, int] | None = None
    for match in _BRACES.finditer(text):
        if match[0] == "{":
            open_braces.append(None)
        elif match[0].startswith(_BOXED):
            open_braces.append(match.end())
        elif match[0] == "}" and open_braces:
            begin = open_braces.pop()
            last = last if begin is None else (begin, match.start())
    return None if last is None else text[slice(*last)]


def _bare(latex: str) -> str:
    """Return LaTeX without the box and the delimiters of mathematics that enclose all of it, and without the full stop
    at its end."""
    latex = _without_stop(latex)
    if (boxed := _last_boxed(latex)) is not None:
        latex = _without_stop(boxed)
    for begin, end in _MATH_SIGNS:
        if latex.startswith(begin) and latex.endswith(end) and len(latex) >= len(begin) + len(end):
            latex = _without_stop(latex[len(begin) : -len(end)])
    return latex


def _without_stop(latex: str) -> str:
    latex = latex.strip()
    return latex if latex.endswith("..") else latex.removesuffix(".").rstrip()
