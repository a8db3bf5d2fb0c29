"""Judge the references of a curated dataset again. Verdicts are journaled, so the same audit continues after a kill."""

import hashlib
import heapq
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from curate.audit.dataset_audit import FEW_TESTS, AuditFailure, DatasetAudit
from curate.dataset.dataset import Dataset
from curate.dataset.integrity import check_integrity
from curate.dataset.journal import ResultJournal
from curate.ingestion import sample_sort_key
from curate.json_records import from_json, to_json
from curate.judging import MeteredSandbox, failure_cause, map_with_retries
from curate.problem import Problem
from curate.progress import Progress, no_progress, with_progress
from curate.reading.values import shorten
from sandbox import Judgement, SandboxOptions, Verdict

JOURNAL = "judgements.jsonl"
_COLUMNS = ("id", "verified", "reference_language", "multi_answer_suspect", "n_tests")


@dataclass(frozen=True, slots=True)
class _JournalEntry:
    """A line of the journal.

    cause   why the reference failed, in one word; None if it passed
    detail  the test on which it failed, for people
    """

    cause: str | None
    detail: str


def audit_references(
    folder: Path,
    out: Path,
    *,
    sample: int | None,
    seed: int,
    sandbox: SandboxOptions,
    subject: str = "",
    progress: Progress = no_progress,
) -> DatasetAudit:
    """Check a dataset against its manifest, and judge references against their tests.

    folder   the dataset
    out      folder of the journal of judgements
    sample   number of references to judge, which the seed chooses; None: all
    seed     also the seed of the programs' random numbers
    sandbox  where programs run
    subject  the name of the dataset in the result; by default its folder

    Raises CurateError if rows cannot be read, or if the sandbox fails again and again.
    """
    dataset = Dataset.open(folder)
    integrity = check_integrity(dataset, read_rows=True, progress=progress)
    dataset.require_problems()
    counts: Counter[str] = Counter()
    verified: dict[int, str] = {}
    for position, row in enumerate(dataset.rows("data", _COLUMNS)):
        counts["suspects"] += row["multi_answer_suspect"]
        counts["few tests"] += row["n_tests"] < FEW_TESTS
        if row["verified"] and row["reference_language"] is not None:
            verified[position] = row["id"]
    chosen = list(verified) if sample is None else _sample(verified, sample, seed)
    out.mkdir(parents=True, exist_ok=True)
    with ResultJournal(out / JOURNAL) as journal:
        failures = _judge_all(dataset, chosen, journal, sandbox, seed, progress)
    not_judged = {"unverified": len(dataset) - len(verified), "not in the sample": len(verified) - len(chosen)}
    return DatasetAudit(
        subject=subject or str(folder),
        content_hash=integrity.content_hash or "unknown",
        sample_size=sample,
        seed=seed,
        n_rows=len(dataset),
        not_judged={reason: n for reason, n in not_judged.items() if n},
        n_judged=len(chosen),
        n_passed=len(chosen) - len(failures),
        failures_by_cause=dict(Counter(failure.cause for failure in failures).most_common()),
        n_suspects=counts["suspects"],
        n_few_tests=counts["few tests"],
        n_duplicates=None,
        faults=tuple(map(str, integrity.faults)),
        failures=tuple(failures),
    )


def _sample(ids: Mapping[int, str], n: int, seed: int) -> list[int]:
    """Return the positions of n rows, chosen by the seed."""
    return sorted(heapq.nsmallest(n, ids, key=lambda position: sample_sort_key(seed, ids[position])))


def _judge_all(
    stored: Dataset,
    positions: Sequence[int],
    journal: ResultJournal,
    options: SandboxOptions,
    seed: int,
    progress: Progress,
) -> list[AuditFailure]:
    """Return the failures of the references of these rows, in order. Only those without a judgement are executed."""
    keys: dict[str, str] = {}

    def missing() -> Iterator[Problem]:
        for position in positions:
            problem = stored.load(position)
            keys[problem.id] = _key(problem, seed)
            if keys[problem.id] not in journal:
                yield problem

    def judge(problem: Problem) -> Judgement:
        assert problem.reference is not None
        return MeteredSandbox(box).judge(problem.reference, problem.tests)

    # A service has one seed for all its clients.
    with options.open(seed=None if options.backend == "http" else seed) as box:
        judgements = map_with_retries(missing(), judge, box)
        for problem, judgement in with_progress(judgements, "judge references", progress, total=len(positions)):
            journal.add(keys[problem.id], to_json(_judged(judgement)))
    entries = journal.records(keys, partial(from_json, _JournalEntry))
    return [AuditFailure(id, line.cause, line.detail) for id, line in entries.items() if line.cause is not None]


def _key(problem: Problem, seed: int) -> str:
    """Return a digest of everything that a judgement depends on."""
    assert problem.reference is not None
    content = [problem.reference.source, problem.reference.language, problem.tests.to_json(), seed]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def _judged(judgement: Judgement) -> _JournalEntry:
    if judgement.accepted:
        return _JournalEntry(None, "")
    number, failed = next(
        (number, case) for number, case in enumerate(judgement.cases, start=1) if case.verdict is not Verdict.ACCEPTED
    )
    return _JournalEntry(
        failure_cause(judgement), f"test {number}: {failed.verdict.value} {shorten(failed.detail)}".rstrip()
    )
