"""`curate judge`"""

import json
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sandbox.commands import options
from sandbox.commands.frame import user_errors
from sandbox.commands.partial_file import PartialFile, name_of_work

if TYPE_CHECKING:
    from sandbox import Sandbox


@click.command("judge")
@click.argument("records", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), required=True, help="File to write, one verdict per line.")
@options.workers
@click.option("--run-all", is_flag=True, help="Run all tests of a submission, even after one has failed.")
@options.isolation
@options.ray
def command(records: Path, out: Path, workers: int | None, run_all: bool, isolation: str, ray: str | None) -> None:
    """Judge the submissions in RECORDS, a JSON Lines file.

    Each record has id, code, kind (stdin or function), fn_name, tests ([{input, output}]), time_limit_s and
    memory_limit_mb, and optionally language and checker. After an interruption, the same command continues.
    """
    from sandbox import Sandbox, SandboxError

    where: dict[str, Any] = {"backend": "ray", "address": ray} if ray else {}
    partial = PartialFile(out, name_of_work(records, *(["all"] if run_all else [])))
    saved = f"is in {partial.path}; the same command continues"
    interrupted, advice = f"what was judged {saved}", f"What was judged {saved}."
    with (
        user_errors(SandboxError, interrupted=interrupted, advice=advice if partial.path.exists() else ""),
        Sandbox(workers, isolation=isolation, **where) as box,
        user_errors(SandboxError, interrupted=interrupted, advice=advice),
    ):
        _judge_remaining(box, records, partial, run_all=run_all)
    partial.complete()
    counts = _count_verdicts(out)
    click.echo(f"{counts.total()} records: " + ", ".join(f"{verdict} {n}" for verdict, n in counts.most_common()))
    click.echo(f"verdicts in {out}")
    sys.exit(1 if counts["error"] else 0)


def _judge_remaining(box: "Sandbox", records: Path, partial: PartialFile, *, run_all: bool) -> None:
    """Judge the records that have no verdict yet, and show the progress."""
    from tqdm import tqdm

    from sandbox.record import judge_lines

    remaining = islice(_numbered_lines(records), partial.n_lines, None)
    total = sum(1 for _ in _numbered_lines(records))
    with partial.appending() as append:
        for answer in tqdm(
            judge_lines(box, remaining, run_all=run_all),
            total=total,
            initial=partial.n_lines,
            unit=" submissions",
            disable=not sys.stderr.isatty(),
        ):
            if "error" in answer:
                tqdm.write(f"{records}:{answer['line']}: {answer['error']}", file=sys.stderr)
            append(answer)


def _count_verdicts(out: Path) -> Counter[str]:
    with out.open(encoding="utf-8") as lines:
        return Counter(json.loads(line).get("verdict", "error") for line in lines)


def _numbered_lines(records: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines of a file that are not blank, with their numbers."""
    with records.open(encoding="utf-8", errors="surrogateescape") as file:
        yield from ((number, line) for number, line in enumerate(file, 1) if line.strip())
