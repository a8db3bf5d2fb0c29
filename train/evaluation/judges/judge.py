"""What every judge offers and returns, the judge by a suite of tests, and the rules that find programs in answers.

The rules have the names that users type; only our own knows languages other than Python:

curate    ours, by which training finds the program, too: see rewards/extract/program.py
lcb       LiveCodeBench's: of the lines with three backticks in them, what stands between the last two
evalplus  EvalPlus's for answers in Markdown: the first block of Python, or the last one after the model's thoughts
whole     the whole text, for models that continue the text of a program
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from rewards.extract import PYTHON_ONLY, extract_submission, languages_for
from rewards.extract.code_blocks import PYTHON, parse_code_blocks
from rewards.reward import NO_CODE
from sandbox import Program, Sandbox, Suite

_THOUGHT_ENDS = "</think>"


def _between_last_fences(answer: str, languages: tuple[str, ...]) -> Program | None:
    lines = answer.split("\n")
    fences = [number for number, line in enumerate(lines) if "```" in line]
    if len(fences) < 2:
        return None
    return _whole_text("\n".join(lines[fences[-2] + 1 : fences[-1]]), languages)


def _markdown_block(answer: str, languages: tuple[str, ...]) -> Program | None:
    """Blocks without a language are taken for Python where no block names Python.

    EvalPlus then keeps only the imports and definitions that the function needs, the first definition of a name, and no
    function without `return`; we run the block as it is.
    """
    _, thought_ends, rest = answer.rpartition(_THOUGHT_ENDS)
    found = parse_code_blocks(rest)
    named = [block for block in found if block.language == PYTHON] or [block for block in found if not block.language]
    return Program(named[-1 if thought_ends else 0].source) if named else None


def _whole_text(answer: str, languages: tuple[str, ...]) -> Program | None:
    return Program(answer) if answer.strip() else None


DEFAULT_RULE = "curate"
_RULES: dict[str, Callable[[str, tuple[str, ...]], Program | None]] = {
    DEFAULT_RULE: extract_submission,
    "lcb": _between_last_fences,
    "evalplus": _markdown_block,
    "whole": _whole_text,
}
RULES = tuple(_RULES)


def extract_program(rule: str, answer: str, languages: tuple[str, ...]) -> Program | None:
    """Return the program in an answer; None if there is none.

    rule       the name of the rule
    languages  the languages that the answer may be written in
    """
    return _RULES[rule](answer, languages)


def rule_identity(rule: str) -> list[list[str]]:
    """Return JSON values by which verdicts under this rule are told apart; nothing for the default rule."""
    return [] if rule == DEFAULT_RULE else [["extraction", rule]]


class NoVerdictError(Exception):
    """Nothing is known about an answer, for a reason that lies in the exercise; another attempt would end the same."""


@dataclass(frozen=True, slots=True)
class JudgeResult:
    """The verdict on an answer.

    verdict   "accepted", another value of sandbox.Verdict, or a word of rewards.reward: there was nothing to judge
    parts     verdicts on the parts of the tests that were judged, by name, where a suite has such parts
    """

    verdict: str
    parts: tuple[tuple[str, str], ...] = ()


class Judge(Protocol):
    """Judges answers to one exercise. Many threads call it at once."""

    @property
    def identity(self) -> list[Any]:
        """JSON values that name all that a verdict depends on, except the answer."""
        ...

    def judge(self, answer: str, sandbox: Sandbox) -> JudgeResult:
        """Judge the text of an answer. Raises SandboxError and NoVerdictError: then nothing is known about the
        answer."""
        ...


@dataclass(frozen=True, slots=True)
class SuiteJudge:
    """The program in an answer must pass all tests of a suite.

    languages   the languages that an answer may be written in; see rewards.extract
    extraction  how the program is found in an answer: one of RULES
    """

    suite: Suite
    languages: tuple[str, ...] = PYTHON_ONLY
    extraction: str = DEFAULT_RULE

    @property
    def identity(self) -> list[Any]:
        # The empty texts keep the names of samples as they have been.
        languages = [self.languages] if self.languages != PYTHON_ONLY else []
        return [self.suite.with_trials(()).to_json(), "", "", *languages, *rule_identity(self.extraction)]

    def submission(self, answer: str) -> Program | None:
        """Return the program that is judged for an answer; None if the answer has no program."""
        return extract_program(self.extraction, answer, languages_for(self.suite, self.languages))

    def judge(self, answer: str, sandbox: Sandbox) -> JudgeResult:
        program = self.submission(answer)
        return JudgeResult(NO_CODE if program is None else sandbox.judge(program, self.suite).verdict.value)
