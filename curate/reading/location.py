"""Read the value after NAME= in --source: a place, and options for the source that reads it.

PATH?release=v5&from=2024-08-01      the options follow the place
source.toml                          both are in a file: `location`, relative to it, and the options beside it
"""

import json
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from curate.errors import CurateError
from curate.reading.text_files import toml_text
from curate.reading.values import shorten

HUB_ID = re.compile(r"[\w-]+/[\w.-]+(@[\w./-]+)?")


# A text as above, or what such a TOML file contains, with a location that is relative to the working folder.
LocationSpec = str | Mapping[str, Any]


def split_location(location: LocationSpec) -> tuple[str, dict[str, Any]]:
    """Return the place and the options of a location. Raises CurateError if they cannot be read."""
    if isinstance(location, Mapping):
        place, options = split_location(location["location"])
        return place, options | {name: value for name, value in location.items() if name != "location"}
    place, mark, query = location.partition("?")
    if not mark or Path(location).expanduser().exists():
        return _from_file(location)
    try:
        asked = parse_qsl(query, keep_blank_values=True, strict_parsing=True)
    except ValueError:
        asked = []
    if not asked or len(dict(asked)) < len(asked):
        raise CurateError(
            f"{location}: what follows the ? must look like from=2024-08-01&to=2025-02-01, with each name once."
        )
    place, options = _from_file(place)
    return place, options | dict(asked)


def _from_file(place: str) -> tuple[str, dict[str, Any]]:
    path = Path(place).expanduser()
    if path.suffix != ".toml" or not path.is_file():
        return place, {}
    try:
        options = tomllib.loads(toml_text(path))
    except tomllib.TOMLDecodeError as error:
        raise CurateError(f"{path}: not TOML ({shorten(error)}).") from None
    inner = options.pop("location", None)
    if not isinstance(inner, str) or not inner:
        raise CurateError(f'{path}: it does not say where the data is. Write: location = "PATH or Hub id"')
    if (path.parent / Path(inner).expanduser()).exists() or not HUB_ID.fullmatch(inner):
        inner = str(path.parent / Path(inner).expanduser())
    # TOML has dates. As text they are the same as in a query, and a manifest can hold them.
    return inner, json.loads(json.dumps(options, default=str))
