"""The comparison of a dataset with its manifest.

A check compares the manifest with its own hash, the files with the manifest's hashes, and its counts with the rows.
This takes seconds. If a file differs, the check reads the rows and computes their hashes. If the rows differ too, their
digests identify the changed, removed and added rows.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from curate.dataset import card, output_folder
from curate.dataset.dataset import Dataset, translate_read_errors
from curate.dataset.digests import DIGESTS, TABLES, RowHasher
from curate.dataset.files import find_dataset_files, hash_files
from curate.errors import CurateError
from curate.manifest import MANIFEST, InputFile, Manifest, compute_hash
from curate.problem import COLUMNS, DEFAULT_VALUES
from curate.progress import Progress, ignore_progress, track_progress
from curate.reading.tables import hash_path
from curate.reading.values import shorten
from curate.trust import TrustPolicy
from sandbox import Suite

EXAMPLES = 3
_REGENERATED_FILES = (card.CARD, "report.json", "report.html")  # required files that later commands may change
_SHADOWS = (".huggingface.yaml", "dataset_infos.json")  # files that `datasets` reads instead of the card's front matter
_COUNTED_ROWS = 50_000


@dataclass(frozen=True, slots=True)
class Discrepancy:
    """A difference from the manifest.

    location  a table, a file or the manifest
    message   description of the mismatch
    examples  some ids of rows, or names of files
    """

    location: str
    message: str
    examples: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.location}: {self.message}" + (f" ({', '.join(self.examples)})" if self.examples else "")


@dataclass(frozen=True, slots=True)
class IntegrityResult:
    """The result of a check. The hashes are computed from the current rows and manifest.

    content_hash     None if the rows cannot be read
    reward_hash      None if the rows cannot be read, or if curate did not build the dataset
    n_rows           number of rows by table; empty if the check read no rows
    faults           differences from the manifest
    rewritten_files  names of changed files with unchanged rows
    """

    content_hash: str | None
    reward_hash: str | None
    manifest_hash: str
    n_rows: dict[str, int]
    faults: tuple[Discrepancy, ...]
    rewritten_files: tuple[str, ...]


def check_integrity(
    dataset: Dataset, *, read_rows: bool = False, progress: Progress = ignore_progress
) -> IntegrityResult:
    """Compare a dataset with its manifest.

    read_rows: whether to read all rows, even of unchanged files, and to report repeated ids and unreadable tests
    """
    manifest, built = dataset.manifest, dataset.manifest.build is not None
    actual = compute_hash(json.loads((dataset.path / MANIFEST).read_text(encoding="utf-8")))
    missing, added, changed = _compare_files(dataset)
    faults = list(_check_counts(dataset)) if built else []
    content_hash, reward_hash = manifest.content_hash or None, manifest.reward_hash or None
    n_rows: dict[str, int] = {}
    if missing or added or changed or read_rows or not manifest.files:
        if built:
            hasher, n_rows, found = _compare_rows(dataset, parse_tests=read_rows, progress=progress)
            content_hash, reward_hash = (hasher.content_hash, hasher.reward_hash) if hasher else (None, None)
            faults += found
        else:
            content_hash = _hash_foreign_files(dataset)
        if not faults:
            faults += _check_hashes(manifest, content_hash, reward_hash)
    same_rows = built and not faults
    rewritten = [name for name in changed if same_rows and name.partition("/")[0] in (*TABLES, DIGESTS)]
    faults += [Discrepancy(name, "the file is missing") for name in missing]
    faults += [Discrepancy(name, "the manifest does not list this file") for name in added]
    faults += [Discrepancy(name, "size or hash differs from the manifest") for name in changed if name not in rewritten]
    faults += [*_check_manifest(manifest, actual), *_check_card(dataset)]
    return IntegrityResult(content_hash, reward_hash, actual, n_rows, tuple(faults), tuple(rewritten))


def require_intact(folder: Path, *, advice: str, read_rows: bool = True, progress: Progress = ignore_progress) -> None:
    """Raise CurateError if the rows of a dataset differ from its manifest.

    advice: the end of the message, with the option to use the dataset anyway
    read_rows: as for `check_integrity`; pass True if the caller copies the manifest's hashes to an output
    """
    found = check_integrity(Dataset.open(folder), read_rows=read_rows, progress=progress)
    if found.faults:
        raise CurateError(f"{describe_mismatch(folder, found.faults)} `curate verify {folder}` shows all. {advice}")


def check_trusted(
    folder: Path, trust: TrustPolicy, *, read_rows: bool = False, progress: Progress = ignore_progress
) -> None:
    """Raise CurateError if a dataset differs from its manifest, unless `trust` includes altered datasets.

    read_rows: as for `check_integrity`
    """
    if trust.include_altered:
        return
    advice = "Pass --include altered to use the dataset anyway."
    if not (folder / MANIFEST).exists() and (folder / "data").is_dir():
        raise CurateError(f"{folder}: there is no {MANIFEST} to compare the rows with. {advice}")
    require_intact(folder, advice=advice, read_rows=read_rows, progress=progress)


def find_warnings(dataset: Dataset) -> Iterator[str]:
    """Yield a warning if a dataset differs from its manifest."""
    found = check_integrity(dataset)
    if found.faults:
        yield f"{describe_mismatch(dataset.path, found.faults)} `curate verify {dataset.path}` shows all."


def describe_mismatch(folder: Path, faults: Sequence[Discrepancy]) -> str:
    """Return a message with the first faults of a dataset."""
    shown = "; ".join(map(str, faults[:EXAMPLES])) + ("; and more" if len(faults) > EXAMPLES else "")
    return f"{folder}: the dataset differs from {MANIFEST}: {shown}."


def _check_manifest(manifest: Manifest, actual: str) -> Iterator[Discrepancy]:
    if actual != manifest.manifest_hash:
        recorded = manifest.manifest_hash or "recorded in it"
        yield Discrepancy(MANIFEST, f"was changed after it was written: its hash is {actual}, not {recorded}")
    parts = {file.name.partition("/")[0] for file in manifest.files}
    required = TABLES if manifest.build is None else (*TABLES, DIGESTS)
    if unnamed := [name for name in required if name not in parts]:
        yield Discrepancy(MANIFEST, f"lacks the hashes of the files of {', '.join(unnamed)}")
    if manifest.build is not None and not manifest.reward_hash:
        yield Discrepancy(MANIFEST, "lacks the reward hash")


def _check_card(dataset: Dataset) -> Iterator[Discrepancy]:
    """Yield faults of the card that make `datasets.load_dataset` open wrong tables or none."""
    from huggingface_hub import metadata_load

    yield from (
        Discrepancy(name, "the file is missing") for name in _REGENERATED_FILES if not (dataset.path / name).is_file()
    )
    shadows = (name for name in _SHADOWS if (dataset.path / name).exists())
    yield from (Discrepancy(name, f"`datasets` reads this file instead of {card.CARD}") for name in shadows)
    try:
        expected = _drop_difficulty_config(card.list_configs(dataset.manifest, dataset.path))
        front = metadata_load(str(dataset.path / card.CARD)) or {}
        listed = _drop_difficulty_config(front.get("configs") or ())
    except (CurateError, OSError, StopIteration):
        return  # the comparison of files reports missing and damaged files
    except Exception as error:  # the YAML parser raises exceptions of many types
        yield Discrepancy(card.CARD, f"its front matter cannot be read ({shorten(error)})")
        return
    if listed != expected or "dataset_info" in front:
        yield Discrepancy(card.CARD, "its front matter does not describe the tables in this folder")


def _drop_difficulty_config(configs: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    # A killed command may have added the table of solve rates without updating the card.
    config = {"config_name": card.DIFFICULTY, "data_files": f"{card.DIFFICULTY}/train-*.parquet"}
    return [entry for entry in configs if entry != config]


def _compare_files(dataset: Dataset) -> tuple[list[str], list[str], list[str]]:
    recorded = {file.name: file for file in dataset.manifest.files}
    present = output_folder.list_immutable_files(dataset.path) if recorded else []
    missing = [name for name in recorded if name not in present]
    changed = [name for name in present if name in recorded and not _is_unchanged(dataset.path, recorded[name])]
    return missing, [name for name in present if name not in recorded], changed


def _is_unchanged(folder: Path, file: InputFile) -> bool:
    path = folder / file.name
    return path.is_file() and path.stat().st_size == file.bytes and hash_path(path) == file.sha256


def _check_counts(dataset: Dataset) -> Iterator[Discrepancy]:
    """Yield the counts of the manifest that differ from the rows. Reads only a few columns."""
    manifest = dataset.manifest
    try:
        kept = _count_values(dataset, "data", ("source", "verified"))
        rejected = _count_values(dataset, "rejected", ("source", "stage", "reason"))
    except CurateError:
        return  # the later comparison of whole rows reports the cause
    totals = ("data", kept.total(), manifest.n_kept), ("rejected", rejected.total(), manifest.n_rejected)
    if faults := [Discrepancy(table, f"has {n} rows, not {wanted}") for table, n, wanted in totals if n != wanted]:
        yield from faults
        return
    recorded_kept, recorded_rejected = Counter[Any](), Counter[Any]()
    for source, count in manifest.counts.items():
        n_verified = count.n_verified or 0
        recorded_kept.update({(source, True): n_verified, (source, False): count.n_kept - n_verified})
        for stage, reasons in count.rejected.items():
            recorded_rejected.update({(source, stage, reason): n for reason, n in reasons.items()})
    if (kept, rejected) != (recorded_kept, recorded_rejected):
        yield Discrepancy(MANIFEST, "its counts differ from the rows")


def _count_values(dataset: Dataset, table: str, columns: Sequence[str]) -> "Counter[Any]":
    counts = Counter[Any]()
    for batch in dataset.iter_batches(table, columns, rows=_COUNTED_ROWS):
        counts.update(zip(*(batch.column(name).to_pylist() for name in columns), strict=True))
    return counts


def _check_hashes(manifest: Manifest, content_hash: str | None, reward_hash: str | None) -> Iterator[Discrepancy]:
    if content_hash != manifest.content_hash:
        yield Discrepancy("data", f"the content hash is {content_hash}, not {manifest.content_hash}")
    if manifest.reward_hash and reward_hash != manifest.reward_hash:
        yield Discrepancy("data", f"the reward hash is {reward_hash}, not {manifest.reward_hash}")


def _hash_foreign_files(dataset: Dataset) -> str | None:
    try:
        return hash_files(find_dataset_files(str(dataset.path / "data")).table.files, dataset.path)
    except (CurateError, OSError):
        return None


def _compare_rows(
    dataset: Dataset, *, parse_tests: bool, progress: Progress
) -> tuple[RowHasher | None, dict[str, int], list[Discrepancy]]:
    """Compare all rows of a dataset that curate built with the manifest.

    Returns their hashes (None if they cannot be read), the number of rows by table, and the faults.
    """
    manifest, hasher = dataset.manifest, RowHasher()
    ids: dict[str, list[str]] = {}
    unreadable: list[str] = []
    for table, total in (("data", manifest.n_kept), ("rejected", manifest.n_rejected)):
        of_table: list[str] = []
        try:
            for row in track_progress(dataset.iter_rows(table), f"read {table}", progress, total=total):
                hasher.add(row, table)
                of_table.append(row.get("id") or "")
                if parse_tests and table == "data" and not _is_suite(row.get("tests")):
                    unreadable.append(of_table[-1])
        except CurateError as error:
            n_rows = {table: len(names) for table, names in ids.items()}
            return None, n_rows, [Discrepancy(table, f"cannot be read: {error}")]
        ids[table] = of_table
    faults = []
    if hasher.content_hash != manifest.content_hash and (
        missing := COLUMNS.keys() - DEFAULT_VALUES.keys() - dataset.read_columns("data")
    ):
        faults.append(Discrepancy("data", f"has no column {', '.join(sorted(missing))}"))
    faults += _find_changed_rows(dataset, hasher, ids)
    if repeated := [id for id, n in Counter(ids["data"]).items() if n > 1]:
        faults.append(_describe_row_fault("data", "id occurs more than once", "ids occur more than once", repeated))
    if unreadable:
        texts = "row has tests that cannot be read", "rows have tests that cannot be read"
        faults.append(_describe_row_fault("data", *texts, unreadable))
    return hasher, {table: len(names) for table, names in ids.items()}, faults


def _find_changed_rows(dataset: Dataset, hasher: RowHasher, ids: Mapping[str, Sequence[str]]) -> Iterator[Discrepancy]:
    """Yield the changed rows by their digests; nothing without recorded digests.

    hasher: hasher of the current rows
    ids: ids of the current rows, by table
    """
    same = hasher.content_hash == dataset.manifest.content_hash
    digests = hasher.digests
    for table in TABLES:
        now = [(id, next(digests)) for id in ids[table]]
        try:
            written = _read_digests(dataset.path, table)
        except CurateError as error:
            if (dataset.path / DIGESTS).exists():
                yield Discrepancy(DIGESTS, f"cannot be read: {error}")
            return
        if now == written:
            continue
        gone, new = Counter(written) - Counter(now), Counter(now) - Counter(written)
        before, after = {id for id, _ in gone}, {id for id, _ in new}
        for what, names in (
            ("changed in measured columns" if same else "changed", before & after),
            ("removed", before - after),
            ("added", after - before),
        ):
            if names:
                yield _describe_row_fault(table, f"row was {what}", f"rows were {what}", sorted(names))
        if not gone and not new:
            yield Discrepancy(table, "the order of the rows was changed")


def _read_digests(folder: Path, table: str) -> list[tuple[str, str]]:
    """Return the recorded id and digest of each row of a table, in order. Raises CurateError if they are unreadable."""
    import pyarrow.parquet as pq

    path = folder / DIGESTS
    with translate_read_errors(path):
        rows = pq.read_table(path, columns=["id", "digest"], filters=[("table", "==", table)])
        return list(zip(rows.column("id").to_pylist(), rows.column("digest").to_pylist(), strict=True))


def _describe_row_fault(table: str, singular: str, plural: str, ids: Sequence[str]) -> Discrepancy:
    more = ("...",) if len(ids) > EXAMPLES else ()
    return Discrepancy(table, f"{len(ids)} {singular if len(ids) == 1 else plural}", (*ids[:EXAMPLES], *more))


def _is_suite(text: Any) -> bool:
    try:
        Suite.from_json(text)
    except (ValueError, KeyError, TypeError):
        return False
    return True
