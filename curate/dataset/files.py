"""The files of any dataset, and copies of them without some rows.

The remaining rows keep their columns and their order. Parquet and Arrow files become Parquet; JSON lists become JSON
Lines. JSON Lines are copied byte for byte.
"""

import hashlib
import json
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from curate.errors import CurateError
from curate.reading.tables import TableFiles, hash_path, locate, open_batches, validate_options
from curate.reading.values import shorten

if TYPE_CHECKING:
    import pyarrow as pa

# File name suffix of the copy, by suffix of the original.
_TARGETS = {".parquet": ".parquet", ".arrow": ".parquet", ".jsonl": ".jsonl", ".json": ".jsonl"}


@dataclass(frozen=True, slots=True)
class DatasetFiles:
    """The files to read. root: the folder that contains them, directly or in subfolders"""

    table: TableFiles
    root: Path

    @property
    def suffix(self) -> str:
        """The file name suffix of all copies."""
        return _TARGETS[self.table.files[0].suffix]

    def copy(self, dropped_rows: Collection[int], folder: Path) -> tuple[list[Path], int]:
        """Copy the files without some rows. Return the paths of the copies, and the number of rows read.

        dropped_rows: positions of the rows to omit

        Raises CurateError if a value cannot be written as Parquet.
        """
        written = []
        position = 0
        for path in self.table.files:
            target = (folder / path.relative_to(self.root)).with_suffix(self.suffix)
            target.parent.mkdir(parents=True, exist_ok=True)
            copy = _copy_lines if self.suffix == ".jsonl" else _copy_batches
            position = copy(path, target, dropped_rows, position)
            written.append(target)
        return written, position


def find_dataset_files(location: str) -> DatasetFiles:
    """Find the files of a dataset at a location: a file, a folder or a Hub id. Raises CurateError if there are none."""
    table = locate(location)
    validate_options(table, ())
    if table.encoding:
        raise CurateError(
            f"{table.location}: cannot copy files in the encoding {table.encoding}. Convert them to UTF-8, and remove "
            "the option encoding."
        )
    for path in table.files:
        if path.suffix not in _TARGETS:
            raise CurateError(f"{path}: unsupported file type. Supported are {', '.join(sorted(_TARGETS))}.")
    given = Path(table.location).expanduser()
    parents = [given] if given.is_dir() else table.files[0].parents
    root = next(folder for folder in parents if all(path.is_relative_to(folder) for path in table.files))
    return DatasetFiles(table, root)


def hash_files(files: Iterable[Path], root: Path) -> str:
    """Return the content hash of a dataset that curate did not build. root: the folder of the dataset"""
    listed = "".join(f"{hash_path(file)} {file.relative_to(root).as_posix()}\n" for file in files)
    return hashlib.sha256(listed.encode("utf-8", "surrogateescape")).hexdigest()


def _copy_batches(path: Path, target: Path, dropped_rows: Collection[int], position: int) -> int:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with (
            _open_batches(path) as (schema, batches),
            pq.ParquetWriter(target, schema, compression="zstd", write_page_index=True) as writer,
        ):
            for batch in batches:
                mask = pa.array([n not in dropped_rows for n in range(position, position + len(batch))], pa.bool_())
                if len(kept := batch.filter(mask)):
                    writer.write(kept)
                position += len(batch)
    except pa.ArrowException as error:  # from writing: an earlier pass has read all rows
        raise CurateError(
            f"{path}: its rows cannot be written as Parquet ({shorten(error)}). Convert the files to lines of "
            "JSON first."
        ) from error
    return position


@contextmanager
def _open_batches(path: Path) -> Iterator[tuple["pa.Schema", Iterator["pa.RecordBatch | pa.Table"]]]:
    import pyarrow.parquet as pq

    if path.suffix == ".arrow":
        with open_batches(path) as opened:
            yield opened
    else:
        with pq.ParquetFile(path) as file:
            yield file.schema_arrow, map(file.read_row_group, range(file.num_row_groups))


def _copy_lines(path: Path, target: Path, dropped_rows: Collection[int], position: int) -> int:
    with path.open("rb") as source, target.open("wb") as file:
        lines: Iterable[bytes] = source
        if path.suffix == ".json":
            lines = (json.dumps(row).encode() + b"\n" for row in json.loads(path.read_text(encoding="utf-8-sig")))
        for line in lines:
            if line.strip():
                if position not in dropped_rows:
                    file.write(line)
                position += 1
    return position
