"""A problem as a model sees it, and how its answers are judged."""

import hashlib
import json
from dataclasses import dataclass

from curate.prompt import Chat
from sandbox import Sandbox
from train.evaluation.judges.judge import Judge, JudgeResult
from train.evaluation.statistics.outcomes import ProblemMetadata

UNKNOWN_METADATA = ProblemMetadata()


@dataclass(frozen=True, slots=True)
class Exercise:
    """A problem, its judge, and what is known about it.

    prompt         messages, of which a last one of the assistant's is continued, or plain text that is continued
    answer_prefix  text before an answer that is judged with it: what the model continued of its own message or program
    answer_suffix  text after an answer that is judged with it, such as the end of a block that a stop cut off
    """

    id: str
    prompt: Chat | str
    judge: Judge
    metadata: ProblemMetadata = UNKNOWN_METADATA
    answer_prefix: str = ""
    answer_suffix: str = ""

    @property
    def fingerprint(self) -> str:
        """Return a digest of everything that an answer and its verdict depend on, except the model and its sampling."""
        around = [[self.answer_prefix, self.answer_suffix]] if self.answer_prefix or self.answer_suffix else []
        identity = [self.id, self.prompt, *self.judge.identity, *around]
        return hashlib.sha256(json.dumps(identity).encode()).hexdigest()[:32]

    def judged_text(self, answer: str) -> str:
        """Return the text that the judge sees for an answer."""
        return self.answer_prefix + answer + self.answer_suffix

    def judge_answer(self, answer: str, sandbox: Sandbox) -> JudgeResult:
        """Judge an answer. Raises SandboxError and NoVerdictError as the judge does."""
        return self.judge.judge(self.judged_text(answer), sandbox)
