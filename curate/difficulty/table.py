"""The table `difficulty/` of a dataset: solve rates by problem and model."""

import hashlib
import re
import shutil
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from math import inf
from pathlib import Path
from typing import Any

from curate.dataset import card
from curate.dataset.contamination_hits import HIT_COLUMNS
from curate.dataset.dataset import Dataset, find_dataset
from curate.dataset.writer import Columns, write_table
from curate.derivation import DIFFICULTY, Tables
from curate.difficulty.pass_at_k import pass_at_k
from curate.errors import CurateError
from curate.reading.values import shorten
from sandbox.concurrency.file_lock import FileLock

Row = dict[str, Any]

# name: (Arrow type, meaning). A type with "?" may be null.
COLUMNS: Columns = {
    "id": ("string", "the problem, as in the dataset"),
    "model": ("string", "name of the model"),
    "n": ("int32", "samples that have a verdict"),
    "n_correct": ("int32", "samples that passed every test"),
    "n_truncated": ("int32", "samples among n that were cut off at max_tokens; a complete program in one is judged"),
    "n_truncated_correct": ("int32", "truncated samples among n_correct"),
    "n_no_code": (
        "int32",
        "samples among n, not truncated, without a fenced program or final answer; they count as wrong",
    ),
    "n_sampled": ("int32", "completions of the model; more than n if the sandbox failed"),
    "k": ("int32", "the k of pass_at_k"),
    "pass_at_1": ("float64?", "n_correct / n; null if n is 0"),
    "pass_at_k": ("float64?", "unbiased estimate (Chen et al. 2021); null if n is below k"),
    "mean_tokens": ("float64?", "mean length of the completions; 0 if the server does not report it"),
    "temperature": ("float64", "sampling temperature"),
    "top_p": ("float64", "nucleus sampling threshold"),
    "max_tokens": ("int32", "maximum tokens of a completion"),
    "seed": ("int32", "the seed from which the seed of each sample is derived"),
    "samples": ("string", "cache key of the samples: problem, tests, prompt, model and settings"),
    "prompt": (
        "string",
        "differences from the default prompt, as JSON: system, template, template_arguments; else empty",
    ),
    "engine": ("string", "options of vLLM that affect completions, as JSON; empty if none was given"),
    "languages": ("string", "allowed languages, separated by spaces; empty for Python alone"),
}


def build_row(id: str, cache_key: str, settings: Mapping[str, Any], records: list[Row], *, n_sampled: int) -> Row:
    """Compute the row of a problem and a model.

    cache_key  value of the column `samples`
    settings   settings of the sampling, by column
    records    samples with a verdict
    """
    verdicts = [record["verdict"] for record in records]
    n, n_correct = len(verdicts), verdicts.count("accepted")
    truncated = [record for record in records if record["truncated"]]
    values = {
        "prompt": "",
        "engine": "",
        "languages": "",
        **settings,
        "id": id,
        "samples": cache_key,
        "n": n,
        "n_correct": n_correct,
        "n_truncated": len(truncated),
        "n_truncated_correct": sum(record["verdict"] == "accepted" for record in truncated),
        "n_no_code": verdicts.count("no_code") + verdicts.count("no_answer"),
        "n_sampled": n_sampled,
        "mean_tokens": sum(record["n_tokens"] for record in records) / n if n else None,
        **estimate_pass_rates(n, n_correct, settings["k"]),
    }
    return {column: values[column] for column in COLUMNS}


def estimate_pass_rates(n: int, n_correct: int, k: int) -> Row:
    return {"k": k, "pass_at_1": pass_at_k(n, n_correct, 1), "pass_at_k": pass_at_k(n, n_correct, k)}


def read(dataset: Path) -> list[Row]:
    """Return all rows, sorted by id and model; empty without samples. Raises CurateError for a damaged file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows: list[Row] = []
    for path in Dataset(dataset).list_files(DIFFICULTY):
        try:
            rows += pq.read_table(path, columns=list(COLUMNS)).to_pylist()
        except (pa.ArrowException, OSError) as error:
            raise CurateError(
                f"{path}: not a table of curate difficulty, or damaged ({shorten(error)}). Remove it, then run `curate "
                "difficulty` again to restore it from the saved samples."
            ) from error
    return rows


def select_remaining_tables(dataset: Dataset, removed: Collection[str]) -> Tables:
    """Return the table `difficulty` without removed rows, and the table `contamination`, if the dataset has them.

    removed: ids of removed rows

    Raises CurateError for a damaged file.
    """
    rates = [row for row in read(dataset.path) if row["id"] not in removed]
    tables: dict[str, tuple[Iterable[Row], Columns]] = {DIFFICULTY: (rates, COLUMNS)} if rates else {}
    if dataset.read_columns("contamination"):
        tables["contamination"] = dataset.iter_rows("contamination"), HIT_COLUMNS
    return tables


def replace_model_rows(dataset: Path, model: str, rows: Iterable[Row]) -> None:
    """Replace the earlier rows of a model. Rows of problems missing from `rows`, removed by a filter, stay."""
    folder = dataset / DIFFICULTY
    # Another process may sample another model.
    with FileLock(folder / ".work" / "lock", wait_seconds=inf):
        before = read(dataset)
        new = {(row["id"], row["model"]): row for row in rows}
        after = {(row["id"], row["model"]): row for row in before} | new
        if list(after.values()) != before:
            replace_table(dataset, [after[key] for key in sorted(after)])
        finished = find_dataset(dataset)
        if finished is not None:
            card.write(finished.manifest, dataset)


def replace_table(dataset: Path, rows: list[Row]) -> None:
    """Replace the table, each file by an atomic rename."""
    folder = dataset / DIFFICULTY
    temporary = folder / ".new"
    shutil.rmtree(temporary, ignore_errors=True)
    write_table(iter(rows), COLUMNS, temporary)
    for path in sorted(temporary.iterdir()):
        path.replace(folder / path.name)
    temporary.rmdir()


@contextmanager
def lock_samples(dataset: Path, model: str) -> Iterator[Path]:
    """Lock the files of this model's samples, and yield their path without suffix."""
    folder = dataset / DIFFICULTY / ".work"
    folder.mkdir(parents=True, exist_ok=True)
    readable = re.sub(r"[^A-Za-z0-9]+", "-", model).strip("-")[-60:]
    stem = folder / f"{readable}-{hashlib.sha256(model.encode()).hexdigest()[:8]}"
    busy = CurateError(f"another process is sampling {model} for {dataset}. Wait until it exits.")
    with FileLock(stem.with_suffix(".lock"), busy):
        yield stem
