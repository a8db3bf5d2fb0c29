"""Whether the final answer to a question of mathematics is the expected one, as math-verify compares them: 1.0 or 0.0.

The final answer is the last complete `\\boxed{...}` behind the thought; without one, what stands in the one pair of
`<answer>` tags. Both sides are read as LaTeX, so 0.5, 1/2 and \\frac{2}{4} are the same.

An answer that takes too long to compare is wrong: models write towers of powers. An expected answer that cannot be
read, unless the given one is the same text, and a comparison that dies of something else give no signal.
"""

import os
import re
import time
from importlib.util import find_spec
from types import TracebackType
from typing import Self

from rewards.format import ANSWER, ANSWERED
from rewards.mathematics.processes import CheckerLost, Comparer, Comparison
from rewards.reward import ACCEPTED, CHECKER_FAILED, NO_ANSWER, TESTS_FAILED, TRUNCATED, WRONG, Answer, Reward, Task
from rewards.thought import behind_thought
from sandbox.concurrency.once import Once

_BOXED = r"\boxed"
_BRACES = re.compile(r"\\boxed\s*+\{|\\.|[{}]", re.DOTALL)
_LONGEST = 4096  # characters; nobody expects more
_REMEMBERED = 10_000

Finding = tuple[float | None, str, str]  # value, verdict and detail
_FINDINGS: dict[Comparison, Finding] = {
    Comparison.RIGHT: (1.0, ACCEPTED, ""),
    Comparison.WRONG: (0.0, WRONG, ""),
    Comparison.TOO_SLOW: (0.0, "time_limit", ""),
    Comparison.UNREADABLE: (None, TESTS_FAILED, "the expected answer cannot be read"),
}


class MathAnswer:
    """Use it as a context manager or call close(): it has processes. They are `processes` at most, by default one for
    each processor.

    Raises ModuleNotFoundError where math-verify is not installed and, called, ValueError for a task without an expected
    answer.
    """

    def __init__(self, processes: int | None = None) -> None:
        if processes is not None and processes < 1:
            raise ValueError(f"processes must be at least 1, not {processes}")
        if find_spec("math_verify") is None:
            raise ModuleNotFoundError(
                "the reward for mathematics needs math-verify; type: pip install 'curate-code[math]'"
            )
        self._comparer = Comparer(processes or len(os.sched_getaffinity(0)))
        self._findings: Once[Finding] = Once(_REMEMBERED)

    def __call__(self, answer: Answer, task: Task) -> Reward:
        begun = time.perf_counter()
        value, verdict, detail = self._finding(answer, task)
        return Reward(value, verdict, time.perf_counter() - begun, detail)

    def close(self) -> None:
        self._comparer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _finding(self, answer: Answer, task: Task) -> Finding:
        if not task.expected.strip():
            raise ValueError("a reward for mathematics needs an expected answer; this task has none")
        given = final_answer(answer.text)
        if given is None:
            return 0.0, TRUNCATED if answer.truncated else NO_ANSWER, ""
        if len(given) > _LONGEST:
            return 0.0, WRONG, ""
        expected = _bare(task.expected)
        return self._findings.get(
            (expected, given), lambda: self._compared(expected, given), lambda finding: finding[0] is not None
        )

    def _compared(self, expected: str, given: str) -> Finding:
        try:
            return _FINDINGS[self._comparer.compare(expected, given)]
        except CheckerLost as error:
            return None, CHECKER_FAILED, str(error)


def final_answer(text: str) -> str | None:
    """LaTeX of the final answer; None: there is none. Takes linear time on any text."""
    said = behind_thought(text, lambda text: _final(text) is not None)
    return None if said is None else _final(said)


def _final(text: str) -> str | None:
    final = _last_boxed(text)
    if final is None and text.count(ANSWER) == text.count(ANSWERED) == 1:
        final = text.partition(ANSWER)[2].partition(ANSWERED)[0]
    return None if final is None else _bare(final) or None


def _last_boxed(text: str) -> str | None:
    """Of boxes within boxes, the outermost. One that nobody closed is the beginning of an answer, not an answer."""
    opened: list[int | None] = []  # for each brace that is open, where the content begins if it is a box's
    last: tuple[int, int] | None = None
    for match in _BRACES.finditer(text):
        if match[0] == "{":
            opened.append(None)
        elif match[0].startswith(_BOXED):
            opened.append(match.end())
        elif match[0] == "}" and opened:
            begin = opened.pop()
            last = last if begin is None else (begin, match.start())
    return None if last is None else text[slice(*last)]


def _bare(latex: str) -> str:
    """Without the signs that say that it is mathematics, or the box, around all of it."""
    latex = latex.strip()
    if (boxed := _last_boxed(latex)) is not None:
        latex = boxed.strip()
    for begin, end in (("$$", "$$"), ("$", "$"), (r"\(", r"\)"), (r"\[", r"\]")):
        if latex.startswith(begin) and latex.endswith(end) and len(latex) >= len(begin) + len(end):
            latex = latex[len(begin) : -len(end)].strip()
    return latex
