"""The result of an audit as audit.json and audit.md, and as lines for a terminal."""

import json
from collections.abc import Iterator
from pathlib import Path

from curate.audit.dataset_audit import FEW_TESTS, DatasetAudit
from curate.dataset.output_folder import write_atomic
from curate.json_records import to_json
from curate.text.printable import format_table, one_line

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
