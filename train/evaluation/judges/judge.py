"""The interface of judges, and the judge by a suite of tests."""

from dataclasses import dataclass, replace
from typing import Any, Protocol

from rewards.extract import PYTHON_ONLY, languages_for
from rewards.reward import NO_CODE
from sandbox import Program, Sandbox, Suite
from train.evaluation.judges.extraction import DEFAULT_RULE, AskedProgram, extract_program, rule_identity


class NoVerdictError(Exception):
    """An answer has no verdict for a reason that lies in the exercise; a retry would end the same."""


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

    def judge(self, answer: str, sandbox: Sandbox, *, time_factor: float = 1.0) -> JudgeResult:
        """Judge the text of an answer.

        time_factor   by which the time limits of its programs are multiplied

        Raises SandboxError and NoVerdictError: then nothing is known about the answer.
        """
        ...


def extraction_identity(rule: str) -> list[list[str]]:
    """Return JSON values that name the rule of extraction in a judge's identity; nothing for the default rule."""
    return [] if rule == DEFAULT_RULE else [["extraction", rule_identity(rule)]]


@dataclass(frozen=True, slots=True)
class SuiteJudge:
    """The program in an answer must pass all tests of a suite.

    languages   the languages that an answer may be written in; see rewards.extract
    extraction  how the program is found in an answer: one of extraction.RULES
    prompt      the beginning of the program that the prompt gives; empty: none
    """

    suite: Suite
    languages: tuple[str, ...] = PYTHON_ONLY
    extraction: str = DEFAULT_RULE
    prompt: str = ""

    @property
    def identity(self) -> list[Any]:
        # The empty texts keep the names of samples as they have been.
        languages = [self.languages] if self.languages != PYTHON_ONLY else []
        return [self.suite.with_trials(()).to_json(), "", "", *languages, *extraction_identity(self.extraction)]

    def submission(self, answer: str) -> Program | None:
        """Return the program that is judged for an answer; None if the answer has no program."""
        languages = languages_for(self.suite, self.languages)
        asked = AskedProgram(languages, self.suite.called_names, self.prompt)
        return extract_program(self.extraction, answer, asked)

    def judge(self, answer: str, sandbox: Sandbox, *, time_factor: float = 1.0) -> JudgeResult:
        program = self.submission(answer)
        if program is None:
            return JudgeResult(NO_CODE)
        suite = self.suite
        if time_factor != 1:
            suite = replace(suite, limits=suite.limits.with_time_factor(time_factor))
        return JudgeResult(sandbox.judge(program, suite).verdict.value)
