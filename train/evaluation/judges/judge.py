"""The interface of judges, and the judge that runs a test suite."""

from dataclasses import dataclass, replace
from typing import Any, Protocol

from rewards.extract import PYTHON_ONLY, select_languages
from rewards.reward import NO_CODE
from sandbox import Program, Sandbox, Suite
from train.evaluation.judges.extraction import DEFAULT_RULE, ExpectedProgram, extract_program, get_rule_identity


class NoVerdictError(Exception):
    """A failure of an exercise to judge a completion, which a retry cannot fix."""


@dataclass(frozen=True, slots=True)
class JudgeResult:
    """The verdict on a completion.

    verdict  value of sandbox.Verdict, or a verdict of rewards.reward for a completion without an answer or a program
    parts    (name, verdict) of each judged part of the tests; empty for tests without parts
    """

    verdict: str
    parts: tuple[tuple[str, str], ...] = ()


class Judge(Protocol):
    """A judge of one exercise's completions. Thread-safe."""

    @property
    def identity(self) -> list[Any]:
        """Return all inputs of a verdict except the completion, as JSON values."""
        ...

    def judge(self, completion: str, sandbox: Sandbox, *, time_factor: float = 1.0) -> JudgeResult:
        """Judge the text of a completion.

        Raises SandboxError if the sandbox fails, and NoVerdictError if the exercise cannot judge this completion.
        """
        ...


def build_extraction_identity(rule: str) -> list[list[str]]:
    """Return the extraction rule's part of a judge's identity; empty for the default rule."""
    return [] if rule == DEFAULT_RULE else [["extraction", get_rule_identity(rule)]]


@dataclass(frozen=True, slots=True)
class SuiteJudge:
    """A judge that accepts a completion if its program passes all tests of a suite.

    languages   accepted languages of programs; see rewards.extract
    extraction  rule that extracts the program: one of extraction.RULES
    prompt      beginning of the program in the prompt; empty: none
    """

    suite: Suite
    languages: tuple[str, ...] = PYTHON_ONLY
    extraction: str = DEFAULT_RULE
    prompt: str = ""

    @property
    def identity(self) -> list[Any]:
        # The two empty texts keep earlier cache keys valid.
        languages = [self.languages] if self.languages != PYTHON_ONLY else []
        return [self.suite.with_trials(()).to_json(), "", "", *languages, *build_extraction_identity(self.extraction)]

    def extract_program(self, completion: str) -> Program | None:
        """Extract the program from a completion; None if there is none."""
        languages = select_languages(self.suite, self.languages)
        expected = ExpectedProgram(languages, self.suite.called_names, self.prompt)
        return extract_program(self.extraction, completion, expected)

    def judge(self, completion: str, sandbox: Sandbox, *, time_factor: float = 1.0) -> JudgeResult:
        program = self.extract_program(completion)
        if program is None:
            return JudgeResult(NO_CODE)
        suite = self.suite
        if time_factor != 1:
            suite = replace(suite, limits=suite.limits.with_time_factor(time_factor))
        return JudgeResult(sandbox.judge(program, suite).verdict.value)
