"""Truncation of stored completions to a lower token limit."""

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from curate.errors import CurateError
from curate.reading.values import shorten
from train.evaluation.sample_store import SampleRecord


@dataclass(frozen=True, slots=True)
class Truncation:
    """A truncation of completions to their first `max_tokens` tokens.

    tokenizer_name: Hub id or folder of the tokenizer
    """

    max_tokens: int
    tokenizer: Any
    tokenizer_name: str

    @classmethod
    def load(cls, max_tokens: int, name: str) -> "Truncation":
        """Load a model's tokenizer. Raises CurateError if it is missing or not a fast tokenizer."""
        from transformers import AutoTokenizer

        advice = "Give the folder or the Hub id of the model's tokenizer: --tokenizer NAME"
        try:
            tokenizer: Any = AutoTokenizer.from_pretrained(str(Path(name).expanduser()))
        except (OSError, ValueError) as error:
            raise CurateError(f"{name} has no tokenizer that can be read ({shorten(error)}). {advice}") from error
        if not tokenizer.is_fast:
            raise CurateError(f"the tokenizer of {name} does not report the offsets of tokens. {advice}")
        return cls(max_tokens, tokenizer, name)

    def as_table(self) -> dict[str, Any]:
        """Return the entries for the section `sampling` of a result."""
        return {"max_tokens": self.max_tokens, "cut_by_tokenizer": self.tokenizer_name}

    def compute_samples_digest(self, digest: str) -> str:
        return hashlib.sha256(f"{digest} cut at {self.max_tokens}".encode()).hexdigest()[:32]

    def truncate(self, record: SampleRecord) -> SampleRecord:
        """Truncate a sample, reasoning first and then the text, and drop its verdict."""
        record = replace(record, verdict="", parts=(), judge_digest="")
        if 0 < record.n_tokens <= self.max_tokens:
            return record
        reasoning, n_reasoning = self._truncate_text(record.reasoning, self.max_tokens)
        text, n_text = self._truncate_text(record.text, self.max_tokens - n_reasoning)
        if (reasoning, text) == (record.reasoning, record.text):
            return record
        return replace(record, reasoning=reasoning, text=text, n_tokens=n_reasoning + n_text, truncated=True)

    def _truncate_text(self, text: str, n: int) -> tuple[str, int]:
        encoded = self.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
        if len(encoded["input_ids"]) <= n:
            return text, len(encoded["input_ids"])
        return text[: encoded["offset_mapping"][n - 1][1]] if n else "", n
