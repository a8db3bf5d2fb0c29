"""The result of an audit, also as audit.json and audit.md, and as lines for a terminal."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from curate.dataset.output_folder import write_atomic
from curate.json_records import json_key, to_json
from curate.text.printable import format_table, one_line

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


JSON, MARKDOWN = "audit.json", "audit.md"
_MAX_SHOWN = 10  # failures on a terminal
_IN_MARKDOWN = 200  # failures in audit.md; audit.json has all
_WIDTH = 160  # characters of a detail that are shown


def write(audit: DatasetAudit, folder: Path) -> None:
    """Write audit.json and audit.md into the folder."""
    write_atomic(folder / JSON, json.dumps(to_json(audit), indent=1, ensure_ascii=False) + "\n")
    write_atomic(folder / MARKDOWN, "\n".join(_markdown(audit)) + "\n")


def format_lines(audit: DatasetAudit) -> Iterator[str]:
    """Yield the figures, the faults and some of the failures."""
    yield from format_table(["", "rows"], [[name, n] for name, n in _figures(audit)])
    yield from audit.faults
    if audit.failures:
        n = len(audit.failures)
        yield f"\nFor {n} row{'' if n == 1 else 's'}, no program passes all tests:\n"
        rows = [[f.id, f.cause, one_line(f.detail, _WIDTH)] for f in audit.failures[:_MAX_SHOWN]]
        yield from format_table(["row", "cause", ""], rows, indent="  ")
        if len(audit.failures) > _MAX_SHOWN:
            yield f"  ... and {len(audit.failures) - _MAX_SHOWN} more"


def _figures(audit: DatasetAudit) -> Iterator[tuple[str, int]]:
    yield "rows", audit.n_rows
    yield from ((f"  not judged: {reason}", n) for reason, n in audit.not_judged.items())
    yield "  judged", audit.n_judged
    yield "    a program passes all tests", audit.n_passed
    yield from ((f"    none does: {cause}", n) for cause, n in audit.failures_by_cause.items())
    yield "  tests may have several right answers", audit.n_suspects
    yield f"  fewer than {FEW_TESTS} tests", audit.n_few_tests
    if audit.n_duplicates is not None:
        yield "  nearly the same as another row", audit.n_duplicates


def _markdown(audit: DatasetAudit) -> Iterator[str]:
    yield f"# Audit of {_cell(audit.subject)}\n"
    chosen = "all rows" if audit.sample_size is None else f"a sample of {audit.sample_size}"
    yield f"The audit covers {chosen}; its seed is {audit.seed}. The content hash is `{audit.content_hash}`.\n"
    yield "| | rows |\n|---|---:|"
    yield from (f"| {name.strip()} | {n:,} |" for name, n in _figures(audit))
    if audit.faults:
        yield "\n## Not as the manifest says\n"
        yield from (f"- {_cell(fault)}" for fault in audit.faults)
    if audit.failures:
        yield "\n## Rows for which no program passes all tests\n"
        yield "| row | cause | |\n|---|---|---|"
        yield from (f"| {_cell(f.id)} | {f.cause} | {_cell(f.detail)} |" for f in audit.failures[:_IN_MARKDOWN])
        if len(audit.failures) > _IN_MARKDOWN:
            yield f"\n{len(audit.failures) - _IN_MARKDOWN} more are in {JSON}."


def _cell(text: str) -> str:
    return one_line(text, _WIDTH).replace("|", "\\|").replace("<", "&lt;").replace("`", "'")
