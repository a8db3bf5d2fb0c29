"""The table `difficulty/` of a dataset, which records how often each model solved each problem."""

import hashlib
import re
import shutil
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from math import inf
from pathlib import Path
from typing import Any

from curate.dataset import difficulty_section
from curate.dataset.writer import write_table
from curate.derivation import Columns, find_manifest
from curate.difficulty.pass_at_k import pass_at_k
from curate.errors import CurateError
from curate.reading.values import shorten
from sandbox.concurrency.file_lock import FileLock

Row = dict[str, Any]
FOLDER = "difficulty"

# name: (Arrow type, meaning). A type with "?" may be null.
COLUMNS: dict[str, tuple[str, str]] = {
    "id": ("string", "the problem, as in the dataset"),
    "model": ("string", "as it was named when it was sampled"),
    "n": ("int32", "samples that have a verdict"),
    "n_correct": ("int32", "of them, those that passed every test"),
    "n_truncated": ("int32", "of n, those that were cut off; each is judged by the program in it, if it has one"),
    "n_truncated_correct": (
        "int32?",
        "of n_correct, those that were cut off: without them, cut-off answers count as wrong; null where an earlier "
        "version counted them as wrong without judging them",
    ),
    "n_no_code": ("int32", "of n, those that ended by themselves without a fenced program; they count as wrong"),
    "n_sampled": ("int32", "answers of the model; more than n where the sandbox failed"),
    "k": ("int32", "the k of pass_at_k"),
    "pass_at_1": ("float64?", "n_correct / n; null where n is 0"),
    "pass_at_k": ("float64?", "unbiased estimate (Chen et al. 2021); null where n is below k"),
    "mean_tokens": ("float64?", "length of the answers; 0 where the server does not tell"),
    "temperature": ("float64", "of the samples"),
    "top_p": ("float64", "of the samples"),
    "max_tokens": ("int32", "most tokens of an answer"),
    "seed": ("int32", "the seed from which the seed of each sample is derived"),
    "samples": ("string", "names what the samples depend on: problem, tests, prompt, model and settings"),
    "prompt": (
        "string",
        "what differs from the usual prompt, as JSON: system, template, template_arguments; else empty",
    ),
    "engine": ("string", "options of vLLM on which answers depend, as JSON; empty if none was given"),
    "languages": ("string", "languages that answers could have, separated by spaces; empty for Python alone"),
}
_LATER = ("n_truncated_correct", "prompt", "engine", "languages")  # columns that tables of earlier versions do not have


def build_row(id: str, name: str, settings: Mapping[str, Any], records: list[Row], *, n_sampled: int) -> Row:
    """Return the row for a problem and a model, computed from the verdicts of the samples."""
    verdicts = [record["verdict"] for record in records]
    n, n_correct = len(verdicts), verdicts.count("accepted")
    # Records of earlier versions have no field `truncated`: their verdict "truncated" stands for any cut-off answer.
    truncated = [record for record in records if record.get("truncated", record["verdict"] == "truncated")]
    all_judged = all("truncated" in record for record in truncated)
    values = {
        "prompt": "",
        "engine": "",
        "languages": "",
        **settings,
        "id": id,
        "samples": name,
        "n": n,
        "n_correct": n_correct,
        "n_truncated": len(truncated),
        "n_truncated_correct": sum(r["verdict"] == "accepted" for r in truncated) if all_judged else None,
        "n_no_code": verdicts.count("no_code"),
        "n_sampled": n_sampled,
        "mean_tokens": sum(record["n_tokens"] for record in records) / n if n else None,
        **estimates(n, n_correct, settings["k"]),
    }
    return {column: values[column] for column in COLUMNS}


def estimates(n: int, n_correct: int, k: int) -> Row:
    return {"k": k, "pass_at_1": pass_at_k(n, n_correct, 1), "pass_at_k": pass_at_k(n, n_correct, k)}


def read(dataset: Path) -> list[Row]:
    """Return all rows by id and model. There are none if no model was sampled. Raises CurateError on damaged files."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows: list[Row] = []
    for path in sorted((dataset / FOLDER).glob("train-*.parquet")):
        try:
            names = set(pq.read_schema(path).names)
            stored = pq.read_table(path, columns=[name for name in COLUMNS if name in names or name not in _LATER])
            rows += (_with_later_columns(row) for row in stored.to_pylist())
        except (pa.ArrowException, OSError) as error:
            raise CurateError(
                f"{path}: not a table of curate difficulty, or damaged ({shorten(error)}). Remove it; the same command "
                "makes it again from the samples beside it."
            ) from error
    return rows


def read_remaining_table(dataset: Path, removed: Collection[str]) -> dict[str, tuple[list[Row], Columns]]:
    """Return the table without some rows of the dataset, as `Derivation.tables` takes it; empty if it has no rows.

    removed: ids of the rows to leave out

    Raises CurateError on damaged files.
    """
    rows = [row for row in read(dataset) if row["id"] not in removed]
    return {FOLDER: (rows, COLUMNS)} if rows else {}


def _with_later_columns(row: Row) -> Row:
    """Return the row with added columns that tables of earlier versions lack.

    Earlier versions counted truncated answers as wrong without judging them, so it is unknown how many were correct.
    """
    missing = {"n_truncated_correct": None if row["n_truncated"] else 0, "prompt": "", "engine": "", "languages": ""}
    return {name: row[name] if name in row else missing[name] for name in COLUMNS}


def replace_model_rows(dataset: Path, model: str, rows: Iterable[Row]) -> None:
    """Replace the earlier rows of a model.

    Problems of the table that are not in `rows` were removed from the dataset by a filter. Their rows stay in the
    table, so that the whole distribution can be seen.
    """
    folder = dataset / FOLDER
    with FileLock(folder / ".work" / "lock", wait_seconds=inf):  # another model may be at this point
        before = read(dataset)
        new = {(row["id"], row["model"]): row for row in rows}
        after = {(row["id"], row["model"]): row for row in before} | new
        if list(after.values()) != before:
            replace_table(dataset, [after[key] for key in sorted(after)])
        manifest = find_manifest(dataset)
        difficulty_section.update_card(dataset, list(after.values()), manifest.solve_rate if manifest else None)


def replace_table(dataset: Path, rows: list[Row]) -> None:
    """Write the table in such a way that a reader finds either the old table or the new one."""
    folder = dataset / FOLDER
    aside = folder / ".new"
    shutil.rmtree(aside, ignore_errors=True)
    write_table(iter(rows), COLUMNS, aside)
    for path in sorted(aside.iterdir()):
        path.replace(folder / path.name)
    aside.rmdir()


@contextmanager
def lock_samples(dataset: Path, model: str) -> Iterator[Path]:
    """Lock the files that collect this model's samples, and yield their path without suffix.

    The files stay beside the table afterwards, so that more samples can be added later.
    """
    folder = dataset / FOLDER / ".work"
    folder.mkdir(parents=True, exist_ok=True)
    readable = re.sub(r"[^A-Za-z0-9]+", "-", model).strip("-")[-60:]
    stem = folder / f"{readable}-{hashlib.sha256(model.encode()).hexdigest()[:8]}"
    busy = CurateError(f"{model} is being sampled for {dataset} by another process. Wait for it.")
    with FileLock(stem.with_suffix(".lock"), busy):
        yield stem
