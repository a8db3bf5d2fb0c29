"""A sample as `OUT.samples.jsonl` keeps it: a line with the answer and, once it is judged, its verdict.

MERGED The samples of an evaluation on disk, each under a key that names what the answer depends on.

`OUT.samples.jsonl` has those with a verdict. An answer that waits for its verdict is in `OUT.samples.jsonl.unjudged`,
so that a kill loses neither. A sample that is judged again, because the tests have changed, gets another line; the last
line of a key counts. So no line is ever changed, and a line that was being written when the machine stopped is the only
one that can be lost.
"""

import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from curate.dataset.journal import ResultJournal
from curate.json_records import from_json, omit_if_default, to_json
from sandbox.closeable import Closeable
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


def pending_path(path: Path) -> Path:
    """Return the path of the answers that wait for their verdict."""
    return path.with_name(path.name + ".unjudged")


class SampleStore(Closeable):
    """The samples in a file, which one process at a time may write."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._judged = ResultJournal(path)
        self._unjudged_path = pending_path(path)
        self._unjudged = ResultJournal(self._unjudged_path)

    def __len__(self) -> int:
        """Return the number of samples that have a verdict."""
        return len(self._judged)

    def get(self, key: str) -> SampleRecord | None:
        """Return the latest record of a sample; None if there is none."""
        journal = next((journal for journal in (self._judged, self._unjudged) if key in journal), None)
        return None if journal is None else from_json(SampleRecord, journal[key], ignore_unknown=True)

    def add(self, key: str, record: SampleRecord) -> None:
        """Keep a record. When this returns, it has been handed to the operating system.

        Records with a verdict and those without one may be added by two threads at once.
        """
        (self._judged if record.verdict else self._unjudged).add(key, to_json(record))

    def close(self) -> None:
        """Close the files. Once all answers are judged, the file of those that wait is removed."""
        self._judged.close()
        self._unjudged.close()
        if all(key in self._judged for key in self._unjudged):
            self._unjudged_path.unlink(missing_ok=True)


def read_samples(path: Path, keys: Collection[str]) -> dict[str, SampleRecord]:
    """Return the latest records under these keys. Raises OSError."""
    return dict(iterate_samples(path, keys))


def iterate_samples(path: Path, keys: Collection[str]) -> Iterator[tuple[str, SampleRecord]]:
    """Yield the latest record of each of these keys, without opening a file for writing. Raises OSError."""
    seen: set[str] = set()
    for file in (path, pending_path(path)):
        if file == path or file.exists():
            places = {key: place for key, place in _places(file) if key in keys and key not in seen}
            seen |= places.keys()
            with file.open("rb") as lines:
                for key, place in places.items():
                    lines.seek(place)
                    yield key, from_json(SampleRecord, json.loads(lines.readline())[1], ignore_unknown=True)


def _places(path: Path) -> Iterator[tuple[str, int]]:
    """Yield the keys in a file and where their lines begin."""
    place = 0
    with path.open("rb") as lines:
        for line in lines:
            try:
                key, _ = json.loads(line)
            except (ValueError, TypeError):  # a torn line, after which there is nothing
                break
            yield key, place
            place += len(line)
