"""A sample as `OUT.samples.jsonl` keeps it: a line with the answer and, once it is judged, its verdict."""

from dataclasses import dataclass, replace

from curate.json_records import omit_if_default
from train.evaluation.judges.judge import JudgeResult
from train.evaluation.sample_and_judge import ModelOutput


@dataclass(frozen=True, slots=True)
class SampleRecord:
    """One sample of the exercise `id`.

    reasoning        thinking that a server returned apart from the text
    n_prompt_tokens  length of the prompt; 0: it is not known
    verdict          "" while it is not known
    parts            the verdicts on the parts of the tests, where these have parts
    judge_digest     a digest of all that the verdict depends on, except the answer; "" in lines of earlier versions,
                     whose keys name the judge
    """

    id: str
    number: int
    text: str
    n_tokens: int
    truncated: bool
    verdict: str
    parts: tuple[tuple[str, str], ...] = omit_if_default(())
    reasoning: str = omit_if_default("")
    n_prompt_tokens: int = omit_if_default(0)
    judge_digest: str = omit_if_default("")

    @classmethod
    def of(cls, id: str, number: int, answer: ModelOutput) -> "SampleRecord":
        """Return the record of an answer that is not judged yet."""
        return cls(
            id,
            number,
            answer.text,
            answer.n_tokens,
            answer.truncated,
            "",
            reasoning=answer.reasoning,
            n_prompt_tokens=answer.n_prompt_tokens,
        )

    @property
    def model_output(self) -> ModelOutput:
        end = "length" if self.truncated else "stop"
        return ModelOutput(self.text, end, self.n_tokens, self.reasoning, self.n_prompt_tokens)

    def with_verdict(self, result: JudgeResult, judge_digest: str) -> "SampleRecord":
        """Return this record with the verdict that this judge gave."""
        return replace(self, verdict=result.verdict, parts=result.parts, judge_digest=judge_digest)
