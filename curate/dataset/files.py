"""Find the files of any dataset, and copy them without some of their rows.

The copied files keep their names, formats, columns and order, and the rows that stay are unchanged.
"""

import hashlib
import json
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from curate.errors import CurateError
from curate.reading.arrow_files import has_index, open_batches
from curate.reading.tables import TableFiles, locate, path_sha256, validate_options


@dataclass(frozen=True, slots=True)
class DatasetFiles:
    """The files to read, and the folder that contains them, directly or in subfolders."""

    table: TableFiles
    root: Path

    def copy(self, dropped: Collection[int], folder: Path) -> list[Path]:
        """Write the files without the rows at these positions, and return them."""
        written = []
        position = 0
        for path in self.table.files:
            target = folder / path.relative_to(self.root)
            target.parent.mkdir(parents=True, exist_ok=True)
            position = _COPIES[path.suffix](path, target, dropped, position)
            written.append(target)
        return written


def find_dataset_files(location: str) -> DatasetFiles:
    """Find the files of a dataset at a location: a file, a folder or a Hub id. Raises CurateError if there are none."""
    table = locate(location)
    validate_options(table, ())
    if table.encoding:
        raise CurateError(
            f"{table.location}: copies are written as UTF-8. Convert the files first, and take encoding out."
        )
    for path in table.files:
        if path.suffix not in _COPIES:
            raise CurateError(f"{path}: unsupported file type. Supported are {', '.join(sorted(_COPIES))}.")
    given = Path(table.location).expanduser()
    parents = [given] if given.is_dir() else table.files[0].parents
    root = next(folder for folder in parents if all(path.is_relative_to(folder) for path in table.files))
    return DatasetFiles(table, root)


def hash_files(files: Iterable[Path], root: Path) -> str:
    """Return the content hash of a dataset that curate did not build and whose measured columns are unknown.

    root: the folder of the dataset
    """
    listed = "".join(f"{path_sha256(file)} {file.relative_to(root).as_posix()}\n" for file in files)
    return hashlib.sha256(listed.encode("utf-8", "surrogateescape")).hexdigest()


def _copy_parquet(path: Path, target: Path, dropped: Collection[int], position: int) -> int:
    import pyarrow.parquet as pq

    with (
        pq.ParquetFile(path) as file,
        pq.ParquetWriter(target, file.schema_arrow, compression="zstd", write_page_index=True) as writer,
    ):
        for group in range(file.num_row_groups):
            rows = file.read_row_group(group)
            kept = rows.filter(_mask(dropped, position, len(rows)))
            if len(kept):
                writer.write_table(kept)
            position += len(rows)
    return position


def _copy_arrow(path: Path, target: Path, dropped: Collection[int], position: int) -> int:
    import pyarrow as pa

    new = pa.ipc.new_file if has_index(path) else pa.ipc.new_stream
    with open_batches(path) as (schema, batches), new(str(target), schema) as writer:
        for batch in batches:
            writer.write_batch(batch.filter(_mask(dropped, position, len(batch))))
            position += len(batch)
    return position


def _copy_jsonl(path: Path, target: Path, dropped: Collection[int], position: int) -> int:
    with path.open("rb") as source, target.open("wb") as file:
        for line in source:
            if line.strip():
                if position not in dropped:
                    file.write(line)
                position += 1
    return position


def _copy_json(path: Path, target: Path, dropped: Collection[int], position: int) -> int:
    rows = json.loads(path.read_text(encoding="utf-8-sig"))
    kept = [row for place, row in enumerate(rows, position) if place not in dropped]
    target.write_text(json.dumps(kept, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    return position + len(rows)


_COPIES = {".parquet": _copy_parquet, ".arrow": _copy_arrow, ".jsonl": _copy_jsonl, ".json": _copy_json}


def _mask(dropped: Collection[int], position: int, n_rows: int) -> list[bool]:
    return [place not in dropped for place in range(position, position + n_rows)]
