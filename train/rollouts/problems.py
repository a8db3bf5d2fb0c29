"""The problems of one dataset of a run: a dataset that curate built, or a file of prompts and answers.

A file has a row for each prompt, in any form that curate reads (JSONL, Parquet, CSV):

    prompt   what the model is asked: a text, or a list of messages with role and content. It is used as it is
    answer   the expected answer, for reward.math or a function of one's own; may be missing
    id       name of the row; by default, its number
    source   where it comes from, for the metrics; by default, the name of the file
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from curate.dataset.dataset_reader import DatasetReader, translate_read_errors
from curate.dataset.integrity import check_trusted
from curate.dataset.location import resolve_dataset_folder
from curate.problem import TESTS, tests_from_row
from curate.prompt import Chat, PromptFormat
from curate.reading.tables import UnreadableRow, locate, read_rows
from curate.reading.values import shorten
from curate.trust import UNVERIFIED, TrustPolicy
from train.errors import ConfigError

_COLUMNS = (
    "id", "source", "statement", "starter_code", *TESTS, "strongest_tests", "time_limit_seconds", "verified",
    "multi_answer_suspect",
)  # fmt: skip
_ROLES = ("system", "user", "assistant")


@dataclass(frozen=True, slots=True)
class ProblemKinds:
    """What some problems come with: tests, an expected answer, or neither."""

    tests: bool = False
    answers: bool = False
    neither: bool = False

    def __or__(self, other: "ProblemKinds") -> "ProblemKinds":
        return ProblemKinds(self.tests or other.tests, self.answers or other.answers, self.neither or other.neither)


@dataclass(frozen=True, slots=True)
class TrainingProblem:
    """A problem as a chat, with what is needed to judge an answer to it.

    tests            JSON text of a Suite; empty if there are none
    expected_answer  the expected answer; empty if there is none
    """

    id: str
    source: str
    chat: Chat
    tests: str = ""
    strongest_tests: tuple[int, ...] = ()
    time_limit_seconds: float | None = None
    expected_answer: str = ""

    @property
    def kind(self) -> ProblemKinds:
        tests, answers = bool(self.tests), not self.tests and bool(self.expected_answer)
        return ProblemKinds(tests, answers, not tests and not answers)


def is_prompt_file(dataset: str) -> bool:
    """Return whether a dataset is a file of prompts rather than one that curate built."""
    return Path(dataset).expanduser().is_file()


def read_problems(
    dataset: str,
    trust: TrustPolicy,
    prompt: PromptFormat,
    excluded_counts: Counter[str],
    unverified_counts: Counter[str],
) -> Iterator[TrainingProblem]:
    """Yield the problems of a dataset.

    prompt             the form in which programs are asked for; of a file's prompts, it adds only the system prompt
    excluded_counts    counts the rows that are not trusted, by reason
    unverified_counts  counts the rows that are yielded although they are unverified, by source

    Raises CurateError if this is not a dataset or was altered, and ConfigError for a row that is not a prompt.
    """
    if is_prompt_file(dataset):
        return _of_file(Path(dataset).expanduser(), prompt)
    return _curated(dataset, trust, prompt, excluded_counts, unverified_counts)


def describe_unverified_rows(counts: Mapping[str, int], include: Sequence[str]) -> str:
    """Return a sentence about the unverified rows that a run trains on, and what to type to leave them out.

    counts   numbers of rows, by source
    include  data.include of the run
    """
    of_each = ", ".join(f"{source} {n:,}" for source, n in sorted(counts.items()))
    rest = json.dumps([word for word in include if word != UNVERIFIED])
    return (
        f"trains on {sum(counts.values()):,} unverified rows ({of_each}): no solutions of them are published, so no "
        f"reference has passed their tests. To leave them out: --set 'data.include={rest}'"
    )


def _curated(
    dataset: str, trust: TrustPolicy, prompt: PromptFormat, left_out: Counter[str], unverified: Counter[str]
) -> Iterator[TrainingProblem]:
    folder = resolve_dataset_folder(dataset)
    check_trusted(folder, trust)
    with translate_read_errors(folder):
        for row in DatasetReader(folder).read_columns(*_COLUMNS):
            suite = tests_from_row(row)
            objection = trust.exclusion_reason(
                verified=row["verified"], suspect=row["multi_answer_suspect"], checker=suite.checker
            )
            if objection is not None:
                left_out[objection] += 1
                continue
            if not row["verified"]:
                unverified[row["source"]] += 1
            yield TrainingProblem(
                row["id"],
                row["source"],
                prompt.chat(row["statement"], row["starter_code"], suite),
                suite.to_json() if suite.trials else row["tests"],
                tuple(row["strongest_tests"] or ()),
                row["time_limit_seconds"],
            )


def _of_file(path: Path, prompt: PromptFormat) -> Iterator[TrainingProblem]:
    for number, row in enumerate(read_rows(locate(str(path)), [], ["prompt", "answer", "id", "source"]), 1):
        if isinstance(row, UnreadableRow):
            raise ConfigError(f"{row.location}: {row.detail}. Correct that line.")
        if row["prompt"] is None:
            raise ConfigError(
                f"{path}: row {number} has no prompt. A file to train on needs the column prompt and, for reward.math, "
                "the column answer."
            )
        chat = _chat(row["prompt"])
        if chat is None:
            raise ConfigError(
                f"{path}: the prompt of row {number} must be a text, or a list of messages with role and content, "
                f"not {shorten(repr(row['prompt']))}"
            )
        if prompt.system and chat[0]["role"] != "system":
            chat = [{"role": "system", "content": prompt.system}, *chat]
        expected = row["answer"]
        if not isinstance(expected, str | int | float | None):
            raise ConfigError(f"{path}: the answer of row {number} must be a text, not {shorten(repr(expected))}")
        yield TrainingProblem(
            str(row["id"] or f"{path.stem}/{number}"),
            str(row["source"] or path.stem),
            chat,
            expected_answer="" if expected is None else str(expected).strip(),
        )


def _chat(prompt: Any) -> Chat | None:
    """Return a prompt as messages, or None if it is neither a text nor messages."""
    messages = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
    if not isinstance(messages, list) or not messages:
        return None
    for message in messages:
        if not isinstance(message, dict) or message.keys() != {"role", "content"}:
            return None
        if message["role"] not in _ROLES or not isinstance(message["content"], str):
            return None
    return messages if messages[-1]["content"].strip() else None
