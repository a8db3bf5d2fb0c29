"""`curate judge`"""

import hashlib
import json
import os
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import click

from sandbox.commands import options


@click.command("judge")
@click.argument("records", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), required=True, help="File for one verdict per line.")
@options.workers
@click.option("--run-all", is_flag=True, help="Run all tests of a submission, also after one has failed.")
@options.isolation
@options.ray
def command(records: Path, out: Path, workers: int | None, run_all: bool, isolation: str, ray: str | None) -> None:
    """Judge the submissions in RECORDS, a JSON Lines file.

    A record has id, code, kind (stdin or function), fn_name, tests ([{input, output}]), time_limit_s and
    memory_limit_mb; optional language and checker. After an interruption the same command continues.
    """
    from tqdm import tqdm

    from sandbox import Sandbox, SandboxError
    from sandbox.record import judge_lines

    # Named after what is judged, so that only the same work is continued.
    with records.open("rb") as content:
        fingerprint = hashlib.file_digest(content, "sha256").hexdigest()[:12]
    partial = out.with_name(f"{out.name}.{fingerprint}{'.all' if run_all else ''}.partial")
    out.parent.mkdir(parents=True, exist_ok=True)
    done = _whole_lines(partial)
    total = sum(1 for _ in _numbered(records))
    try:
        where: dict[str, Any] = {"backend": "ray", "address": ray} if ray else {}
        with Sandbox(workers, isolation=isolation, **where) as box, partial.open("a", encoding="utf-8") as file:
            answers = judge_lines(box, islice(_numbered(records), done, None), run_all=run_all)
            for answer in tqdm(
                answers, total=total, initial=done, unit=" submissions", disable=not sys.stderr.isatty()
            ):
                if "error" in answer:
                    tqdm.write(f"{records}:{answer['line']}: {answer['error']}", file=sys.stderr)
                file.write(json.dumps(answer) + "\n")
                file.flush()
    except SandboxError as error:
        saved = f". What is judged is in {partial}, the same command continues" if partial.exists() else ""
        raise click.ClickException(f"{error}{saved}") from error
    except KeyboardInterrupt:
        raise click.ClickException(f"interrupted; what is judged is in {partial}, the same command continues") from None
    partial.rename(out)
    with out.open(encoding="utf-8") as lines:
        verdicts = Counter(json.loads(line).get("verdict", "error") for line in lines)
    click.echo(f"{total} records: " + ", ".join(f"{word} {n}" for word, n in verdicts.most_common()))
    click.echo(f"verdicts in {out}")
    sys.exit(1 if verdicts["error"] else 0)


def _numbered(records: Path) -> Iterator[tuple[int, str]]:
    """The lines of a file that hold something, with their numbers."""
    with records.open(encoding="utf-8", errors="surrogateescape") as file:
        yield from ((number, line) for number, line in enumerate(file, 1) if line.strip())


def _whole_lines(partial: Path) -> int:
    """Complete lines that an interrupted run left; a torn last one is cut off."""
    if not partial.exists():
        return 0
    data = partial.read_bytes()
    os.truncate(partial, data.rfind(b"\n") + 1)
    return data.count(b"\n")
