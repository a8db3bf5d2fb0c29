"""What every judge offers and returns, and the judge by a suite of tests in the sandbox."""

from dataclasses import dataclass
from typing import Any, Protocol

from rewards.extract import PYTHON_ONLY, languages_for
from rewards.reward import NO_CODE
from sandbox import Program, Sandbox, Suite
from train.evaluation.extraction import DEFAULT, extract_program, rule_identity


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
    extraction  how the program is found in an answer: see train/evaluation/extraction.py
    """

    suite: Suite
    languages: tuple[str, ...] = PYTHON_ONLY
    extraction: str = DEFAULT

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
