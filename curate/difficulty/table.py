"""The table `difficulty/` of a dataset: how often which model solved which problem."""

import fcntl
import hashlib
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from curate.dataset.derivation import own_manifest
from curate.dataset.writer import write_table
from curate.difficulty import card_section
from curate.difficulty.pass_at_k import pass_at_k
from curate.errors import CurateError
from curate.reading.values import short

Row = dict[str, Any]
FOLDER = "difficulty"

# name: (Arrow type, meaning). A type with "?" may be null.
COLUMNS: dict[str, tuple[str, str]] = {
    "id": ("string", "the problem, as in the dataset"),
    "model": ("string", "as it was named when it was sampled"),
    "n": ("int32", "samples that have a verdict"),
    "n_correct": ("int32", "of them, those that passed every test"),
    "n_truncated": ("int32", "of them, those that were cut off before they ended; they count as wrong"),
    "n_no_code": ("int32", "of them, those without a fenced program; they count as wrong"),
    "n_sampled": ("int32", "answers of the model; more than n where the sandbox failed"),
    "k": ("int32", "of pass_at_k"),
    "pass_at_1": ("float64?", "n_correct / n; null where n is 0"),
    "pass_at_k": ("float64?", "unbiased estimate (Chen et al. 2021); null where n is below k"),
    "mean_tokens": ("float64?", "length of the answers; 0 where the server does not tell"),
    "temperature": ("float64", "of the samples"),
    "top_p": ("float64", "of the samples"),
    "max_tokens": ("int32", "most tokens of an answer"),
    "seed": ("int32", "from which the seed of each sample is made"),
    "samples": ("string", "names what the samples depend on: problem, tests, prompt, model and settings"),
}


def row(id: str, name: str, settings: Mapping[str, Any], records: list[Row], *, n_sampled: int) -> Row:
    """One row from the verdicts of a problem's samples."""
    verdicts = [record["verdict"] for record in records]
    n, n_correct = len(verdicts), verdicts.count("accepted")
    values = {
        **settings,
        "id": id,
        "samples": name,
        "n": n,
        "n_correct": n_correct,
        "n_truncated": verdicts.count("truncated"),
        "n_no_code": verdicts.count("no_code"),
        "n_sampled": n_sampled,
        "mean_tokens": sum(record["n_tokens"] for record in records) / n if n else None,
        **estimates(n, n_correct, settings["k"]),
    }
    return {column: values[column] for column in COLUMNS}


def estimates(n: int, n_correct: int, k: int) -> Row:
    return {"k": k, "pass_at_1": pass_at_k(n, n_correct, 1), "pass_at_k": pass_at_k(n, n_correct, k)}


def read(dataset: Path) -> list[Row]:
    """All rows, by id and model; none where no model was sampled. Raises CurateError if they cannot be read."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows: list[Row] = []
    for path in sorted((dataset / FOLDER).glob("train-*.parquet")):
        try:
            rows += pq.read_table(path, columns=list(COLUMNS)).to_pylist()
        except (pa.ArrowException, OSError) as error:
            raise CurateError(
                f"{path}: not a table of curate difficulty, or damaged ({short(error)}). Remove it; the same command "
                "makes it again from the samples beside it."
            ) from error
    return rows


def write(dataset: Path, model: str, rows: Iterable[Row]) -> None:
    """Put the rows of one model in the place of its earlier ones. Problems of the table that are not among `rows` are
    those that a filter has taken away; they stay, so that the whole distribution can be seen."""
    folder = dataset / FOLDER
    with (folder / ".work" / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another model may be at this point in another process
        before = read(dataset)
        new = {(row["id"], row["model"]): row for row in rows}
        after = {(row["id"], row["model"]): row for row in before} | new
        if list(after.values()) != before:
            save(dataset, [after[key] for key in sorted(after)])
        card_section.announce(dataset, list(after.values()), (own_manifest(dataset) or {}).get("solve_rate"))


def save(dataset: Path, rows: list[Row]) -> None:
    """Write the table; a reader finds the old one or the new one."""
    folder = dataset / FOLDER
    aside = folder / ".new"
    shutil.rmtree(aside, ignore_errors=True)
    write_table(iter(rows), COLUMNS, aside)
    for path in sorted(aside.iterdir()):
        path.replace(folder / path.name)
    aside.rmdir()


@contextmanager
def work(dataset: Path, model: str) -> Iterator[Path]:
    """Stem of the files in which this model's samples are collected, held by this process alone.

    They stay beside the table when all is done, so that more samples can be added later.
    """
    folder = dataset / FOLDER / ".work"
    folder.mkdir(parents=True, exist_ok=True)
    readable = re.sub(r"[^A-Za-z0-9]+", "-", model).strip("-")[-60:]
    stem = folder / f"{readable}-{hashlib.sha256(model.encode()).hexdigest()[:8]}"
    with stem.with_suffix(".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise CurateError(f"{model} is being sampled for {dataset} by another process. Wait for it.") from None
        yield stem
