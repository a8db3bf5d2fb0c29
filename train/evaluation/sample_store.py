"""The samples of an evaluation in append-only files, by cache key.

`OUT.samples.jsonl` has a line for each judged sample, and `OUT.samples.jsonl.unjudged` one for each completion without
a verdict. A rejudged sample gets another line; the last line of a key counts.
"""

from collections.abc import Collection, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from curate.dataset.journal import JournalRecords, ResultJournal
from curate.json_records import from_json, omit_if_default, to_json
from sandbox.closeable import Closeable


@dataclass(frozen=True, slots=True)
class SampleRecord:
    """One sample of the exercise `id`: the completion and, once judged, its verdict.

    truncated        whether the completion reached the token limit
    verdict          empty until the sample is judged
    parts            (name, verdict) of each part of the tests; empty for tests without parts
    reasoning        reasoning that a server returned separately, from which no program is extracted
    n_prompt_tokens  length of the prompt; 0 if unknown
    judge_digest     digest of all inputs of the verdict, except the completion
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


_read = partial(from_json, SampleRecord, ignore_unknown=True)


def get_unjudged_path(path: Path) -> Path:
    return path.with_name(path.name + ".unjudged")


class SampleStore(Closeable):
    """The samples in a file, with an exclusive lock.

    Raises CurateError if another process holds the lock, or if the file is damaged.
    """

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        with ExitStack() as stack:
            self._judged = stack.enter_context(ResultJournal(path))
            self._unjudged = stack.enter_context(ResultJournal(get_unjudged_path(path)))
            self._journals = stack.pop_all()

    def get(self, key: str) -> SampleRecord | None:
        """Return the latest record of a sample; None if missing. Raises CurateError if it is damaged."""
        journal = next((journal for journal in (self._judged, self._unjudged) if key in journal), None)
        return None if journal is None else journal.load(key, _read)

    def add(self, key: str, record: SampleRecord) -> None:
        """Append a record and flush it, without fsync.

        Two threads may call this concurrently: one for judged records, the other for unjudged records.
        """
        (self._judged if record.verdict else self._unjudged).add(key, to_json(record))

    def close(self) -> None:
        """Close the files. Delete empty files, and the file of unjudged completions if all are judged."""
        if all(key in self._judged for key in self._unjudged):
            self._unjudged.remove()
            if not self._judged:
                self._judged.remove()
        self._journals.close()


def iterate_samples(path: Path, keys: Collection[str]) -> Iterator[tuple[str, SampleRecord]]:
    """Yield the latest record of each key, without locking the files.

    Raises OSError, and CurateError if a file is damaged.
    """
    judged = JournalRecords.open(path, _read).select(keys)
    yield from judged.items()
    if (unjudged := get_unjudged_path(path)).exists():
        yield from JournalRecords.open(unjudged, _read).select(key for key in keys if key not in judged).items()
