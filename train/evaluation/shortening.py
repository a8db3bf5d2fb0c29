"""Truncation of stored completions to fewer tokens, so samples of one length limit show the results of lower ones."""

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from curate.errors import CurateError
from curate.reading.values import shorten
from train.evaluation.sample_store import SampleRecord


@dataclass(frozen=True, slots=True)
class Shortening:
    """Truncates completions to their first tokens.

    Samples are stored as text and tokenized again. If the tokens differ from the sampled ones, the point of truncation
    shifts accordingly.

    max_tokens      the limit
    tokenizer       of transformers
    tokenizer_name  its name or folder
    """

    max_tokens: int
    tokenizer: Any
    tokenizer_name: str

    @classmethod
    def load(cls, max_tokens: int, name: str) -> "Shortening":
        """Load the tokenizer of a model. Raises CurateError if there is none of this name."""
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
        """Return the section of a result about its shortened samples."""
        return {"max_tokens": self.max_tokens, "cut_by_tokenizer": self.tokenizer_name}

    def samples_digest(self, digest: str) -> str:
        """Derive the digest of a problem's shortened samples from that of its samples."""
        return hashlib.sha256(f"{digest} cut at {self.max_tokens}".encode()).hexdigest()[:32]

    def shorten(self, record: SampleRecord) -> SampleRecord:
        """Truncate a sample to the limit and drop its verdict; reasoning counts before the completion."""
        record = replace(record, verdict="", parts=(), judge_digest="")
        if 0 < record.n_tokens <= self.max_tokens:
            return record
        reasoning, n_reasoning = self._truncate(record.reasoning, self.max_tokens)
        text, n_text = self._truncate(record.text, self.max_tokens - n_reasoning)
        if (reasoning, text) == (record.reasoning, record.text):
            return record
        return replace(record, reasoning=reasoning, text=text, n_tokens=n_reasoning + n_text, truncated=True)

    def _truncate(self, text: str, n: int) -> tuple[str, int]:
        """Return the first n tokens of a text, and their number."""
        encoded = self.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
        if len(encoded["input_ids"]) <= n:
            return text, len(encoded["input_ids"])
        return text[: encoded["offset_mapping"][n - 1][1]] if n else "", n
