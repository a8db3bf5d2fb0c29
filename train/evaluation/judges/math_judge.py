"""The judge of final answers in mathematics.

An answer must equal the expected answer: as an integer if the problem requires an integer, otherwise by math-verify, as
in the mathematics reward. All exercises share one sandbox for the comparisons.
"""

import re
from dataclasses import dataclass
from functools import cache
from typing import Any

from rewards import Completion, MathReward, Task
from rewards.extract.thinking import strip_thinking
from rewards.mathematics import extract_final_answer
from rewards.reward import ACCEPTED, NO_ANSWER, WRONG_ANSWER
from sandbox import Sandbox
from train.evaluation.judges.judge import JudgeResult, NoVerdictError

_MAX_CHARS = 100  # maximum length of an answer that may be an integer
_IGNORED = re.compile(r"\\[,;:! ]|\\(?:text|mathrm|mathbf|textbf|boxed)\b|\^\\circ|\^\{\\circ\}|\\degree|°|[${}\s]")
_BETWEEN_DIGITS = re.compile(r"(?<=\d)\s+(?=\d)")
_NAMED = re.compile(r"(?:\\?[A-Za-z]+(?:[+\-][A-Za-z]+)*=)?(.*)", re.DOTALL)
_ANSWER_LINE = re.compile(r"^[ \t*]*+ANSWER:(.*[^\s*].*)$", re.MULTILINE | re.IGNORECASE)
_NUMBER = re.compile(r"([+-]?)(\d{1,3}(?:,\d{3})+|\d+)(?:\.0*)?", re.ASCII)


def parse_integer(latex: str) -> int | None:
    r"""Parse an answer of exactly one integer, such as 033, 33.0, 33^\circ, \text{33}, n = 33 or 1{,}033.

    Return None for other answers, such as "33, 34" and "33 or 34".
    """
    if len(latex) > _MAX_CHARS:
        return None
    named = _NAMED.fullmatch(_IGNORED.sub("", _BETWEEN_DIGITS.sub(";", latex)))
    number = named and _NUMBER.fullmatch(named[1])
    return int(number[1] + number[2].replace(",", "")) if number else None


@dataclass(frozen=True, slots=True)
class MathJudge:
    """A judge that compares a completion's final answer with the expected answer.

    expected         correct answer, in LaTeX
    expects_integer  whether to compare integers directly, without math-verify
    answer_line      whether the final answer is in the last line `ANSWER: ...` instead of a box
    """

    expected: str
    expects_integer: bool = False
    answer_line: bool = False

    @property
    def identity(self) -> list[Any]:
        return ["mathematics", self.expected, self.expects_integer, *(["line"] if self.answer_line else [])]

    def judge(self, completion: str, sandbox: Sandbox, *, time_factor: float = 1.0) -> JudgeResult:
        if self.answer_line:
            completion = _box_answer_line(completion)
        given = extract_final_answer(completion)
        if given is None:
            return JudgeResult(NO_ANSWER)
        number = parse_integer(given) if self.expects_integer else None
        if number is not None:
            return JudgeResult(ACCEPTED if number == parse_integer(self.expected) else WRONG_ANSWER)
        reward = _get_math_reward()(Completion(completion, n_tokens=0), Task(expected=self.expected))
        if reward.value is None:
            raise NoVerdictError(reward.detail)
        return JudgeResult(reward.verdict)


def _box_answer_line(completion: str) -> str:
    """Put the answer of the last answer line into a box; without such a line, return the completion."""
    text = strip_thinking(completion, lambda rest: _ANSWER_LINE.search(rest) is not None) or ""
    lines = _ANSWER_LINE.findall(text)
    return f"\\boxed{{{lines[-1].strip(' *')}}}" if lines else completion


@cache
def _get_math_reward() -> MathReward:
    return MathReward()
