"""LiveCodeBench code_generation_lite: JSONL files of contest problems, without reference solutions.

Options are `release`, with the names in the dataset's loader, and `from` and `to`, the first and last date of contests.
"""

import base64
import io
import logging
import pickle
import re
import zlib
from collections.abc import Iterator
from dataclasses import replace
from datetime import date
from typing import Any, NoReturn

from curate.errors import CurateError
from curate.problem import Problem, Rejection
from curate.reading.dialects import json_tests, parse_function_name
from curate.reading.tables import Row, TableFiles, validate_options
from curate.reading.values import ParseError, deduplicate_cases, optional_text, parse_json, shorten
from curate.sources import make_problem, read_problems

log = logging.getLogger(__name__)

TITLE = "LiveCodeBench"
HUB_ID = "livecodebench/code_generation_lite"
LICENCE = "cc"
SIZE_DESCRIPTION = "1,055 problems up to release_v6"
DEFECTS = "an evaluation set; no solutions; some expected values are error messages; several right answers"
COLUMNS = ("question_content", "question_id", "public_test_cases", "private_test_cases", "metadata")
OPTIONAL = ("question_title", "platform", "contest_date", "starter_code", "difficulty")

# The largest private tests of the benchmark take some 100 MB when decompressed; a zip bomb could take any size.
MAX_UNPACKED_BYTES = 512 * 1024 * 1024


def select_files(table: TableFiles) -> TableFiles:
    """Restrict the table to the files of the release that its options name.

    `release_v5` means all files up to the fifth, `v5` only the fifth, and `v4_v5` the fourth and the fifth. Raises
    CurateError if the options are invalid or files of the release are missing.
    """
    options = validate_options(table, ("release", "from", "to"))
    _parse_window(table)
    release = options.get("release", "release_latest")
    if release in ("release_latest", "latest"):
        return table
    match = re.fullmatch(r"(release_)?v(\d{1,3})(?:_v(\d{1,3}))?", str(release))
    if match is None or (match[1] and match[3]) or int(match[2]) > int(match[3] or match[2]):
        raise CurateError(f"{table.location}: no release {release}. Choose release_v5, v5, v4_v5 or release_latest.")
    numbers = range(1 if match[1] else int(match[2]), int(match[3] or match[2]) + 1)
    # test.jsonl has the problems of the first release, test2.jsonl those added in the second, and so on.
    files = {int(test[1] or 1): path for path in table.files if (test := re.fullmatch(r"test(\d*)", path.stem))}
    missing = [f"test{number if number > 1 else ''}.jsonl" for number in numbers if number not in files]
    if missing:
        raise CurateError(f"{table.location}: release {release} lacks {', '.join(missing)}. Download these files.")
    return replace(table, files=tuple(files[number] for number in numbers))


def _parse_window(table: TableFiles) -> tuple[str, str]:
    """Return the first and the last date of the window, both inclusive. Raises CurateError."""
    bounds = []
    for name, unbounded in (("from", date.min), ("to", date.max)):
        try:
            bounds.append(date.fromisoformat(str(table.options.get(name, unbounded))).isoformat())
        except ValueError:
            raise CurateError(
                f"{table.location}: {name} must be a date such as 2024-08-01, not {table.options[name]}."
            ) from None
    if bounds[0] > bounds[1]:
        raise CurateError(f"{table.location}: from={bounds[0]} is after to={bounds[1]}. Exchange them.")
    return bounds[0], bounds[1]


def read(table: TableFiles) -> Iterator[Problem | Rejection]:
    """Yield problems in the order of the table, except problems of contests outside the window."""
    first, last = _parse_window(table)
    is_bounded = bool({"from", "to"} & table.options.keys())
    n_outside = 0

    def parse(id: str, row: Row) -> Problem | None:
        nonlocal n_outside
        day = optional_text(row["contest_date"])[:10]
        if is_bounded and not re.fullmatch(r"\d{4}-\d\d-\d\d", day):
            raise ParseError(f"contest_date {shorten(row['contest_date'])} is no date, so the window cannot be applied")
        if is_bounded and not first <= day <= last:
            n_outside += 1
            return None
        return _parse_row(id, row)

    yield from read_problems("livecodebench", COLUMNS, OPTIONAL, parse, table, name="question_id")
    if n_outside:
        log.info("skipped %d problems of contests before %s or after %s", n_outside, first, last)


def _parse_row(id: str, row: Row) -> Problem:
    public = parse_json(row["public_test_cases"], "public_test_cases")
    private = decode_private_tests(row["private_test_cases"])
    metadata = parse_json(row["metadata"] or "{}", "metadata")
    entry_point = parse_function_name(metadata.get("func_name"), "func_name") if isinstance(metadata, dict) else None
    starter_code = optional_text(row["starter_code"])
    if not isinstance(public, list) or not isinstance(private, list):
        raise ParseError("tests are not a list")
    tests = json_tests.parse_json_tests(public + private, entry_point, starter_code)
    return make_problem(
        id,
        tests,
        None,
        LICENCE,
        n_public_tests=len(deduplicate_cases(tests.cases[: len(public)])),
        statement=row["question_content"],
        starter_code=starter_code,
        platform=row["platform"],
        title=row["question_title"],
        date=optional_text(row["contest_date"])[:10],
        difficulty=row["difficulty"],
    )


class _PlainUnpickler(pickle.Unpickler):
    """An unpickler that refuses classes and functions, with which a pickle could execute code."""

    def find_class(self, module: str, name: str) -> NoReturn:
        raise pickle.UnpicklingError(f"it names {module}.{name}")


def decode_private_tests(encoded: object) -> Any:
    """Decode `private_test_cases`: JSON, or a pickled JSON text in zlib in base64. Raises ParseError."""
    if not isinstance(encoded, str):
        raise ParseError("private_test_cases is not text")
    if encoded.lstrip().startswith("["):
        return parse_json(encoded, "private_test_cases")
    try:
        unpacker = zlib.decompressobj()
        packed = unpacker.decompress(base64.b64decode(encoded, validate=True), MAX_UNPACKED_BYTES)
        if not unpacker.eof:
            raise ValueError(f"incomplete, or more than {MAX_UNPACKED_BYTES // 2**20} MB unpacked")
        text = _PlainUnpickler(io.BytesIO(packed)).load()
    # A damaged pickle can raise nearly any exception.
    except Exception as error:
        raise ParseError(f"private_test_cases cannot be unpacked: {shorten(error)}") from None
    return parse_json(text, "the pickle in private_test_cases")
