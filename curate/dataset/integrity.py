"""Whether the rows of a dataset are those that its manifest describes.

The files are compared with the hashes in the manifest, which takes seconds. Only if one differs, or if the manifest is
of a version that did not record them, are the rows read and the content hash computed again. If the rows differ too,
their digests say which were changed, removed or added.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from curate.dataset.digests import DIGESTS, TABLES, ContentHash, read_digests
from curate.dataset.files import files_of, hash_of_files
from curate.dataset.folder import DatasetFolder
from curate.errors import CurateError
from curate.manifest import MANIFEST
from curate.problem import COLUMNS
from curate.progress import Progress, counted, silent
from curate.reading.tables import sha256
from curate.trust import Trust
from sandbox import Suite

EXAMPLES = 3


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that is not as the manifest says.

    place     a table, a file or the manifest
    what      what is wrong with it, in words
    examples  some ids of rows, or names of files
    """

    place: str
    what: str
    examples: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.place}: {self.what}" + (f" ({', '.join(self.examples)})" if self.examples else "")


@dataclass(frozen=True, slots=True)
class Integrity:
    """The result of a check.

    content_hash  of the rows as they are now; None if they cannot be read
    n_rows        numbers of rows by table; empty if the rows did not have to be read
    faults        what is not as the manifest says
    rewritten     files that are not those that were written, although their rows are the same
    """

    content_hash: str | None
    n_rows: dict[str, int] = field(default_factory=dict)
    faults: tuple[Fault, ...] = ()
    rewritten: tuple[str, ...] = ()


def check(dataset: DatasetFolder, *, read_rows: bool = False, report: Progress = silent) -> Integrity:
    """Compare a dataset with its manifest.

    read_rows  whether to read every row even if the files are those that were written, and to look for repeated ids
               and for tests that cannot be read
    report     called with the progress of reading
    """
    changed = list(_changed_files(dataset))
    if dataset.manifest.files and not changed and not read_rows:
        return Integrity(dataset.manifest.content_hash)
    rows = _Rows(dataset, report)
    faults: list[Fault] = []
    if dataset.manifest.build is None:
        content_hash = _hash_of_foreign_files(dataset)
    else:
        content_hash, faults = rows.read(tests=read_rows)
    if content_hash != dataset.manifest.content_hash and not faults:
        faults = [Fault("data", f"the content hash is {content_hash}, not {dataset.manifest.content_hash}")]
    altered = bool(faults) or dataset.manifest.build is None
    others = [name for name in changed if altered or name.partition("/")[0] not in (*TABLES, DIGESTS)]
    faults += [Fault(name, "not the file that was written") for name in others if (dataset.path / name).exists()]
    faults += [Fault(name, "the file is missing") for name in others if not (dataset.path / name).exists()]
    return Integrity(content_hash, rows.n_rows, tuple(faults), tuple(name for name in changed if name not in others))


def require_intact(folder: Path, *, advice: str, report: Progress = silent) -> None:
    """Raise CurateError if the rows of a dataset are not those that its manifest describes.

    advice: the end of the message: what to type to use the dataset as it is
    """
    dataset = DatasetFolder.opened(folder)
    if faults := check(dataset, report=report).faults:
        raise CurateError(f"{altered_text(folder, faults)} `curate verify {folder}` shows all. {advice}")


def check_trusted(folder: Path, trust: Trust, *, report: Progress = silent) -> None:
    """Raise CurateError if a dataset is not what its manifest describes, unless `trust` takes altered datasets."""
    if trust.altered:
        return
    take = "--include altered takes the dataset as it is."
    if not (folder / MANIFEST).exists() and (folder / "data").is_dir():
        raise CurateError(f"{folder}: there is no {MANIFEST} that says which rows it should have. {take}")
    require_intact(folder, advice=take, report=report)


def altered_text(folder: Path, faults: Sequence[Fault]) -> str:
    """Return a message that says what is wrong with a dataset."""
    shown = "; ".join(map(str, faults[:EXAMPLES])) + ("; and more" if len(faults) > EXAMPLES else "")
    return f"{folder}: the rows are not those that {MANIFEST} describes: {shown}."


def _changed_files(dataset: DatasetFolder) -> Iterator[str]:
    """Yield the names of files that are missing, new, or not as they were written."""
    recorded = {file.name: file for file in dataset.manifest.files}
    for name, file in recorded.items():
        path = dataset.path / name
        if not path.is_file() or path.stat().st_size != file.bytes or sha256(path) != file.sha256:
            yield name
    if recorded:
        for table in TABLES:
            names = (path.relative_to(dataset.path).as_posix() for path in sorted((dataset.path / table).rglob("*")))
            yield from (name for name in names if name not in recorded and (dataset.path / name).is_file())


def _hash_of_foreign_files(dataset: DatasetFolder) -> str | None:
    try:
        return hash_of_files(files_of(str(dataset.path / "data")).table.files, dataset.path)
    except (CurateError, OSError):
        return None


class _Rows:
    """The rows of a dataset that curate built, which are read once and compared with the manifest."""

    def __init__(self, dataset: DatasetFolder, report: Progress) -> None:
        self._dataset = dataset
        self._report = report
        self._content = ContentHash()
        self._ids: dict[str, list[str]] = {}
        self._unreadable: list[str] = []
        self.n_rows: dict[str, int] = {}

    def read(self, *, tests: bool) -> tuple[str | None, list[Fault]]:
        """Return the content hash, None if the rows cannot be read, and what is wrong with them.

        tests: whether to parse the tests of each row
        """
        try:
            for table in TABLES:
                self._read(table, tests=tests)
        except CurateError as error:
            return None, [Fault(table, f"cannot be read: {error}")]
        content_hash = self._content.hexdigest()
        faults = list(self._counts())
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
        return content_hash, faults

    def _read(self, table: str, *, tests: bool) -> None:
        ids = self._ids[table] = []
        manifest = self._dataset.manifest
        total = manifest.n_kept if table == "data" else manifest.n_rejected
        for row in counted(self._dataset.rows(table), f"read {table}", self._report, total=total):
            self._content.add(row)
            ids.append(row.get("id") or "")
            if tests and table == "data" and not _is_suite(row.get("tests")):
                self._unreadable.append(ids[-1])
        self.n_rows[table] = len(ids)

    def _missing_columns(self) -> list[Fault]:
        missing = COLUMNS.keys() - self._dataset.columns("data")
        return [Fault("data", f"has no column {', '.join(sorted(missing))}")] if missing else []

    def _counts(self) -> Iterator[Fault]:
        manifest = self._dataset.manifest
        for table, wanted in (("data", manifest.n_kept), ("rejected", manifest.n_rejected)):
            if self.n_rows[table] != wanted:
                yield Fault(table, f"has {self.n_rows[table]} rows, not {wanted}")

    def _differences(self, content_hash: str) -> Iterator[Fault]:
        """Yield what the digests of the rows say. Without digests, nothing is known about single rows."""
        same = content_hash == self._dataset.manifest.content_hash
        digests = iter(self._content.digests)
        for table in TABLES:
            now = [(id, next(digests)) for id in self._ids[table]]
            try:
                written = read_digests(self._dataset.path, table)
            except CurateError:  # _changed_files names the file if it was recorded
                continue
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
                yield Fault(table, "the rows are in another order")


def _fault(place: str, of_one: str, of_many: str, ids: Sequence[str]) -> Fault:
    more = ("...",) if len(ids) > EXAMPLES else ()
    return Fault(place, f"{len(ids)} {of_one if len(ids) == 1 else of_many}", (*ids[:EXAMPLES], *more))


def _is_suite(text: Any) -> bool:
    try:
        Suite.from_json(text)
    except (ValueError, KeyError, TypeError):
        return False
    return True
