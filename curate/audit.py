"""Audits for `curate verify --run`, which judge references of a dataset, or solutions of a source, on their tests.

A journal of verdicts lets a killed audit resume. An audit of a source builds a dataset from a sample of its rows.
"""

import hashlib
import heapq
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from curate.dataset.dataset import Dataset
from curate.dataset.integrity import check_integrity
from curate.dataset.journal import ResultJournal
from curate.dataset.output_folder import write_atomic
from curate.dataset.query import query, read_table
from curate.errors import CurateError
from curate.ingestion import compute_sampling_key
from curate.json_records import from_json, json_key, to_json
from curate.judging import MeteredSandbox, classify_failure, map_with_retries
from curate.options import BuildOptions
from curate.pipeline import build
from curate.problem import Problem
from curate.progress import Progress, ignore_progress, track_progress
from curate.reading.values import shorten
from curate.text.document import Block, Section, Table, Text, render_markdown, render_terminal
from sandbox import Judgement, SandboxOptions, Verdict

FEW_TESTS = 5  # DeepCoder's minimum; fewer tests accept programs that print memorized outputs
JOURNAL, JSON, MARKDOWN = "judgements.jsonl", "audit.json", "audit.md"
# Maximum numbers of printed failures; audit.json has all.
_MAX_ON_TERMINAL = 10
_MAX_IN_MARKDOWN = 200
_COUNTS = f"""
    SELECT count(*) FILTER (multi_answer_suspect) AS n_suspects, count(*) FILTER (n_tests < {FEW_TESTS}) AS n_few_tests
    FROM rows WHERE ifnull(expected_answer, '') = ''
"""


@dataclass(frozen=True, slots=True)
class AuditFailure:
    """A row whose reference fails its tests. cause: machine-readable; detail: human-readable"""

    id: str
    cause: str
    detail: str


@dataclass(frozen=True, slots=True)
class DatasetAudit:
    """The result of an audit.

    subject            the dataset or the source, as the user named it
    content_hash       of the audited dataset; for a source, of the dataset built from the sample
    sample_size        number of rows to judge; None for all
    seed               seed of the sample and of the programs' random numbers
    n_rows             rows of the dataset, or of the sample of a source
    not_judged         numbers of rows without a judgement, by reason
    n_judged           number of rows with an executed reference or solution
    n_passed           number of rows with a program that passed all tests
    failures_by_cause  numbers of the other judged rows, by cause
    n_suspects         number of rows whose tests may have several correct outputs
    n_few_tests        number of rows with fewer than FEW_TESTS tests
    n_duplicates       number of near-duplicates; None if rows were not compared
    faults             differences between the dataset and its manifest
    failures           the rows without a program that passed
    """

    subject: str
    content_hash: str
    sample_size: int | None = field(metadata=json_key("sample"))
    seed: int
    n_rows: int
    not_judged: Mapping[str, int]
    n_judged: int
    n_passed: int
    failures_by_cause: Mapping[str, int] = field(metadata=json_key("causes"))
    n_suspects: int
    n_few_tests: int
    n_duplicates: int | None
    faults: tuple[str, ...]
    failures: tuple[AuditFailure, ...]

    @property
    def ok(self) -> bool:
        """True if there are neither faults nor failures."""
        return not self.faults and not self.failures


def write(audit: DatasetAudit, folder: Path) -> None:
    """Write audit.json and audit.md into the folder."""
    write_atomic(folder / JSON, json.dumps(to_json(audit), indent=1, ensure_ascii=False) + "\n")
    chosen = "all rows" if audit.sample_size is None else f"a sample of {audit.sample_size}"
    text = f"The audit covers {chosen}; its seed is {audit.seed}. The content hash is {audit.content_hash}."
    title = Section(f"Audit of {audit.subject}", [Text(text)])
    lines = [*render_markdown([title], level=1), *render_markdown(_build_sections(audit, _MAX_IN_MARKDOWN))]
    write_atomic(folder / MARKDOWN, "\n".join(lines))


def format_lines(audit: DatasetAudit) -> Iterator[str]:
    """Format the counts, the faults and some of the failures for a terminal."""
    return render_terminal(_build_sections(audit, _MAX_ON_TERMINAL))


def _build_sections(audit: DatasetAudit, max_failures: int) -> Iterator[Section]:
    counts = [
        ("rows", audit.n_rows),
        *((f"  not judged: {reason}", n) for reason, n in audit.not_judged.items()),
        ("  judged", audit.n_judged),
        ("    a program passes all tests", audit.n_passed),
        *((f"    none does: {cause}", n) for cause, n in audit.failures_by_cause.items()),
        ("  tests may have several right answers", audit.n_suspects),
        (f"  fewer than {FEW_TESTS} tests", audit.n_few_tests),
    ]
    if audit.n_duplicates is not None:
        counts.append(("  near-duplicates of other rows", audit.n_duplicates))
    yield Section("Result", [Table(["", "rows"], counts)])
    if audit.faults:
        yield Section("Differences from the manifest", list(map(Text, audit.faults)))
    if audit.failures:
        n = len(audit.failures)
        rows = [[failure.id, failure.cause, failure.detail] for failure in audit.failures[:max_failures]]
        blocks: list[Block] = [Table(["row", "cause", ""], rows)]
        if n > max_failures:
            blocks.append(Text(f"... and {n - max_failures} more, in {JSON}"))
        yield Section(f"For {n} row{'' if n == 1 else 's'}, no program passes all tests:", blocks)


@dataclass(frozen=True, slots=True)
class _JournalEntry:
    """The judgement of a reference. cause: cause of its failure, None if it passed; detail: the failed test and why"""

    cause: str | None
    detail: str


def audit_dataset(
    folder: Path,
    out: Path,
    *,
    sample: int | None,
    seed: int,
    sandbox: SandboxOptions,
    subject: str = "",
    progress: Progress = ignore_progress,
) -> DatasetAudit:
    """Compare a dataset with its manifest, and judge its references on their tests.

    folder   the dataset
    out      folder of the journal of judgements
    sample   number of references to judge; None: all
    seed     seed of the sample and of the programs' random numbers
    sandbox  options of the sandbox that executes the references
    subject  name of the dataset in the result; empty for its folder

    Raises CurateError if a row is unreadable or the sandbox fails repeatedly.
    """
    dataset = Dataset.open(folder)
    integrity = check_integrity(dataset, read_rows=True, progress=progress)
    dataset.require_problems()
    rows = enumerate(dataset.iter_rows("data", ("id", "verified", "reference_language", "expected_answer")))
    n_questions, verified = 0, {}
    for n, row in rows:
        n_questions += bool(row["expected_answer"])
        if row["verified"] and row["reference_language"] is not None:
            verified[n] = row["id"]
    chosen = list(verified) if sample is None else _sample(verified, sample, seed)
    out.mkdir(parents=True, exist_ok=True)
    with ResultJournal(out / JOURNAL) as journal:
        failures = _judge_all(dataset, chosen, journal, sandbox, seed, progress)
    not_judged = {
        "math problems": n_questions,
        "unverified": len(dataset) - len(verified) - n_questions,
        "not in the sample": len(verified) - len(chosen),
    }
    return DatasetAudit(
        subject=subject or str(folder),
        content_hash=integrity.content_hash or "unknown",
        sample_size=sample,
        seed=seed,
        n_rows=len(dataset),
        not_judged={reason: n for reason, n in not_judged.items() if n},
        n_judged=len(chosen),
        n_passed=len(chosen) - len(failures),
        n_duplicates=None,
        faults=tuple(map(str, integrity.faults)),
        **_count_failures_and_rows(dataset, failures),
    )


def _sample(ids: Mapping[int, str], n: int, seed: int) -> list[int]:
    """Draw n rows by the seed, and return their positions."""
    return sorted(heapq.nsmallest(n, ids, key=lambda position: compute_sampling_key(seed, ids[position])))


def _judge_all(
    dataset: Dataset,
    positions: Sequence[int],
    journal: ResultJournal,
    options: SandboxOptions,
    seed: int,
    progress: Progress,
) -> list[AuditFailure]:
    """Judge the references without a journal entry, and return all failures in the order of the rows."""
    keys: dict[str, str] = {}

    def load_unjudged() -> Iterator[Problem]:
        for position in positions:
            problem = dataset.load(position)
            keys[problem.id] = _compute_journal_key(problem, seed)
            if keys[problem.id] not in journal:
                yield problem

    def judge(problem: Problem) -> Judgement:
        assert problem.reference is not None
        return MeteredSandbox(box).judge(problem.reference, problem.tests)

    # A sandbox service sets one seed for all its clients, so a client cannot choose it.
    with options.open(seed=None if options.backend == "http" else seed) as box:
        judgements = map_with_retries(load_unjudged(), judge, box)
        for problem, judgement in track_progress(judgements, "judge references", progress, total=len(positions)):
            journal.add(keys[problem.id], to_json(_build_journal_entry(judgement)))
    entries = journal.select_records(keys, partial(from_json, _JournalEntry))
    return [AuditFailure(id, entry.cause, entry.detail) for id, entry in entries.items() if entry.cause is not None]


def _compute_journal_key(problem: Problem, seed: int) -> str:
    assert problem.reference is not None
    content = [problem.reference.source, problem.reference.language, problem.tests.to_json(), seed]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def _build_journal_entry(judgement: Judgement) -> _JournalEntry:
    if judgement.accepted:
        return _JournalEntry(None, "")
    number, failed = next(
        (number, case) for number, case in enumerate(judgement.cases, start=1) if case.verdict is not Verdict.ACCEPTED
    )
    return _JournalEntry(
        classify_failure(judgement), f"test {number}: {failed.verdict.value} {shorten(failed.detail)}".rstrip()
    )


def audit_source(
    name: str,
    location: str,
    out: Path,
    *,
    sample: int | None,
    seed: int,
    sandbox: SandboxOptions,
    overwrite: bool = False,
    progress: Progress = ignore_progress,
) -> DatasetAudit:
    """Execute the solutions of a source's rows, and count the rows with a solution that passes all tests.

    name, location  the source and its data, as in `curate build-dataset --source NAME=LOCATION`
    out             folder of the dataset built from the rows
    sample          number of rows to choose by the seed; None: all
    sandbox         options of the sandbox that executes the solutions
    overwrite       whether to replace another dataset in the folder

    Raises CurateError as curate.build does.
    """
    options = BuildOptions(min_tests=1, no_reference="drop", mutants=0, sample=sample, seed=seed)
    manifest = build([(name, location)], out, options, sandbox=sandbox, overwrite=overwrite, progress=progress)
    count = manifest.counts[name]
    dataset = Dataset(out, manifest).require_problems()
    if any(row["expected_answer"] for row in dataset.iter_rows("data", ("expected_answer",))):
        raise CurateError(
            f"{name} contains math problems, which have no programs to execute. {out} is a dataset of the problems "
            "whose answers math-verify can parse."
        )
    failures = [
        AuditFailure(row["id"], row["cause"] or row["reason"], row["detail"])
        for row in dataset.iter_rows("rejected")
        if row["stage"] == "verify"
    ]
    not_judged = Counter({r: n for stage in ("parse", "filter") for r, n in count.rejected.get(stage, {}).items()})
    n_judged = count.n_read - not_judged.total()
    return DatasetAudit(
        subject=f"{name}={location}",
        content_hash=manifest.content_hash,
        sample_size=sample,
        seed=seed,
        n_rows=count.n_read,
        not_judged=dict(not_judged.most_common()),
        n_judged=n_judged,
        n_passed=n_judged - len(failures),
        n_duplicates=count.count_rejected("dedup"),
        faults=(),
        **_count_failures_and_rows(dataset, failures),
    )


def _count_failures_and_rows(dataset: Dataset, failures: Sequence[AuditFailure]) -> dict[str, Any]:
    """Return the fields of an audit that hold its failures, and counts of the dataset's rows."""
    columns = ("multi_answer_suspect", "n_tests", "expected_answer")
    (counts,) = query(_COUNTS, rows=read_table(dataset, "data", columns))
    causes = Counter(failure.cause for failure in failures)
    return {**counts, "failures_by_cause": dict(causes.most_common()), "failures": tuple(failures)}
