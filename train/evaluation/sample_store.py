"""The samples of an evaluation on disk, each under a key that names what the answer depends on.

`OUT.samples.jsonl` has those with a verdict, a line each. An answer that waits for its verdict is in
`OUT.samples.jsonl.unjudged`, so that a kill loses neither. A sample that is judged again, because the tests have
changed, gets another line; the last line of a key counts. So no line is ever changed, and a line that was being written
when the machine stopped is the only one that can be lost.
"""

import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from curate.dataset.journal import ResultJournal
from curate.json_records import from_json, omit_if_default, to_json
from sandbox.closeable import Closeable


@dataclass(frozen=True, slots=True)
class SampleRecord:
    """One sample of the exercise `id`: the answer and, once it is judged, its verdict.

    truncated        whether the answer reached the limit of tokens
    verdict          "" while it is not known
    parts            the verdicts on the parts of the tests, where these have parts
    reasoning        thinking that a server returned apart from the text; no program is searched in it
    n_prompt_tokens  length of the prompt; 0: it is not known
    judge_digest     a digest of all that the verdict depends on, except the answer
    """

    id: str
    number: int
    text: str
    n_tokens: int
    truncated: bool
    verdict: str = ""
    parts: tuple[tuple[str, str], ...] = omit_if_default(())
    reasoning: str = omit_if_default("")
    n_prompt_tokens: int = omit_if_default(0)
    judge_digest: str = omit_if_default("", key="judge")


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


def iterate_samples(path: Path, keys: Collection[str]) -> Iterator[tuple[str, SampleRecord]]:
    """Yield the latest record of each of these keys, without opening a file for writing. Raises OSError."""
    seen: set[str] = set()
    for file in (path, pending_path(path)):
        if file == path or file.exists():
            offsets = {key: offset for key, offset in _offsets(file) if key in keys and key not in seen}
            seen |= offsets.keys()
            with file.open("rb") as lines:
                for key, offset in offsets.items():
                    lines.seek(offset)
                    yield key, from_json(SampleRecord, json.loads(lines.readline())[1], ignore_unknown=True)


def _offsets(path: Path) -> Iterator[tuple[str, int]]:
    """Yield the keys in a file and the offsets of their lines."""
    offset = 0
    with path.open("rb") as lines:
        for line in lines:
            try:
                key, _ = json.loads(line)
            except (ValueError, TypeError):  # a torn line, after which there is nothing
                break
            yield key, offset
            offset += len(line)
