"""The problem, one row of a dataset: the type that stages exchange, and the schema of rows on disk."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import Enum
from operator import attrgetter, itemgetter
from typing import Any

import msgspec

from sandbox import Program, Suite


class Wrapping(Enum):
    """The state of expected return values that may be wrapped in a list of one element, as in TACO.

    UNDECIDED until a reference runs.
    """

    NONE = "none"
    UNDECIDED = "undecided"
    KEPT = "kept"
    REMOVED = "removed"


@dataclass(frozen=True, slots=True)
class Problem:
    """A programming problem with its tests, or a math problem with an expected answer and no tests.

    Every field is a column, or two columns if it holds programs; see COLUMNS.
    """

    id: str
    source: str
    statement: str
    tests: Suite
    solutions: tuple[Program, ...] | None
    licence: str
    starter_code: str = ""
    language: str = ""
    n_tests_read: int = 0
    n_public_tests: int = 0
    n_pictures: int = 0
    wrapping: Wrapping = Wrapping.NONE
    verified: bool = False
    reference: Program | None = None
    n_tries: int = 0
    n_references: int = 0
    cpu_seconds: float | None = None
    slowest_cpu_seconds: float | None = None
    time_limit_seconds: float | None = None
    multi_answer_suspect: bool = False
    test_strength: float | None = None
    n_mutants: int = 0
    n_mutants_killed: int = 0
    n_mutants_equivalent: int = 0
    strongest_tests: tuple[int, ...] = ()
    platform: str = ""
    title: str = ""
    url: str = ""
    date: str = ""
    difficulty: str = ""
    tags: tuple[str, ...] = ()
    expected_answer: str = ""


@dataclass(frozen=True, slots=True)
class Rejection:
    """The rejection of a row. The last three fields are not columns of `rejected`.

    stage       name of the stage that rejected it, such as "verify"
    reason      machine-readable reason
    detail      human-readable explanation
    cause       more precise machine-readable reason; empty if there is none
    kept_id     for a duplicate: the id of the row kept instead
    similarity  for a duplicate: its Jaccard similarity with that row, to three decimals
    statement   for a row that the reader rejected: its statement; empty if unknown
    """

    id: str
    source: str
    stage: str
    reason: str
    detail: str = ""
    cause: str = ""
    kept_id: str | None = None
    similarity: float | None = None
    statement: str = ""


# name: (Arrow type, meaning). A type with "?" may be null.
COLUMNS: dict[str, tuple[str, str]] = {
    "id": ("string", "`source/native-id`, unique"),
    "source": ("string", "name of the source, as `curate sources` lists it"),
    "statement": ("string", "statement of the problem, as the source has it, without the source's prompt template"),
    "starter_code": ("string", "code with the signature that a solution must keep; empty for stdin problems"),
    "tests": ("string", "JSON text of a `sandbox.Suite`: cases, entry_point, checker, limits"),
    "n_tests": ("int32", "number of distinct (input, expected) pairs in `tests`"),
    "n_tests_read": ("int32", "number of tests in the source, including repeated ones"),
    "n_public_tests": ("int32", "number of leading cases of `tests` that the statement shows; 0: unknown"),
    "verified": (
        "bool",
        "a reference solution passed every test, twice; for an expected answer: math-verify can parse it, and finds it "
        "equal to itself",
    ),
    "reference": ("string?", "the solution that passed; null if none did"),
    "reference_language": ("string?", "language of the reference: python or cpp"),
    "n_tries": ("int32", "number of solutions executed until one passed"),
    "cpu_seconds": ("float64?", "CPU seconds of the reference over all tests (measured, so not in content_hash)"),
    "n_references": ("int32", "number of executed solutions that passed every test; 0: not verified"),
    "slowest_cpu_seconds": ("float64?", "CPU seconds of the reference on its slowest test (measured)"),
    "time_limit_seconds": (
        "float64?",
        "wall-time limit of a test in seconds: 5 times `slowest_cpu_seconds`, at least 1, at most the suite's limit "
        "(measured)",
    ),
    "multi_answer_suspect": (
        "bool",
        "solutions that the source lists as accepted give unexpected outputs on a test, which may thus have several "
        "correct outputs",
    ),
    "test_strength": (
        "float64?",
        "share of wrong programs, made from the reference by small changes, that the tests reject; null: not "
        "measured (measured with time limits, so not in content_hash)",
    ),
    "n_mutants": ("int32", "number of mutants of the reference that were executed"),
    "n_mutants_killed": ("int32", "number of mutants that the tests reject"),
    "n_mutants_equivalent": ("int32", "number of mutants equivalent to the reference, which test_strength omits"),
    "strongest_tests": (
        "list<int32>",
        "indices of tests that together kill all killed mutants, the strongest first; empty: not measured",
    ),
    "trial_outputs": (
        "list<string>",
        "for each test, the output of the reference, or its messages to an interactor (`Case.trial`); empty if as "
        "expected, longer than 16 KiB, or beyond 256 KiB in total. No entries unless a referee judges and has "
        "accepted an output (measured)",
    ),
    "wrapping": ("string", "state of expected values in one-element lists: none, undecided, kept or removed"),
    "solutions": ("list<string>?", "all solutions of the source; null if it publishes none"),
    "solution_languages": (
        "list<string>?",
        "language of each solution: python (3), python2, cpp, unknown, or another name from the source",
    ),
    "language": ("string", "programming language that the source states for the solutions; empty: not stated"),
    "n_pictures": ("int32", "number of pictures in the statement"),
    "platform": ("string", "site that published the problem, as the source names it"),
    "title": ("string", "title or name on that site"),
    "url": ("string", "URL of the problem on that site"),
    "date": ("string", "ISO date of the contest"),
    "difficulty": ("string", "difficulty as the source states it"),
    "tags": ("list<string>", "topics of the problem, as the source names them"),
    "expected_answer": ("string", "correct answer to a math problem, in LaTeX; empty for programming problems"),
    "licence": ("string", "licence of the source; statements may have other copyright holders"),
}

# Columns that differ from run to run, so the content hash omits them.
MEASURED_COLUMNS = frozenset(
    {
        "cpu_seconds",
        "slowest_cpu_seconds",
        "time_limit_seconds",
        "test_strength",
        "n_mutants",
        "n_mutants_killed",
        "n_mutants_equivalent",
        "strongest_tests",
        "trial_outputs",
    }
)
# Values of columns that earlier versions did not write. The hashes omit a column with this value, so hashes of older
# rows stay valid.
DEFAULT_VALUES: dict[str, Any] = {"expected_answer": ""}
TEST_COLUMNS = ("tests", "trial_outputs")  # columns that decode_tests reads

# The columns that the reward hash covers: the tests or the expected answer, inputs of the selection of tests and
# limits, and inputs of the exclusion of rows (curate/trust.py, and curate/exports/verl.py for the slowest test).
REWARD_COLUMNS = frozenset(
    {
        "id",
        "tests",
        "verified",
        "multi_answer_suspect",
        "strongest_tests",
        "time_limit_seconds",
        "slowest_cpu_seconds",
        "trial_outputs",
        "expected_answer",
    }
)


_FIELDS = tuple(field.name for field in fields(Problem))
_values = attrgetter(*_FIELDS)
_columns = itemgetter(*COLUMNS)


def to_row(problem: Problem) -> dict[str, Any]:
    """Return the problem as a row of plain values, in the order of COLUMNS."""
    values = dict(zip(_FIELDS, _values(problem), strict=True))
    trials = problem.tests.trials
    values["tests"] = (problem.tests.with_trials(()) if trials else problem.tests).to_json()
    values["trial_outputs"] = list(trials)
    values["n_tests"] = len(problem.tests.cases)
    values["wrapping"] = problem.wrapping.value
    values["tags"] = list(problem.tags)
    values["strongest_tests"] = list(problem.strongest_tests)
    values["solutions"] = values["solution_languages"] = values["reference_language"] = None
    if problem.solutions is not None:
        values["solutions"] = [solution.source for solution in problem.solutions]
        values["solution_languages"] = [solution.language for solution in problem.solutions]
    if problem.reference is not None:
        values["reference"] = problem.reference.source
        values["reference_language"] = problem.reference.language
    return dict(zip(COLUMNS, _columns(values), strict=True))


def from_row(row: Mapping[str, Any]) -> Problem:
    """Return the problem of a row from `to_row`. Raises KeyError, TypeError or ValueError for other rows."""
    row = DEFAULT_VALUES | dict(row)
    values = {name: row[name] for name in _FIELDS}
    values["tests"] = decode_tests(row)
    values["wrapping"] = Wrapping(row["wrapping"])
    values["tags"] = tuple(row["tags"])
    values["strongest_tests"] = tuple(row["strongest_tests"])
    if row["solutions"] is not None:
        values["solutions"] = tuple(map(Program, row["solutions"], row["solution_languages"]))
    if row["reference"] is not None:
        values["reference"] = Program(row["reference"], row["reference_language"])
    return Problem(**values)


def decode_tests(row: Mapping[str, Any]) -> Suite:
    """Decode the tests of a row with TEST_COLUMNS. Raises KeyError, TypeError or ValueError for other rows."""
    suite = Suite.from_json(row["tests"])
    return suite.with_trials(row["trial_outputs"]) if row["trial_outputs"] else suite


# Codec of problems in work files. Takes a tenth of the time of `to_row` and JSON, which encode the tests twice.
_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder(Problem)


def encode_problem(problem: Problem) -> bytes:
    """Encode a problem as a line of JSON without a newline. Raises UnicodeEncodeError for a lone surrogate."""
    return _ENCODER.encode(problem)


def decode_problem(line: bytes) -> Problem:
    """Decode a line from `encode_problem`."""
    return _DECODER.decode(line)
