"""Streaming of the rows of a dataset on disk or on the Hub, as dictionaries, in batches.

A table can be split into shards, ranges of rows that can be read independently. A shard begins at a Parquet row group,
an Arrow record batch, or a line of an uncompressed JSONL file. A table with any other file is a single shard.
"""

import csv
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import accumulate, chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from curate.errors import CurateError
from curate.reading.location import (
    COLUMNAR,
    FALLBACK_FORMATS,
    FORMATS,
    HUB_ID,
    LISTED_FORMATS,
    STATE,
    LocationSpec,
    check_format,
    find_files_with_rows,
    get_format,
    list_files_below,
    split_location,
)
from curate.reading.text_files import is_encoding, open_text
from curate.reading.values import shorten

if TYPE_CHECKING:
    import pyarrow as pa

Row = dict[str, Any]
# A row with all of its tests can take tens of megabytes, so a batch is small.
BATCH_ROWS = 16
_MAX_FIELD_CHARACTERS = 1 << 30  # of a CSV file; tests can be long
_ARROW_MAGIC = b"ARROW1"  # the first bytes of an Arrow file with an index
_BLANK_BYTES = 64  # maximum length of lines that are checked for Unicode whitespace


@dataclass(frozen=True, slots=True)
class RowPosition:
    """A position before a row of a table.

    position  number of rows before it
    offset    position in the file: a byte offset in JSONL, otherwise the index of a row group or record batch
    line      line number in a JSONL file, from 1
    """

    position: int = 0
    offset: int = 0
    line: int = 1


@dataclass(frozen=True, slots=True)
class TableFiles:
    """The files of a dataset or of a shard, in reading order.

    revision  Hub commit; empty for a local path
    options   options in the location; the source interprets all but `encoding`
    begin     position of the first row to read, in the first file
    n_rows    number of rows to read; None for all
    """

    location: str
    files: tuple[Path, ...]
    revision: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    begin: RowPosition = RowPosition()
    n_rows: int | None = None

    @property
    def encoding(self) -> str:
        """The encoding of text files; empty for UTF-8."""
        return str(self.options.get("encoding", ""))


@dataclass(frozen=True, slots=True)
class UnreadableRow:
    """A row that cannot be read. location: FILE:LINE, or the name of the row's folder"""

    location: str
    detail: str


def locate(location: LocationSpec) -> TableFiles:
    """Find the files of a location: a file, a folder, or a Hub id such as `owner/name` or `owner/name@revision`.

    Downloads a dataset on the Hub into the Hub cache. In a folder, selects the files of one format: the first of
    FORMATS, then FALLBACK_FORMATS, with any file. If the names of some of these begin with train, or their folders are
    named train, selects only those, because test splits are for evaluation.

    All sources have two options (see location.py). `files` is a pattern such as `taco/*` that selects files by path,
    instead of by the name train. `encoding` is the encoding of text files. Raises CurateError if no file is found.
    """
    path_or_id, options = split_location(location)
    pattern = options.pop("files", None)
    if pattern is not None and not isinstance(pattern, str):
        raise CurateError(f"{path_or_id}: files must be one pattern, such as train-*.parquet")
    path = Path(path_or_id).expanduser()
    if path.is_file():
        check_format(path)
        table = TableFiles(path_or_id, (path,))
    elif path.is_dir():
        table = TableFiles(path_or_id, find_files_with_rows(path, path_or_id, pattern))
    # If a folder `data` exists, `data/taco` is a mistyped path rather than a Hub id.
    elif HUB_ID.fullmatch(path_or_id) and not Path(path.parts[0]).exists():
        table = _download(path_or_id, pattern)
    else:
        raise CurateError(f"{path_or_id}: no such file or folder. Give a file, a folder or a Hub id.")
    if "encoding" in options:
        _check_encoding(table, options["encoding"])
    return replace(table, options=options)


def _check_encoding(table: TableFiles, encoding: object) -> None:
    if not is_encoding(encoding):
        raise CurateError(
            f"{table.location}: unknown encoding {encoding!r}. Write the name of one, such as latin-1 or utf-16."
        )
    for path in table.files:
        if get_format(path) in COLUMNAR:
            raise CurateError(f"{path} is not a text file. Remove the option encoding.")


def validate_options(table: TableFiles, names: Sequence[str]) -> Mapping[str, Any]:
    """Return the options of a table. Raises CurateError if the table has options other than `names`."""
    names = (*names, "files", "encoding")
    unknown = [name for name in table.options if name not in names]
    if unknown:
        raise CurateError(f"{table.location}: unknown option {', '.join(unknown)}. Options are {', '.join(names)}.")
    return table.options


def _download(location: str, pattern: str | None) -> TableFiles:
    from huggingface_hub import snapshot_download

    name, _, revision = location.partition("@")
    formats = ([f"*{ending}" for ending in endings] for endings in (FORMATS, FALLBACK_FORMATS))
    for patterns in [[pattern]] if pattern else formats:
        try:
            folder = Path(
                snapshot_download(
                    name, repo_type="dataset", revision=revision or None, allow_patterns=[*patterns, f"*{STATE}"]
                )
            )
        # The Hub client raises exceptions of many libraries.
        except Exception as error:
            raise CurateError(
                f"{location}: no such file or folder, and the download from the Hub failed "
                f"({type(error).__name__}: {shorten(error)}). Check the path, or give the folder of a copy."
            ) from error
        if pattern or any(map(get_format, list_files_below(folder))):
            return TableFiles(location, find_files_with_rows(folder, location, pattern), revision=folder.name)
    known = f"{name}@refs/convert/parquet"
    hint = f" Try the Hub's conversion: {known}" if location != known else ""
    raise CurateError(
        f"{location}: this dataset has no supported file ({LISTED_FORMATS}). It may need a script, "
        f"which curate does not execute.{hint}"
    )


def read_rows(table: TableFiles, columns: Sequence[str], optional: Sequence[str]) -> Iterator[Row | UnreadableRow]:
    """Yield the rows of a table, in order, with these columns. Missing optional columns are None.

    Raises CurateError for a file that is damaged or lacks a required column.
    """
    rows = (_read_file_rows(path, table, columns, optional) for path in table.files)
    yield from islice(chain.from_iterable(rows), table.n_rows)


def _read_file_rows(
    path: Path, table: TableFiles, columns: Sequence[str], optional: Sequence[str]
) -> Iterator[Row | UnreadableRow]:
    begin = table.begin if path == table.files[0] else RowPosition()
    ending, names = get_format(path), (*columns, *optional)
    rows: Iterator[Row | UnreadableRow]
    if ending in COLUMNAR:
        rows = _read_columnar(path, begin.offset, columns, names)
    elif ending.startswith(".jsonl"):
        rows = _read_jsonl(path, table.encoding, begin)
    elif ending.startswith(".json"):
        rows = _read_json(path, table.encoding)
    else:
        rows = _read_csv(path, table.encoding, columns)
    for row in rows:
        if isinstance(row, dict):
            _check_columns(path, row, columns)
            yield {name: row.get(name) for name in names}
        else:
            yield row


def _read_columnar(path: Path, offset: int, required: Sequence[str], names: Sequence[str]) -> Iterator[Row]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        if get_format(path) == ".parquet":
            with pq.ParquetFile(path) as file:
                columns = _select_columns(path, file.schema_arrow.names, required, names)
                groups = list(range(offset, file.num_row_groups))
                for batch in file.iter_batches(batch_size=BATCH_ROWS, row_groups=groups, columns=columns):
                    yield from batch.to_pylist()
        else:
            with open_batches(path) as (schema, batches):
                columns = _select_columns(path, schema.names, required, names)
                for batch in islice(batches, offset, None):
                    for start in range(0, len(batch), BATCH_ROWS):
                        yield from batch.select(columns).slice(start, BATCH_ROWS).to_pylist()
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise CurateError(f"{path}: corrupt or truncated ({shorten(error)}). Download it again.") from error


def _select_columns(path: Path, columns: Sequence[str], required: Sequence[str], names: Sequence[str]) -> list[str]:
    _check_columns(path, columns, required)
    return [name for name in names if name in columns]


@contextmanager
def open_batches(path: Path) -> Iterator[tuple["pa.Schema", Iterator["pa.RecordBatch"]]]:
    """Open an Arrow stream or IPC file (Feather), and yield its schema and its record batches.

    Raises ArrowException or OSError if the file is damaged.
    """
    import pyarrow as pa

    with path.open("rb") as raw:
        has_index = raw.read(len(_ARROW_MAGIC)) == _ARROW_MAGIC
    with pa.memory_map(str(path)) as source:
        if has_index:
            with pa.ipc.open_file(source) as file:
                yield file.schema, map(file.get_batch, range(file.num_record_batches))
        else:
            with pa.ipc.open_stream(source) as stream:
                yield stream.schema, iter(stream)


def _read_jsonl(path: Path, encoding: str, begin: RowPosition) -> Iterator[Row | UnreadableRow]:
    with open_text(path, encoding, offset=begin.offset) as file:
        for number, line in enumerate(file, start=begin.line):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
                if not isinstance(row, dict):
                    raise ValueError("not a JSON object")
            except (ValueError, RecursionError) as error:
                # An error on line 1 means that the file is not JSONL; on a later line, that only this line is damaged.
                if number == 1:
                    raise CurateError(
                        f"{path}: line 1 is not a JSON object. Give a file with one JSON object per line."
                    ) from None
                yield UnreadableRow(f"{path.name}:{number}", f"line is not a JSON object: {shorten(error)}")
            else:
                yield row


def _read_json(path: Path, encoding: str) -> Iterator[Row]:
    try:
        with open_text(path, encoding) as file:
            rows = json.load(file)
    except (ValueError, RecursionError) as error:
        raise CurateError(f"{path}: not JSON ({shorten(error)}). Download it again.") from None
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise CurateError(f"{path}: not a JSON list of objects. Give a list with one object per problem.")
    yield from rows


def _read_csv(path: Path, encoding: str, columns: Sequence[str]) -> Iterator[Row | UnreadableRow]:
    """Yield the rows of a CSV or TSV file. Their values are text, or None if a field is empty."""
    csv.field_size_limit(_MAX_FIELD_CHARACTERS)
    with open_text(path, encoding) as file:
        reader = csv.DictReader(file, delimiter="\t" if get_format(path).startswith(".tsv") else ",", strict=True)
        try:
            for row in reader:
                _check_columns(path, reader.fieldnames or (), columns)
                if None in row or None in row.values():
                    location = f"{path.name}:{reader.line_num}"
                    yield UnreadableRow(location, "more or fewer fields than the first line has")
                else:
                    yield {name: value or None for name, value in row.items()}
        except csv.Error as error:
            raise CurateError(f"{path}: not CSV, near line {reader.line_num} ({error}). Download it again.") from None


def _check_columns(path: Path, columns: Any, required: Sequence[str]) -> None:
    missing = [name for name in required if name not in columns]
    if missing:
        raise CurateError(
            f"{path}: has no column {', '.join(missing)} (it has {', '.join(map(str, columns))}). "
            "Check the file and the NAME in --source; of several files, LOCATION?files=PATTERN selects some."
        )


def split_into_shards(table: TableFiles, min_rows: int) -> list[TableFiles]:
    """Split a table into shards, each except the last with at least `min_rows` rows; return a whole one if impossible.

    A damaged file raises an error only when its rows are read.
    """
    shards: list[TableFiles] = []
    begin, first_file, n_before = RowPosition(), 0, 0
    for number, path in enumerate(table.files):
        positions = _find_shard_positions(path, table.encoding, min_rows)
        if not positions:
            return [table]
        for start in positions[:-1]:
            position = n_before + start.position
            if position - begin.position >= min_rows:
                files = table.files[first_file : number + 1]
                shards.append(replace(table, files=files, begin=begin, n_rows=position - begin.position))
                begin, first_file = replace(start, position=position), number
        n_before += positions[-1].position
    return [*shards, replace(table, files=table.files[first_file:], begin=begin)]


def _find_shard_positions(path: Path, encoding: str, min_rows: int) -> list[RowPosition]:
    """Return the positions where a shard can begin, and the end of the file; empty if the file cannot be split.

    Lines of a JSONL file must end in \\n or \\r\\n.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    ending = get_format(path)
    try:
        if ending == ".parquet":
            file = pq.read_metadata(path)
            counts = [file.row_group(number).num_rows for number in range(file.num_row_groups)]
        elif ending in COLUMNAR:
            with open_batches(path) as (_, batches):
                counts = [len(batch) for batch in batches]
        else:
            return list(_find_line_positions(path, min_rows)) if ending == ".jsonl" and not encoding else []
    except (pa.ArrowException, OSError):
        return []
    return [RowPosition(position, number) for number, position in enumerate(accumulate(counts, initial=0))]


def _find_line_positions(path: Path, min_rows: int) -> Iterator[RowPosition]:
    positions = [RowPosition()]
    n_rows = offset = number = 0
    with path.open("rb") as file:
        if file.read(3) == b"\xef\xbb\xbf":
            return
        file.seek(0)
        for number, line in enumerate(file, start=1):
            if b"\r" in line.removesuffix(b"\r\n"):
                return
            if n_rows - positions[-1].position == min_rows:
                positions.append(RowPosition(n_rows, offset, number))
            n_rows += bool(line.strip() if len(line) > _BLANK_BYTES else line.decode(errors="replace").strip())
            offset += len(line)
    yield from [*positions, RowPosition(n_rows, offset, number)]


def hash_path(path: Path) -> str:
    """Return the SHA-256 hex digest of a file, or of the names and digests of all files below a folder."""
    if path.is_dir():
        below = sorted(inner for inner in path.rglob("*") if inner.is_file())
        listed = "".join(f"{hash_path(inner)} {inner.relative_to(path).as_posix()}\n" for inner in below)
        return hashlib.sha256(listed.encode("utf-8", "surrogateescape")).hexdigest()
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def compute_size_bytes(path: Path) -> int:
    """Return the size in bytes of a file, or of all files below a folder."""
    files = path.rglob("*") if path.is_dir() else [path]
    return sum(file.stat().st_size for file in files if file.is_file())
