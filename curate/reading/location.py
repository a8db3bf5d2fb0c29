"""Parsing of the location in --source NAME=LOCATION, and the files in a folder. A location has one of the forms

PATH_OR_HUB_ID?release=v5&from=2024-08-01    a path or Hub id, optionally with options of the source
source.toml                                  a TOML file with the options and `location`, relative to the file
"""

import json
import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from curate.errors import CurateError
from curate.reading.text_files import COMPRESSION_SUFFIXES, read_toml_text
from curate.reading.values import shorten

HUB_ID = re.compile(r"[\w-]+/[\w.-]+(@[\w./-]+)?")

FORMATS = (".parquet", ".arrow", ".jsonl", ".json")
# Formats to read if a folder has no file of FORMATS.
FALLBACK_FORMATS = (
    *(f"{ending}{packing}" for ending in (".jsonl", ".json") for packing in COMPRESSION_SUFFIXES),
    *(f"{ending}{packing}" for ending in (".csv", ".tsv") for packing in ("", *COMPRESSION_SUFFIXES)),
    ".feather",
    ".ipc",
)
COLUMNAR = (".parquet", ".arrow", ".feather", ".ipc")
LISTED_FORMATS = f"{', '.join(COLUMNAR)}, .jsonl, .json, .csv or .tsv"
STATE = "state.json"  # list of the files with rows, written by `Dataset.save_to_disk`
# Files without rows, written by `datasets` and other tools of the Hub.
_METADATA_FILES = ("dataset_info.json", "dataset_infos.json", "dataset_dict.json", STATE)

# A location as text, or the content of such a TOML file with a location relative to the working folder.
LocationSpec = str | Mapping[str, Any]


def split_location(location: LocationSpec) -> tuple[str, dict[str, Any]]:
    """Split a location into a path or Hub id, and options. Raises CurateError if it cannot be parsed."""
    if isinstance(location, Mapping):
        path_or_id, options = split_location(location["location"])
        return path_or_id, options | {name: value for name, value in location.items() if name != "location"}
    path_or_id, mark, query = location.partition("?")
    if not mark or Path(location).expanduser().exists():
        return _split_toml_location(location)
    try:
        pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=True)
    except ValueError:
        pairs = []
    if not pairs or len(dict(pairs)) < len(pairs):
        raise CurateError(
            f"{location}: invalid options after the ?. Write them like from=2024-08-01&to=2025-02-01, each name once."
        )
    path_or_id, options = _split_toml_location(path_or_id)
    return path_or_id, options | dict(pairs)


def _split_toml_location(path_or_id: str) -> tuple[str, dict[str, Any]]:
    path = Path(path_or_id).expanduser()
    if path.suffix != ".toml" or not path.is_file():
        return path_or_id, {}
    try:
        options = tomllib.loads(read_toml_text(path))
    except tomllib.TOMLDecodeError as error:
        raise CurateError(f"{path}: not TOML ({shorten(error)}).") from None
    inner = options.pop("location", None)
    if not isinstance(inner, str) or not inner:
        raise CurateError(f'{path}: it has no location. Write: location = "PATH or Hub id"')
    if (path.parent / Path(inner).expanduser()).exists() or not HUB_ID.fullmatch(inner):
        inner = str(path.parent / Path(inner).expanduser())
    # Convert TOML dates to text, as in a query, because JSON has no dates.
    return inner, json.loads(json.dumps(options, default=str))


def get_format(path: Path) -> str:
    """Return the suffix of a file if it is one of FORMATS or FALLBACK_FORMATS; empty otherwise."""
    name = path.name.lower()
    if name in _METADATA_FILES:
        return ""
    return next((ending for ending in (*FALLBACK_FORMATS, *FORMATS) if name.endswith(ending)), "")


def check_format(path: Path) -> None:
    """Raise CurateError if a file has an unsupported format."""
    if get_format(path):
        return
    if path.suffix in (".zip", ".tar", ".tgz", ".txz", ".7z", ".rar") or ".tar." in path.name:
        raise CurateError(f"{path}: an archive. Unpack it, and give the folder.")
    if path.suffix in (*COMPRESSION_SUFFIXES, ".bz2"):
        raise CurateError(
            f"{path}: unsupported compression. Unpack it; .jsonl, .json, .csv and .tsv may end in .gz, .zst or .xz."
        )
    raise CurateError(
        f"{path}: not a file of rows. Give a file that ends in {LISTED_FORMATS}; the last four may also end in .gz, "
        ".zst or .xz."
    )


def find_files_with_rows(folder: Path, location: str, pattern: str | None = None) -> tuple[Path, ...]:
    """Return the files to read in a folder, in order, by the rules of `locate`. Raises CurateError if there are none.

    location  name of the folder, for error messages
    pattern   glob pattern for the paths of files; None for all
    """
    paths = list(list_files_below(folder))
    if pattern:
        matching = [path for path in paths if fnmatchcase(path.relative_to(folder).as_posix(), pattern)]
        if not matching:
            names = ", ".join(sorted(path.relative_to(folder).as_posix() for path in paths)[:5])
            raise CurateError(f"{location}: no file matches {pattern}. There are {names or 'none'}.")
        paths = matching
    for ending in (*FORMATS, *FALLBACK_FORMATS):
        files = sorted((path for path in paths if get_format(path) == ending), key=_make_sort_key)
        if files:
            train = [p for p in files if p.name.startswith("train") or p.parent.name == "train"]
            return tuple(files if pattern else train or files)
    if pattern:
        check_format(sorted(paths)[0])
    raise CurateError(f"{location}: no supported file inside ({LISTED_FORMATS}). Give the folder of the data.")


def list_files_below(folder: Path) -> Iterator[Path]:
    """Yield the files below a folder. Raises OSError or CurateError if a folder or file cannot be read."""

    def raise_error(error: OSError) -> None:
        raise error

    for parent, folders, names in os.walk(folder, onerror=raise_error):
        # Folders whose names begin with a dot are caches of download tools.
        folders[:] = [name for name in folders if not name.startswith(".")]
        visible = [name for name in names if not name.startswith(".")]
        for path in (Path(parent, name) for name in _exclude_caches(Path(parent), visible)):
            if path.is_file():
                yield path
            elif path.is_symlink() and get_format(path):
                raise CurateError(f"{path}: a link to a missing file. Download the file again, or remove the link.")


def _exclude_caches(folder: Path, names: list[str]) -> list[str]:
    """Return the names without the Arrow files in which `datasets` caches results of `map` and `filter`.

    Raises CurateError if a file in the list of `datasets` is missing.
    """
    rows = None
    if STATE in names:
        # Another program may have written a file of this name.
        with suppress(ValueError, KeyError, TypeError):
            rows = [file["filename"] for file in json.loads((folder / STATE).read_bytes())["_data_files"]]
    if rows is None:
        # `datasets` writes dataset_info.json into the folders of its download cache.
        in_cache = "dataset_info.json" in names
        return [name for name in names if not (in_cache and fnmatchcase(name, "cache-*.arrow"))]
    if missing := [name for name in rows if name not in names]:
        raise CurateError(f"{folder / STATE} names {missing[0]}, which is missing. Download it again.")
    return [name for name in names if name in rows or not name.endswith(".arrow")]


def _make_sort_key(path: Path) -> list[tuple[int, str]]:
    """Return a sort key that orders test, test2 and test10 by number."""
    parts = re.split(r"(\d+)", str(path.with_suffix("")))
    return [(int(part), "") if part.isdigit() else (-1, part) for part in parts]
