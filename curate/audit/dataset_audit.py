"""The result of an audit."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from curate.json_records import json_key

FEW_TESTS = 5  # DeepCoder's rule: a problem with fewer tests invites programs that print memorised answers


@dataclass(frozen=True, slots=True)
class AuditFailure:
    """A row whose reference does not pass its tests. cause: a fixed word; detail: an explanation for people."""

    id: str
    cause: str
    detail: str


@dataclass(frozen=True, slots=True)
class DatasetAudit:
    """What an audit found.

    subject            the dataset or the source, as it was given
    content_hash       of the dataset that was audited; for a source, of the dataset that was built from the sample
    sample_size, seed  number of rows to judge, None for all, and the seed of their choice and of the programs
    n_rows             rows that were considered: those of the dataset, or those of the sample of a source
    not_judged         rows without a judgement, by reason
    n_judged           rows whose reference, or whose solutions, were executed
    n_passed           of these, rows for which a program passed all tests
    failures_by_cause  the others by cause
    n_suspects         rows whose tests may have several right answers
    n_few_tests        rows with fewer than FEW_TESTS tests
    n_duplicates       rows that are nearly the same as others; None if they were not compared
    faults             discrepancies between the dataset and its manifest
    failures           the rows for which no program passed
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
        """Whether nothing is wrong with what was audited."""
        return not self.faults and not self.failures
