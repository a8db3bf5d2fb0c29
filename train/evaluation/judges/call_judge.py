"""The function in an answer must return what the reference returns, by EvalPlus's rules.

The tests of a task come in parts, the base inputs and the plus inputs. Each part is one run in the sandbox: the
function of the answer is called with the inputs, and what it returns leaves the sandbox and is compared outside it (see
call_run.py and evalplus_rules.py). An answer is right if all parts are. The first part that is not ends the judging.

No call may take more CPU time than CALL_SECONDS, and all calls of a part no more than MAX_SECONDS, or FACTOR times
what the reference takes if that is more.
"""

from dataclasses import dataclass
from typing import Any

from rewards.extract import PYTHON_ONLY
from rewards.reward import NO_CODE
from sandbox import Sandbox, Verdict
from train.evaluation.extraction.registry import DEFAULT, extract_program, rule_identity
from train.evaluation.judges.call_run import MAX_SECONDS, MEMORY_MB, run_calls
from train.evaluation.judges.evalplus_rules import first_mismatch_index
from train.evaluation.judges.judge import JudgeResult
from train.evaluation.judges.reference_outputs import Reference, expected_outputs

CALL_SECONDS = 1.0  # as in EvalPlus 0.3.1, and when its published verdicts were made; since April 2025 it is 4.0
FACTOR = 4.0
_MAX_PROGRAM_BYTES = 4 << 20  # characters


@dataclass(frozen=True, slots=True)
class SuitePart:
    """A part of a task's tests. `digest` is reference.digest."""

    name: str
    reference: Reference
    digest: str

    @classmethod
    def of(cls, name: str, reference: Reference) -> "SuitePart":
        return cls(name, reference, reference.digest)


@dataclass(frozen=True, slots=True)
class CallJudge:
    """parts       the parts of the tests, in the order in which they are judged
    tolerance   absolute tolerance for floats; 0: see evalplus_rules.py
    preamble    code that runs before an answer; empty: an answer has to import what it needs
    extraction  how the program is found in an answer: see extraction/
    """

    parts: tuple[SuitePart, ...]
    tolerance: float = 0.0
    preamble: str = ""
    extraction: str = DEFAULT

    @property
    def identity(self) -> list[Any]:
        limits = [CALL_SECONDS, MAX_SECONDS, FACTOR, *MEMORY_MB]
        parts = [[part.name, part.digest] for part in self.parts]
        return ["calls", parts, self.tolerance, self.preamble, limits, *rule_identity(self.extraction)]

    def judge(self, answer: str, sandbox: Sandbox) -> JudgeResult:
        program = extract_program(self.extraction, answer, PYTHON_ONLY)
        return JudgeResult(NO_CODE) if program is None else self.judge_program(program.source, sandbox)

    def judge_program(self, program: str, sandbox: Sandbox) -> JudgeResult:
        """Judge a program. Raises SandboxError, and NoVerdictError if the reference itself fails."""
        if len(program) > _MAX_PROGRAM_BYTES:
            return JudgeResult(Verdict.COMPILE_ERROR.value)
        verdicts: list[tuple[str, str]] = []
        for part in self.parts:
            verdict = self.judge_part(part, program, sandbox)
            verdicts.append((part.name, verdict.value))
            if verdict is not Verdict.ACCEPTED:
                break
        return JudgeResult(verdicts[-1][1], tuple(verdicts))

    def judge_part(self, part: SuitePart, program: str, sandbox: Sandbox) -> Verdict:
        """Return the verdict of one part on a program. Raises as rule_program does."""
        reference = part.reference
        expected = expected_outputs(reference, part.digest, sandbox)
        limits = [max(CALL_SECONDS, FACTOR * output.cpu_seconds) for output in expected]
        max_seconds = max(MAX_SECONDS, FACTOR * sum(output.cpu_seconds for output in expected))
        calls = run_calls(
            [self.preamble, program],
            reference.entry_point,
            reference.inputs,
            limits,
            sandbox,
            max_seconds=max_seconds,
        )
        wrong = first_mismatch_index(reference.entry_point, self.tolerance, reference.inputs, calls.outputs, expected)
        return calls.verdict if wrong is None else Verdict.WRONG_ANSWER
