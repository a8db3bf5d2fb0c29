"""Stream the rows of a dataset on disk or on the Hub as plain dictionaries, one batch of a file at a time."""

import csv
import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from itertools import chain, islice
from pathlib import Path
from typing import Any

from curate.errors import CurateError
from curate.reading.arrow_files import open_batches
from curate.reading.location import HUB_ID, LocationSpec, split_location
from curate.reading.text_files import COMPRESSION_SUFFIXES, is_encoding, open_text
from curate.reading.values import shorten

Row = dict[str, Any]
FORMATS = (".parquet", ".arrow", ".jsonl", ".json")
# These are read if there is no file of FORMATS.
FALLBACK_FORMATS = (
    *(f"{ending}{packing}" for ending in (".jsonl", ".json") for packing in COMPRESSION_SUFFIXES),
    *(f"{ending}{packing}" for ending in (".csv", ".tsv") for packing in ("", *COMPRESSION_SUFFIXES)),
    ".feather",
    ".ipc",
)
COLUMNAR = (".parquet", ".arrow", ".feather", ".ipc")
_LISTED = f"{', '.join(COLUMNAR)}, .jsonl, .json, .csv or .tsv"
_STATE = "state.json"  # of a data set that `datasets` saved; it names the files of the rows
# Files beside the rows, which the tools of the Hub write.
_DESCRIPTIONS = ("dataset_info.json", "dataset_infos.json", "dataset_dict.json", "state.json")
# Rows with all their tests can take tens of megabytes, so only a few are held at once.
BATCH_ROWS = 16
_MAX_FIELD = 1 << 30  # characters of a field of a CSV file; tests can be long


@dataclass(frozen=True, slots=True)
class RowPlace:
    """A place between two rows of a table.

    position  number of the table's rows before it
    offset    where it is in its file: a byte of a JSONL file, or the number of a row group or record batch
    line      the number of the line there, in a JSONL file
    """

    position: int = 0
    offset: int = 0
    line: int = 1


@dataclass(frozen=True, slots=True)
class TableFiles:
    """The files of one dataset, in the order in which they are read.

    revision  the Hub commit; empty for a local path
    options   options that were given with the location; the source interprets them, but for `encoding`
    begin     place of the first row to read, in the first of the files (table_shards.py)
    n_rows    number of rows to read from there; None: all
    """

    location: str
    files: tuple[Path, ...]
    revision: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    begin: RowPlace = RowPlace()
    n_rows: int | None = None

    @property
    def encoding(self) -> str:
        """The encoding of files of text; empty for UTF-8."""
        return str(self.options.get("encoding", ""))


@dataclass(frozen=True, slots=True)
class UnreadableRow:
    """A line of a JSONL file that is not a JSON object. Its place is `file:line`, with lines counted from one."""

    location: str
    detail: str


def locate(location: LocationSpec) -> TableFiles:
    """Find the files of a location.

    A location is a file, a folder, or the id of a dataset on the Hub such as `owner/name` or `owner/name@revision`,
    which is downloaded into the usual Hub cache.

    In a folder, only files of the first of FORMATS, or otherwise of FALLBACK_FORMATS, that occurs are read. If some of
    these are named train or are in a folder named train, only those are read, because datasets are for training, and
    test splits are for evaluation.

    Options may follow the location, or be with it in a TOML file; see location.py. All sources have two options:
    `files` is a pattern such as `taco/*` that the files to read must match, whether they are named train or not;
    `encoding` names the encoding of files of text. Raises CurateError if nothing is found.
    """
    place, options = split_location(location)
    pattern = options.pop("files", None)
    if pattern is not None and not isinstance(pattern, str):
        raise CurateError(f"{place}: files must be one pattern, such as train-*.parquet")
    path = Path(place).expanduser()
    if path.is_file():
        _check_format(path)
        table = TableFiles(place, (path,))
    elif path.is_dir():
        table = TableFiles(place, _files(path, place, pattern))
    # `data/taco` with a folder `data` beside it is a mistyped path rather than a Hub id.
    elif HUB_ID.fullmatch(place) and not Path(path.parts[0]).exists():
        table = _from_hub(place, pattern)
    else:
        raise CurateError(f"{place}: no such file or folder. Give a file, a folder or a Hub id.")
    _check_encoding(table, options)
    return replace(table, options=options)


def _check_encoding(table: TableFiles, options: Mapping[str, Any]) -> None:
    if "encoding" not in options:
        return
    if not is_encoding(options["encoding"]):
        raise CurateError(
            f"{table.location}: no encoding {options['encoding']!r}. Write the name of one, such as latin-1 or utf-16."
        )
    for path in table.files:
        if format_of(path) in COLUMNAR:
            raise CurateError(f"{path} is not a file of text. Take encoding out.")


def validate_options(table: TableFiles, names: Sequence[str]) -> Mapping[str, Any]:
    """Return the options of a table. Raises CurateError if it has an option that is not among the given names."""
    names = (*names, "files", "encoding")
    unknown = [name for name in table.options if name not in names]
    if unknown:
        raise CurateError(f"{table.location}: unknown option {', '.join(unknown)}. Options are {', '.join(names)}.")
    return table.options


def _files(folder: Path, location: str, pattern: str | None = None) -> tuple[Path, ...]:
    paths = list(_below(folder))
    if pattern:
        matching = [path for path in paths if fnmatchcase(path.relative_to(folder).as_posix(), pattern)]
        if not matching:
            names = ", ".join(sorted(path.relative_to(folder).as_posix() for path in paths)[:5])
            raise CurateError(f"{location}: no file matches {pattern}. There are {names or 'none'}.")
        paths = matching
    for ending in (*FORMATS, *FALLBACK_FORMATS):
        files = sorted((path for path in paths if format_of(path) == ending), key=_natural)
        if files:
            train = [p for p in files if p.name.startswith("train") or p.parent.name == "train"]
            return tuple(files if pattern else train or files)
    if pattern:
        _check_format(sorted(paths)[0])
    raise CurateError(f"{location}: no file inside that can be read ({_LISTED}). Give the folder of the data.")


def format_of(path: Path) -> str:
    """Return the ending of a file if it is one of FORMATS or FALLBACK_FORMATS, and otherwise the empty text."""
    name = path.name.lower()
    if name in _DESCRIPTIONS:
        return ""
    return next((ending for ending in (*FALLBACK_FORMATS, *FORMATS) if name.endswith(ending)), "")


def _check_format(path: Path) -> None:
    """Raise CurateError if a file cannot be read because of what it is."""
    if format_of(path):
        return
    if path.suffix in (".zip", ".tar", ".tgz", ".txz", ".7z", ".rar") or ".tar." in path.name:
        raise CurateError(f"{path}: an archive. Unpack it, and give the folder.")
    if path.suffix in (*COMPRESSION_SUFFIXES, ".bz2"):
        raise CurateError(
            f"{path}: this compression is not read. Unpack it; .jsonl, .json, .csv and .tsv may end in .gz, .zst or "
            ".xz."
        )
    raise CurateError(
        f"{path}: not a file of rows. Give a file that ends in {_LISTED}; the last four may also end in .gz, .zst or "
        ".xz."
    )


def _below(folder: Path) -> Iterator[Path]:
    """Yield the files below a folder. Raises OSError or CurateError rather than leaving something out unnoticed."""
    for place, folders, names in os.walk(folder, onerror=_raise):
        # Folders that begin with a dot are caches of download tools.
        folders[:] = [name for name in folders if not name.startswith(".")]
        shown = [name for name in names if not name.startswith(".")]
        for path in (Path(place, name) for name in _without_caches(Path(place), shown)):
            if path.is_file():
                yield path
            elif path.is_symlink() and format_of(path):
                raise CurateError(f"{path}: a link to a missing file. Fetch the file again, or remove the link.")


def _without_caches(folder: Path, names: list[str]) -> list[str]:
    """Return the names without Arrow files with results of `map` and `filter`, which `datasets` keeps beside the rows.

    Raises CurateError if a file with rows is missing.
    """
    rows = None
    if _STATE in names:
        with suppress(ValueError, KeyError, TypeError):  # written by something else
            rows = [file["filename"] for file in json.loads((folder / _STATE).read_bytes())["_data_files"]]
    if rows is None:
        prepared = "dataset_info.json" in names  # in the cache of `datasets`
        return [name for name in names if not (prepared and fnmatchcase(name, "cache-*.arrow"))]
    if missing := [name for name in rows if name not in names]:
        raise CurateError(f"{folder / _STATE} names {missing[0]}, which is missing. Fetch it again.")
    return [name for name in names if name in rows or not name.endswith(".arrow")]


def _raise(error: OSError) -> None:
    raise error


def _natural(path: Path) -> list[tuple[int, str]]:
    """Return a sort key by which test comes before test2, and test2 before test10."""
    parts = re.split(r"(\d+)", str(path.with_suffix("")))
    return [(int(part), "") if part.isdigit() else (-1, part) for part in parts]


def _from_hub(location: str, pattern: str | None) -> TableFiles:
    name, _, revision = location.partition("@")
    if pattern:
        folder = _downloaded(location, [pattern, f"*{_STATE}"])
        return TableFiles(location, _files(folder, location, pattern), revision=folder.name)
    for endings in (FORMATS, FALLBACK_FORMATS):
        folder = _downloaded(location, [*(f"*{ending}" for ending in endings), f"*{_STATE}"])
        if any(format_of(path) for path in _below(folder)):
            return TableFiles(location, _files(folder, location), revision=folder.name)
    known = f"{name}@refs/convert/parquet"
    hint = f" The Hub's own conversion may exist: {known}" if location != known else ""
    raise CurateError(
        f"{location}: this dataset has no file that can be read ({_LISTED}; it may need a script, "
        f"which is not executed).{hint}"
    )


def _downloaded(location: str, patterns: Sequence[str]) -> Path:
    from huggingface_hub import snapshot_download

    name, _, revision = location.partition("@")
    try:
        return Path(
            snapshot_download(name, repo_type="dataset", revision=revision or None, allow_patterns=list(patterns))
        )
    except Exception as error:  # the Hub client raises errors of half a dozen libraries
        raise CurateError(
            f"{location}: no such file or folder, and the Hub did not give a data set of that name "
            f"({type(error).__name__}: {shorten(error)}). Check the path, or give the folder of a copy."
        ) from error


def read_rows(table: TableFiles, columns: Sequence[str], optional: Sequence[str]) -> Iterator[Row | UnreadableRow]:
    """Yield the rows of a table, in order, with the given columns; an optional column that is missing is None.

    Raises CurateError on a file that is damaged or lacks a column.
    """
    rows = (_file_rows(path, table, columns, optional) for path in table.files)
    yield from islice(chain.from_iterable(rows), table.n_rows)


def _file_rows(
    path: Path, table: TableFiles, columns: Sequence[str], optional: Sequence[str]
) -> Iterator[Row | UnreadableRow]:
    begin = table.begin if path == table.files[0] else RowPlace()
    ending = format_of(path)
    if ending in COLUMNAR:
        yield from _columnar(path, begin.offset, columns, optional)
    elif ending.startswith(".jsonl"):
        yield from _jsonl(path, table.encoding, begin, columns, optional)
    elif ending.startswith(".json"):
        yield from _json(path, table.encoding, columns, optional)
    else:
        yield from _csv(path, table.encoding, columns, optional)


def _columnar(path: Path, offset: int, columns: Sequence[str], optional: Sequence[str]) -> Iterator[Row]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        if format_of(path) == ".parquet":
            with pq.ParquetFile(path) as file:
                present = _present(path, file.schema_arrow.names, columns, optional)
                groups = list(range(offset, file.num_row_groups))
                for batch in file.iter_batches(batch_size=BATCH_ROWS, row_groups=groups, columns=present):
                    yield from (_row(row, columns, optional) for row in batch.to_pylist())
        else:
            with open_batches(path) as (schema, batches):
                present = _present(path, schema.names, columns, optional)
                for batch in islice(batches, offset, None):
                    wanted = batch.select(present)
                    for start in range(0, len(wanted), BATCH_ROWS):
                        rows = wanted.slice(start, BATCH_ROWS).to_pylist()
                        yield from (_row(row, columns, optional) for row in rows)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise CurateError(f"{path}: damaged or incomplete ({shorten(error)}). Fetch it again.") from error


def _present(path: Path, names: Sequence[str], columns: Sequence[str], optional: Sequence[str]) -> list[str]:
    _check(path, names, columns)
    return [name for name in (*columns, *optional) if name in names]


def _jsonl(
    path: Path, encoding: str, begin: RowPlace, columns: Sequence[str], optional: Sequence[str]
) -> Iterator[Row | UnreadableRow]:
    with open_text(path, encoding, offset=begin.offset) as file:
        for number, line in enumerate(file, start=begin.line):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
                if not isinstance(row, dict):
                    raise ValueError("not a JSON object")
            except (ValueError, RecursionError) as error:
                # On line 1 this means that the file is not JSONL at all; later, that one line is damaged.
                if number == 1:
                    raise CurateError(
                        f"{path}: line 1 is not a JSON object. One JSON object per line is read."
                    ) from None
                yield UnreadableRow(f"{path.name}:{number}", f"line is not a JSON object: {shorten(error)}")
                continue
            _check(path, row, columns)
            yield _row(row, columns, optional)


def _json(path: Path, encoding: str, columns: Sequence[str], optional: Sequence[str]) -> Iterator[Row]:
    try:
        with open_text(path, encoding) as file:
            rows = json.load(file)
    except (ValueError, RecursionError) as error:
        raise CurateError(f"{path}: not JSON ({shorten(error)}). Fetch it again.") from None
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise CurateError(f"{path}: not a JSON list of objects. One object per problem is read.")
    for row in rows:
        _check(path, row, columns)
        yield _row(row, columns, optional)


def _csv(path: Path, encoding: str, columns: Sequence[str], optional: Sequence[str]) -> Iterator[Row | UnreadableRow]:
    """Yield the rows of a CSV or TSV file. Their values are texts, and None if a field is empty."""
    csv.field_size_limit(_MAX_FIELD)
    with open_text(path, encoding) as file:
        reader = csv.DictReader(file, delimiter="\t" if format_of(path).startswith(".tsv") else ",", strict=True)
        try:
            for row in reader:
                _check(path, reader.fieldnames or (), columns)
                if None in row or None in row.values():
                    yield UnreadableRow(
                        f"{path.name}:{reader.line_num}", "more or fewer fields than the first line has"
                    )
                else:
                    yield _row({name: value or None for name, value in row.items()}, columns, optional)
        except csv.Error as error:
            raise CurateError(f"{path}: not CSV, near line {reader.line_num} ({error}). Fetch it again.") from None


def _row(row: Row, columns: Sequence[str], optional: Sequence[str]) -> Row:
    return {name: row.get(name) for name in (*columns, *optional)}


def _check(path: Path, present: Any, columns: Sequence[str]) -> None:
    missing = [name for name in columns if name not in present]
    if missing:
        raise CurateError(
            f"{path}: has no column {', '.join(missing)} (it has {', '.join(map(str, present))}). "
            "Is this the right file, and the right --source NAME for it? Of several files, LOCATION?files=PATTERN "
            "chooses some."
        )


def path_sha256(path: Path) -> str:
    """Return the hex digest of a file's bytes, or for a folder, of the names and digests of all files below it."""
    if path.is_dir():
        below = sorted(inner for inner in path.rglob("*") if inner.is_file())
        listed = "".join(f"{path_sha256(inner)} {inner.relative_to(path).as_posix()}\n" for inner in below)
        return hashlib.sha256(listed.encode("utf-8", "surrogateescape")).hexdigest()
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def size_bytes(path: Path) -> int:
    """Return the number of bytes of a file, or of all files below a folder."""
    files = path.rglob("*") if path.is_dir() else [path]
    return sum(file.stat().st_size for file in files if file.is_file())
