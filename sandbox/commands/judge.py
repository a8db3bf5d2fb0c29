"""`curate judge`"""

import hashlib
import json
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sandbox.commands import options
from sandbox.commands.console import ProgressBar, confirm_overwrite, report_user_errors
from sandbox.commands.partial_file import PartialFile

if TYPE_CHECKING:
    from sandbox import Sandbox, SandboxOptions

_MIN_BYTES, _MIN_BYTES_OF_TEST = 180, 100  # minimum size of a verdict without its tests, and of each of its tests


@click.command("judge")
@click.argument("records", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    help="Output file, one verdict per line. It must not exist, except with --overwrite.",
)
@click.option("--overwrite", is_flag=True, help="Replace the file if it exists.  [default: ask on a terminal, or stop]")
@click.option(
    "--run-all",
    is_flag=True,
    help="Run all tests of a submission, even after a failed one.  [default: stop at the first failed test]",
)
@options.add_sandbox_options
def command(records: Path, out: Path, overwrite: bool, run_all: bool, sandbox: "SandboxOptions") -> None:
    """Judge the submissions in RECORDS, a JSON Lines file.

    Each record has id, code, kind (stdin, function or assertions), fn_name, tests ([{input, output}]), time_limit_s and
    memory_limit_mb, and optionally language, checker, referee and metadata. Any other field is an error, reported
    before any record is judged. After an interruption, type the same command to continue.
    """
    from sandbox import SandboxError
    from sandbox.packages import compute_fingerprint

    confirm_overwrite(out, overwrite=overwrite)
    with report_user_errors(OSError), ProgressBar(" submissions", short_stages=False) as progress:
        summary = _scan(records, progress)
        with report_user_errors(SandboxError):
            packages = compute_fingerprint(sandbox.find_packages())[:12]  # verdicts depend on the packages for programs
        with report_user_errors(OSError, advice="Choose another --out. Nothing has been judged."):
            partial = PartialFile(
                out, ".".join(filter(None, [summary.fingerprint, "all" if run_all else "", packages]))
            )
        saved = f"verdicts so far are in {partial.path}; the same command continues"
        interrupted, advice = f"the {saved}", f"The {saved}."
        with partial:
            _check_disk_space(summary, partial, run_all=run_all)
            with (
                report_user_errors(
                    SandboxError, interrupt_message=interrupted, advice=advice if partial.n_lines else ""
                ),
                sandbox.open() as box,
                report_user_errors(SandboxError, OSError, interrupt_message=interrupted, advice=advice),
            ):
                _judge_remaining(box, records, partial, summary.n_records, progress, run_all=run_all)
            partial.commit()
    counts = _count_verdicts(out)
    click.echo(f"{counts.total()} records: " + ", ".join(f"{verdict} {n}" for verdict, n in counts.most_common()))
    click.echo(f"verdicts in {out}")
    sys.exit(1 if counts["error"] else 0)


@dataclass(frozen=True, slots=True)
class _InputSummary:
    """The summary of an input file. fingerprint: prefix of the SHA-256 of its content."""

    fingerprint: str
    n_records: int
    n_tests: int


def _scan(records: Path, progress: ProgressBar) -> _InputSummary:
    """Read all records and return their summary. Raises ClickException for an unknown field."""
    digest = hashlib.sha256()
    n_records = n_tests = n_bytes = 0
    total = records.stat().st_size
    with records.open("rb") as file:
        for number, line in enumerate(file, 1):
            progress("check (MB)", n_bytes >> 20, (total >> 20) + 1)
            digest.update(line)
            n_bytes += len(line)
            if line.strip():
                n_records += 1
                try:
                    n_tests += _count_tests(line)
                except ValueError as error:
                    raise click.ClickException(f"{records}:{number}: {error} Nothing has been judged.") from None
    return _InputSummary(digest.hexdigest()[:12], n_records, n_tests)


def _count_tests(line: bytes) -> int:
    """Return the number of tests of a record; 0 if it is malformed. Raises UnknownField."""
    from sandbox import json_codec
    from sandbox.judge_record import Record

    try:
        return len(json_codec.decode(Record, json_codec.loads(line.decode("utf-8", "surrogateescape"))).tests)
    except json_codec.UnknownField:
        raise
    except ValueError:
        return 0


def _check_disk_space(summary: _InputSummary, partial: PartialFile, *, run_all: bool) -> None:
    """Raise ClickException if the free disk space cannot hold the verdicts."""
    n_left = summary.n_records - partial.n_lines
    n_tests = n_left * summary.n_tests // summary.n_records if run_all and summary.n_records else n_left
    min_bytes = n_left * _MIN_BYTES + n_tests * _MIN_BYTES_OF_TEST
    if (free := partial.free_bytes) < min_bytes:
        raise click.ClickException(
            f"not enough disk space in {partial.path.parent}: {n_left} verdicts need at least "
            f"{_format_size(min_bytes)}, and {_format_size(free)} are free. Free some space, or choose another --out. "
            "Nothing has been judged."
        )


def _format_size(n_bytes: int) -> str:
    return f"{n_bytes / 10**6:.1f} MB" if n_bytes >= 10**5 else f"{n_bytes} bytes"


def _judge_remaining(
    box: "Sandbox", records: Path, partial: PartialFile, n_records: int, progress: ProgressBar, *, run_all: bool
) -> None:
    """Judge the records after those whose verdicts are in the partial file."""
    from sandbox.judge_record import judge_lines

    remaining = islice(_read_lines(records), partial.n_lines, None)
    progress("judge", partial.n_lines, n_records)
    with partial.open_for_append() as append:
        for done, response in enumerate(judge_lines(box, remaining, run_all=run_all), partial.n_lines + 1):
            if "error" in response:
                progress.write(f"{records}:{response['line']}: {response['error']}")
            append(response)
            progress("judge", done, n_records)


def _count_verdicts(out: Path) -> Counter[str]:
    with out.open(encoding="utf-8") as lines:
        return Counter(json.loads(line).get("verdict", "error") for line in lines)


def _read_lines(records: Path) -> Iterator[tuple[int, str]]:
    """Yield the number and text of each nonblank line of a file."""
    with records.open(encoding="utf-8", errors="surrogateescape") as file:
        yield from ((number, line) for number, line in enumerate(file, 1) if line.strip())
