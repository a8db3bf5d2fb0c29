"""What a result says of a suite beside its problems: a digest of the file of its rows, and the source of its tests."""

import hashlib
from pathlib import Path

from curate.errors import CurateError
from curate.reading.location import split_location
from curate.reading.tables import locate
from train.evaluation.suites import dataset
from train.evaluation.suites.registry import SUITES, choose_suite


def file_sha256(location: str) -> str | None:
    """Return the digest of the file of rows at a location; None if that is a folder, or on the Hub."""
    path = Path(split_location(location)[0]).expanduser()
    if not path.is_file():
        return None
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def suite_tests_source(location: str, suite: str) -> str | None:
    """Return where the tests come from: "official", "official+generated", "examples", or "dataset" for a dataset's own.

    suite   the name of the suite; empty: the one that can read the rows. None is returned if there is none any more
    """
    if suite == dataset.NAME or any((Path(location).expanduser() / "data").glob("*.parquet")):
        return "dataset"
    try:
        named = next((known for known in SUITES if known.name == suite), None) or choose_suite(locate(location))
    except CurateError:
        return None
    return named.tests_source
