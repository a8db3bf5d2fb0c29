"""The program in an answer must pass all tests of a suite in the sandbox."""

from dataclasses import dataclass
from typing import Any

from rewards.extract import PYTHON_ONLY, languages_for
from rewards.reward import NO_CODE
from sandbox import Program, Sandbox, Suite
from train.evaluation.extraction.registry import DEFAULT, extract_program, rule_identity
from train.evaluation.judges.judge import JudgeResult


@dataclass(frozen=True, slots=True)
class SuiteJudge:
    """languages   the languages that an answer may be written in; see rewards.extract
    extraction  how the program is found in an answer: see extraction/
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
