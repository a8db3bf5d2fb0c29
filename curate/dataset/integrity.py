"""The comparison of a dataset with its manifest.

The manifest is compared with its own hash, the files with the hashes in the manifest, and its counts with the rows,
which takes seconds. If a file differs, the rows are read and their hashes computed again. If the rows differ too, their
digests say which were changed, removed or added.
"""

import json
import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from curate.dataset import card, difficulty_section, output_folder
from curate.dataset.dataset import Dataset, translate_read_errors
from curate.dataset.digests import DIGESTS, TABLES, RowHasher
from curate.dataset.files import find_dataset_files, hash_files
from curate.errors import CurateError
from curate.manifest import MANIFEST, InputFile, Manifest, hash_of
from curate.problem import COLUMNS
from curate.progress import Progress, no_progress, with_progress
from curate.reading.tables import path_sha256
from curate.reading.values import shorten
from curate.trust import TrustPolicy
from sandbox import Suite

EXAMPLES = 3
CARD = "README.md"
_REGENERATED_FILES = (CARD, "report.json", "report.html")  # commands may change them, but each dataset has them
_SHADOWS = (".huggingface.yaml", "dataset_infos.json")  # files that `datasets` prefers to the front matter of the card
_OTHER_FILE = "not the file that was written"
_UNCHECKED = (
    "measured columns not checked: an earlier version of curate wrote the dataset, and its manifest has no reward "
    "hash; build it again"
)
_COUNTED_ROWS = 50_000
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Discrepancy:
    """Something that is not as the manifest says.

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
    """The result of a check.

    content_hash      of the rows as they are now; None if they cannot be read
    reward_hash       of the rows as they are now; None if they cannot be read, or if curate did not build the dataset
    manifest_hash     of the manifest as it is now
    n_rows            numbers of rows by table; empty if the rows did not have to be read
    faults            differences from the manifest
    rewritten         changed files whose rows are the same
    unchecked_reason  what could not be checked, and why; empty if everything was
    """

    content_hash: str | None
    reward_hash: str | None
    manifest_hash: str
    n_rows: dict[str, int] = field(default_factory=dict)
    faults: tuple[Discrepancy, ...] = ()
    rewritten: tuple[str, ...] = ()
    unchecked_reason: str = ""


def check_integrity(dataset: Dataset, *, read_rows: bool = False, progress: Progress = no_progress) -> IntegrityResult:
    """Compare a dataset with its manifest.

    read_rows  whether to read every row even of unchanged files, and report repeated ids and unreadable tests
    progress   called with the progress of reading
    """
    manifest = dataset.manifest
    of_manifest = hash_of(json.loads((dataset.path / MANIFEST).read_text(encoding="utf-8")))
    others = [*_manifest_faults(manifest, of_manifest), *_card_faults(dataset)]
    missing, added, changed = _file_differences(dataset)
    row_faults = list(_count_faults(dataset))
    content_hash, reward_hash = manifest.content_hash or None, manifest.reward_hash or None
    rows = _Rows(dataset, progress)
    if missing or added or changed or read_rows or not manifest.files:
        if manifest.build is None:
            content_hash = _hash_of_foreign_files(dataset)
        else:
            content_hash, reward_hash, found = rows.read(tests=read_rows)
            row_faults += found
        if not row_faults:
            row_faults += _hash_faults(manifest, content_hash, reward_hash)
    same_rows = not row_faults and manifest.build is not None
    rewritten = [name for name in changed if same_rows and name.partition("/")[0] in (*TABLES, DIGESTS)]
    faults = row_faults + [Discrepancy(name, "the file is missing") for name in missing]
    faults += [Discrepancy(name, _OTHER_FILE) for name in (*added, *changed) if name not in rewritten]
    unchecked = "" if manifest.build is None or _is_hashed(manifest) else _UNCHECKED
    return IntegrityResult(
        content_hash, reward_hash, of_manifest, rows.n_rows, tuple(faults + others), tuple(rewritten), unchecked
    )


def require_intact(folder: Path, *, advice: str, read_rows: bool = True, progress: Progress = no_progress) -> None:
    """Raise CurateError if the rows of a dataset are not those that its manifest describes.

    advice: the end of the message: what to type to use the dataset as it is
    read_rows: as for `check`; false where the hashes of the manifest are not repeated anywhere
    """
    found = check_integrity(Dataset.open(folder), read_rows=read_rows, progress=progress)
    if found.faults:
        raise CurateError(f"{mismatch_message(folder, found.faults)} `curate verify {folder}` shows all. {advice}")
    if found.unchecked_reason:
        log.warning("%s: %s", folder, found.unchecked_reason)


def check_trusted(
    folder: Path, trust: TrustPolicy, *, read_rows: bool = False, progress: Progress = no_progress
) -> None:
    """Raise CurateError if a dataset is not what its manifest describes, unless `trust` takes altered datasets.

    read_rows: as for `check`
    """
    if trust.include_altered:
        return
    take = "--include altered takes the dataset as it is."
    if not (folder / MANIFEST).exists() and (folder / "data").is_dir():
        raise CurateError(f"{folder}: there is no {MANIFEST} that says which rows it should have. {take}")
    require_intact(folder, advice=take, read_rows=read_rows, progress=progress)


def warnings(dataset: Dataset) -> Iterator[str]:
    """Yield a message if a dataset is not what its manifest describes, and one if not everything can be checked."""
    found = check_integrity(dataset)
    if found.faults:
        yield f"{mismatch_message(dataset.path, found.faults)} `curate verify {dataset.path}` shows all."
    if found.unchecked_reason:
        yield f"{dataset.path}: {found.unchecked_reason}"


def mismatch_message(folder: Path, faults: Sequence[Discrepancy]) -> str:
    """Return a message that says what is wrong with a dataset."""
    shown = "; ".join(map(str, faults[:EXAMPLES])) + ("; and more" if len(faults) > EXAMPLES else "")
    return f"{folder}: the rows are not those that {MANIFEST} describes: {shown}."


def _is_hashed(manifest: Manifest) -> bool:
    """Return whether this version of curate wrote the manifest: earlier ones wrote neither of these hashes."""
    return bool(manifest.manifest_hash or manifest.reward_hash)


def _manifest_faults(manifest: Manifest, actual: str) -> Iterator[Discrepancy]:
    if not _is_hashed(manifest):
        return
    if actual != manifest.manifest_hash:
        recorded = manifest.manifest_hash or "recorded in it"
        yield Discrepancy(MANIFEST, f"was changed after it was written: its hash is {actual}, not {recorded}")
    parts = {file.name.partition("/")[0] for file in manifest.files}
    required = TABLES if manifest.build is None else (*TABLES, DIGESTS)
    if unnamed := [name for name in required if name not in parts]:
        yield Discrepancy(MANIFEST, f"lacks the hashes of the files of {', '.join(unnamed)}")
    if manifest.build is not None and not manifest.reward_hash:
        yield Discrepancy(MANIFEST, "lacks the reward hash")


def _card_faults(dataset: Dataset) -> Iterator[Discrepancy]:
    """Yield what makes `datasets.load_dataset` open other tables than those of the dataset, or none."""
    from huggingface_hub import metadata_load

    if not _is_hashed(dataset.manifest):
        return
    yield from (
        Discrepancy(name, "the file is missing") for name in _REGENERATED_FILES if not (dataset.path / name).is_file()
    )
    yield from (Discrepancy(name, "takes the place of the card") for name in _SHADOWS if (dataset.path / name).exists())
    try:
        expected = card.configs(dataset.manifest, dataset.path)
        front = metadata_load(str(dataset.path / CARD)) or {}
        listed = [entry for entry in front.get("configs") or () if entry != difficulty_section.CONFIG]
    except (CurateError, OSError, StopIteration):
        return  # the comparison of files names what is missing or damaged
    except Exception as error:  # a parser of YAML raises errors of half a dozen kinds
        yield Discrepancy(CARD, f"its front matter cannot be read ({shorten(error)})")
        return
    if listed != expected or "dataset_info" in front:
        yield Discrepancy(CARD, "its front matter does not describe the tables in this folder")


def _file_differences(dataset: Dataset) -> tuple[list[str], list[str], list[str]]:
    """Return the names of files that are missing, that were added, and that are not as they were written."""
    recorded = {file.name: file for file in dataset.manifest.files}
    present = output_folder.immutable_file_names(dataset.path) if recorded else []
    missing = [name for name in recorded if name not in present]
    changed = [name for name in present if name in recorded and not _is_as_written(dataset.path, recorded[name])]
    return missing, [name for name in present if name not in recorded], changed


def _is_as_written(folder: Path, file: InputFile) -> bool:
    path = folder / file.name
    return path.is_file() and path.stat().st_size == file.bytes and path_sha256(path) == file.sha256


def _count_faults(dataset: Dataset) -> Iterator[Discrepancy]:
    """Yield the counts of the manifest that are not those of the rows. Only a few columns are read."""
    manifest = dataset.manifest
    if manifest.build is None:
        return
    kept, verified, rejected = Counter[Any](), Counter[Any](), Counter[Any]()
    try:
        for row in _values(dataset, "data", "source", "verified"):
            kept[row["source"]] += 1
            verified[row["source"]] += row["verified"]
        for row in _values(dataset, "rejected", "source", "stage", "reason"):
            rejected[row["source"], row["stage"], row["reason"]] += 1
    except (CurateError, KeyError, TypeError):
        return  # reading whole rows names the cause
    totals = ("data", kept.total(), manifest.n_kept), ("rejected", rejected.total(), manifest.n_rejected)
    if faults := [Discrepancy(table, f"has {n} rows, not {wanted}") for table, n, wanted in totals if n != wanted]:
        yield from faults
        return
    by_reason = {
        (source, stage, reason): n
        for source, count in manifest.counts.items()
        for stage, reasons in count.rejected.items()
        for reason, n in reasons.items()
    }
    recorded: list[dict[Any, int]] = [
        {source: count.n_kept for source, count in manifest.counts.items()},
        {source: count.n_verified or 0 for source, count in manifest.counts.items()},
        by_reason,
    ]
    if [kept, verified, rejected] != [Counter(numbers) for numbers in recorded]:
        yield Discrepancy(MANIFEST, "its counts are not those of the rows")


def _values(dataset: Dataset, table: str, *columns: str) -> Iterator[dict[str, Any]]:
    for batch in dataset.batches(table, columns, rows=_COUNTED_ROWS):
        yield from batch.to_pylist()


def _hash_faults(manifest: Manifest, content_hash: str | None, reward_hash: str | None) -> Iterator[Discrepancy]:
    if content_hash != manifest.content_hash:
        yield Discrepancy("data", f"the content hash is {content_hash}, not {manifest.content_hash}")
    if manifest.reward_hash and reward_hash != manifest.reward_hash:
        yield Discrepancy("data", f"the reward hash is {reward_hash}, not {manifest.reward_hash}")


def _hash_of_foreign_files(dataset: Dataset) -> str | None:
    try:
        return hash_files(find_dataset_files(str(dataset.path / "data")).table.files, dataset.path)
    except (CurateError, OSError):
        return None


class _Rows:
    """The rows of a dataset that curate built, which are read once and compared with the manifest."""

    def __init__(self, dataset: Dataset, progress: Progress) -> None:
        self._dataset = dataset
        self._progress = progress
        self._hasher = RowHasher()
        self._ids: dict[str, list[str]] = {}
        self._unreadable: list[str] = []
        self.n_rows: dict[str, int] = {}

    def read(self, *, tests: bool) -> tuple[str | None, str | None, list[Discrepancy]]:
        """Return the content hash and the reward hash, None if the rows cannot be read, and what is wrong with them.

        tests: whether to parse the tests of each row
        """
        try:
            for table in TABLES:
                self._read(table, tests=tests)
        except CurateError as error:
            return None, None, [Discrepancy(table, f"cannot be read: {error}")]
        content_hash = self._hasher.content_hash
        faults = []
        if content_hash != self._dataset.manifest.content_hash:
            faults += self._missing_columns()
        faults += self._differences(content_hash)
        repeated = [id for id, n in Counter(self._ids["data"]).items() if n > 1]
        if repeated:
            faults.append(_fault("data", "id occurs more than once", "ids occur more than once", repeated))
        if self._unreadable:
            faults.append(
                _fault(
                    "data", "row has tests that cannot be read", "rows have tests that cannot be read", self._unreadable
                )
            )
        return content_hash, self._hasher.reward_hash, faults

    def _read(self, table: str, *, tests: bool) -> None:
        ids = self._ids[table] = []
        manifest = self._dataset.manifest
        add, total = self._hasher.add, manifest.n_kept
        if table == "rejected":
            add, total = self._hasher.add_rejected, manifest.n_rejected
        for row in with_progress(self._dataset.rows(table), f"read {table}", self._progress, total=total):
            add(row)
            ids.append(row.get("id") or "")
            if tests and table == "data" and not _is_suite(row.get("tests")):
                self._unreadable.append(ids[-1])
        self.n_rows[table] = len(ids)

    def _missing_columns(self) -> list[Discrepancy]:
        missing = COLUMNS.keys() - self._dataset.columns("data")
        return [Discrepancy("data", f"has no column {', '.join(sorted(missing))}")] if missing else []

    def _differences(self, content_hash: str) -> Iterator[Discrepancy]:
        """Yield what the digests of the rows say. Without digests, nothing is known about single rows."""
        same = content_hash == self._dataset.manifest.content_hash
        digests = self._hasher.digests
        for table in TABLES:
            now = [(id, next(digests)) for id in self._ids[table]]
            try:
                written = _read_digests(self._dataset.path, table)
            except CurateError as error:
                if (self._dataset.path / DIGESTS).exists():
                    yield Discrepancy(DIGESTS, f"cannot be read: {error}")
                return
            if now == written:
                continue
            gone, new = Counter(written) - Counter(now), Counter(now) - Counter(written)
            before, after = {id for id, _ in gone}, {id for id, _ in new}
            for what, ids in (
                ("changed in columns that are measured" if same else "changed", before & after),
                ("removed", before - after),
                ("added", after - before),
            ):
                if ids:
                    yield _fault(table, f"row was {what}", f"rows were {what}", sorted(ids))
            if not gone and not new:
                yield Discrepancy(table, "the rows are in another order")


def _read_digests(folder: Path, table: str) -> list[tuple[str, str]]:
    """Return the id and the digest of each row that was written to a table, in order. Raises CurateError."""
    import pyarrow.parquet as pq

    path = folder / DIGESTS
    with translate_read_errors(path):
        rows = pq.read_table(path, columns=["id", "digest"], filters=[("table", "==", table)])
        return list(zip(rows.column("id").to_pylist(), rows.column("digest").to_pylist(), strict=True))


def _fault(place: str, of_one: str, of_many: str, ids: Sequence[str]) -> Discrepancy:
    more = ("...",) if len(ids) > EXAMPLES else ()
    return Discrepancy(place, f"{len(ids)} {of_one if len(ids) == 1 else of_many}", (*ids[:EXAMPLES], *more))


def _is_suite(text: Any) -> bool:
    try:
        Suite.from_json(text)
    except (ValueError, KeyError, TypeError):
        return False
    return True
