"""LiveCodeBench code_generation_lite: JSONL files of contest problems, without reference solutions."""

import base64
import io
import pickle
import zlib
from collections.abc import Iterator
from typing import Any, NoReturn

from curate.limits import limits
from curate.parsing import Unparsable, distinct, json_value, optional_text, short
from curate.problem import Problem, Rejection
from curate.signature import misfit
from curate.tables import Table, Unreadable, read_rows
from sandbox import Case, Suite

TITLE = "LiveCodeBench"
HUB_ID = "livecodebench/code_generation_lite"
LICENCE = "cc"
COLUMNS = ("question_content", "question_id", "public_test_cases", "private_test_cases", "metadata")
OPTIONAL = ("question_title", "platform", "contest_date", "starter_code", "difficulty")

# The largest private tests of the benchmark unpack to some 100 MB; a bomb to any size.
MOST_UNPACKED_BYTES = 512 * 1024 * 1024


def read(table: Table) -> Iterator[Problem | Rejection]:
    """Problems in the order of the table."""
    for position, row in enumerate(read_rows(table, COLUMNS, OPTIONAL)):
        if isinstance(row, Unreadable):
            yield Rejection(f"livecodebench/{row.place}", "livecodebench", "parse", "unparsable", row.detail)
            continue
        id = f"livecodebench/{optional_text(row['question_id']) or f'row-{position}'}"
        try:
            yield _problem(id, row)
        except Unparsable as error:
            yield Rejection(id, "livecodebench", "parse", "unparsable", str(error))


def _problem(id: str, row: dict[str, Any]) -> Problem:
    public = json_value(row["public_test_cases"], "public_test_cases")
    private = private_tests(row["private_test_cases"])
    metadata = json_value(row["metadata"] or "{}", "metadata")
    entry_point = (metadata.get("func_name") or None) if isinstance(metadata, dict) else None
    if entry_point is not None and not (isinstance(entry_point, str) and entry_point.isidentifier()):
        raise Unparsable(f"func_name is no name of a function: {short(entry_point)}")
    starter_code = optional_text(row["starter_code"])
    public_cases = _cases(public, entry_point, starter_code)
    cases = public_cases + _cases(private, entry_point, starter_code)
    return Problem(
        id=id,
        source="livecodebench",
        statement=optional_text(row["question_content"]),
        starter_code=starter_code,
        tests=Suite(distinct(cases), entry_point=entry_point, checker="lcb", limits=limits(None, None)),
        n_tests_read=len(cases),
        n_public_tests=len(distinct(public_cases)),
        solutions=None,
        platform=optional_text(row["platform"]),
        title=optional_text(row["question_title"]),
        date=optional_text(row["contest_date"])[:10],
        difficulty=optional_text(row["difficulty"]),
        licence=LICENCE,
    )


def _cases(tests: object, entry_point: str | None, starter_code: str) -> list[Case]:
    """Public and private tests alike must be of the problem's own kind: others were mixed in by mistake."""
    if not isinstance(tests, list):
        raise Unparsable("tests are not a list")
    cases = []
    for test in tests:
        if not isinstance(test, dict) or not all(isinstance(test.get(k), str) for k in ("input", "output")):
            raise Unparsable("a test has no input and output text")
        kind = "functional" if entry_point else "stdin"
        if test.get("testtype") != kind:
            raise Unparsable(f"a {test.get('testtype')} test in a {kind} problem: it belongs to another one")
        if entry_point is None:
            cases.append(Case(test["input"], test["output"]))
            continue
        # One JSON value per line. The lines' own text is kept: long integers and decimals stay as they are.
        arguments = test["input"].strip().split("\n") if test["input"].strip() else []
        values = [json_value(argument, "an argument") for argument in arguments]
        if wrong := misfit(starter_code, entry_point, values):
            raise Unparsable(f"a test of another problem: {wrong}")
        json_value(test["output"], "an expected value")  # some are error messages: "Error: list index out of range"
        cases.append(Case(f"[{', '.join(arguments)}]", test["output"]))
    return cases


class _NoClasses(pickle.Unpickler):
    """Reads plain values. A pickle that names any class or function wants to execute something."""

    def find_class(self, module: str, name: str) -> NoReturn:
        raise pickle.UnpicklingError(f"it names {module}.{name}")


def private_tests(encoded: object) -> Any:
    """Decode `private_test_cases`: JSON, or base64 of zlib of a pickled JSON text. Raises Unparsable."""
    if not isinstance(encoded, str):
        raise Unparsable("private_test_cases is not text")
    if encoded.lstrip().startswith("["):
        return json_value(encoded, "private_test_cases")
    try:
        unpacker = zlib.decompressobj()
        packed = unpacker.decompress(base64.b64decode(encoded, validate=True), MOST_UNPACKED_BYTES)
        if not unpacker.eof:
            raise ValueError(f"incomplete, or more than {MOST_UNPACKED_BYTES // 2**20} MB unpacked")
        text = _NoClasses(io.BytesIO(packed)).load()
    except Exception as error:  # a damaged pickle raises nearly anything; all of it means the same here
        raise Unparsable(f"private_test_cases cannot be unpacked: {short(error)}") from None
    return json_value(text, "the pickle in private_test_cases")
